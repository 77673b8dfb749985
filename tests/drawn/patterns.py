r"""Draws regular expressions and texts, and prints what RE2 makes of them: one JSON object per line.

`python tests/drawn/patterns.py COUNT [SEED [FIRST]]`, with the package `google-re2`. The pattern number I of a seed is always
the same; FIRST is the number of the first one.

    {"number": 7, "pattern": "a(b", "refused": "missing ): a(b"}
    {"number": 8, "pattern": "a|ab", "cases": [{"text": "xab", "full": false, "longest": [1, 3], "from": 2, "later": null}]}

`full` says whether the whole text matches. `longest` is the leftmost-longest match, as offsets in bytes of UTF-8, or null.
`later` is the leftmost-longest match that begins at `from` or after it; the text before `from` still counts for `\b` and `^`.
What is not UTF-8 is base64, in `pattern64` and `text64` instead of `pattern` and `text`.
"""
import base64
import json
import random
import sys

import re2

POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()
PROPERTIES = """L Lu Ll Lt Lm Lo M Mn Mc N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cs Greek Latin Cyrillic
Han Hiragana Katakana Arabic Hebrew Thai Common Inherited Any Braille""".split()
UNKNOWN = ["Foo", "Cn", "LC", "L&", "lu", "greek", "Letter", "IsGreek", "Script=Greek", "Alphabetic", "", "ANY", "^^L"]
LETTERS = list("abcABCkKsSxyz019_-.,:;!@#%&~'\"/<>= \t\n\r\v\f")
# Letters whose cases fold unusually, combining marks, and characters of two, three and four bytes.
OTHERS = list("éÉßẞſKΩωΩσςΣǅıİµμ\u0301あ漢１٣\u00a0\u2028\u0085\u200b😀𝒳𐐀𐐨\ufeff\uffff\U0010ffff")
SPECIAL = list(".^$*+?()[]{}|\\-")


class Draw:
    """Draws a pattern as parts of text; each part can draw a text that it may match."""

    def __init__(self, dice):
        self.dice = dice
        self.names = 0
        self.wrong = dice.random() < 0.25

    def one(self, choices):
        return self.dice.choice(choices)

    def chance(self, of):
        return self.dice.random() < of

    def character(self):
        return self.one(LETTERS) if self.chance(0.85) else self.one(OTHERS)

    def written(self, character):
        """Returns a way to write one literal character outside of classes."""
        code = ord(character)
        ways = [character if character not in SPECIAL else "\\" + character] * 6
        if code < 128 and not character.isalnum():
            ways.append("\\" + character)
        ways.append("\\x{%x}" % code)
        if self.chance(0.3):
            ways.append("\\x{%06X}" % code if code >> 20 == 0 else "\\x{%X}" % code)
        if code < 256:
            ways.append("\\x%02x" % code)
        if code < 512:
            ways.append("\\%03o" % code)
        if code < 64:
            ways += ["\\0%o" % code, "\\%02o" % code]
        named = {"\a": "\\a", "\f": "\\f", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\v": "\\v"}
        if character in named:
            ways += [named[character]] * 3
        return self.one(ways)

    def odd(self):
        """Returns what RE2 refuses, or takes for something that other engines do not."""
        return self.one([
            "\\Z", "\\G", "\\h", "\\H", "\\R", "\\X", "\\e", "\\cA", "\\u0041", "\\U00000041", "\\N", "\\_", "\\é", "\\<", "\\>", "\\1", "\\8",
            "\\07", "\\18", "\\400", "\\777", "\\0", "\\00", "\\000", "\\08", "\\x", "\\x{", "\\x{}", "\\x{110000}", "\\x{10ffff}",
            "\\x{D800}", "\\xg0", "\\x4", "\\x{41", "\\x{ 41}", "\\", "\\E", "\\Q", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#a)",
            "(?x)a b", "(?u)a", "(?a)a", "(?L)a", "(?i", "(?", "(", ")", "(?P<n", "(?P<n>", "(?P=n)", "(?P<>a)", "(?P<1a>b)", "(?P<é>b)",
            "(?P<a-b>c)", "(?P>n)", "(?'n'a)", "(?<n>a)(?P<n>b)", "[", "]", "[]", "[]a]", "[^]", "[^]a]", "[a", "[z-a]", "[a-\\d]", "[\\d-z]",
            "[a-b-c]", "[--a]", "[a--b]", "[a--]", "[a&&b]", "[a~~b]", "[[a]]", "[[:word:]", "[[:foo:]]", "[[:^foo:]]", "[:alpha:]", "[[.a.]]",
            "[[=a=]]", "[\\b]", "[\\B]", "[\\A]", "[\\C]", "[\\Q]\\E]", "[\\pZ-a]", "[a-[:digit:]]", "[a-]", "[-a]", "[^-a]", "[a\\-z]", "[\\]]",
            "[^\\x00-\\x{10FFFF}]", "[\\x{10000}-\\x{10FFFF}]", "[[:ascii:]-z]", "{", "}", "{1}", "{,2}", "{1", "{a}", "a{,2}", "a{1", "a{1,",
            "a{1,2", "a{ 1 }", "a{1, 2}", "a{-1}", "a{2,1}", "a{0}", "a{0,0}", "a{1000}", "a{1001}", "a{1,1001}", "a{1000,}", "a{01}",
            "a{99999999999}", "(a{100}){10}", "(a{100}){11}", "((a{10}){10}){10}", "((a{10}){10}){11}", "(a*){1000}", "*", "+", "?", "|*",
            "(*)", "^*", "$+", "\\b*", "\\b+", "(^)*", "(|a)*", "(|a)+", "(a|)*", "()*", "(?:)*", "a**", "a*+", "a*??", "a+*", "a?*", "a{2}*",
            "a{2}{3}", "a*{2}", "a{2}+", "a??", "a+?", "a*?", "a{2}?", "a{2,}?", "a{,2}?", "\\Q*\\E*", "\\Qab\\E+", "\\Q\\\\E", "\\Q\\E*",
            "(?i)*", "(?i)(?-i)*", "(?i:)", "(?-)", "(?i-)", "(?-:a)", "(?--i)", "(?i-s-m)", "(?^i:a)", "(?iU)a+", "(?is-mU)a.b", "(?-U)a+", "\\pN*",
            "\\p", "\\p{", "\\p{L", "\\P{^L}", "\\p{^Greek}", "\\pé", "\\p^", "\\p{Any}", "\\PL", "(?i)\\p{Lu}", "(?i)[^k]", "(?i)[^\\x{212a}]",
            "(?i)ſ", "(?i)\\x{17f}", "(?i)K", "(?i)ß", "(?i)Ω", "(?i)[α-ω]", "(?s).", "(?-s).", "(?m)^", "(?m)$", "(?m)^$", "a$b", "a^b", "$^",
            "\\A\\z", "\\z\\A", "\\Aa\\z", "\\Ba", "\\b\\B", "\\C", "\\C*", "\\C\\C", "(?i)\\C", "a\\Cb", "\\C{3}", "(?:\\C\\C)*", "\\Cé",
        ])

    def piece(self, depth):
        kind = self.dice.random()
        if self.wrong and kind < 0.12:
            return self.odd()
        if depth > 0 and kind < 0.3:
            return self.group(depth)
        if kind < 0.45:
            return self.bracket()
        if kind < 0.53:
            return self.one(["\\d", "\\D", "\\s", "\\S", "\\w", "\\W"])
        if kind < 0.59:
            return self.named()
        if kind < 0.66:
            return "."
        if kind < 0.72:
            return self.one(["^", "$", "\\A", "\\z", "\\b", "\\B"])
        if kind < 0.74:
            return "\\C"
        if kind < 0.77:
            return "\\Q" + "".join(self.one(LETTERS + SPECIAL) for _ in range(self.dice.randrange(4))) + self.one(["\\E", "\\E", "\\E", ""])
        return "".join(self.written(self.character()) for _ in range(self.dice.randint(1, 3)))

    def named(self):
        name = self.one(PROPERTIES) if not self.wrong or self.chance(0.8) else self.one(UNKNOWN)
        mark, caret = self.one(["p", "p", "P"]), "^" if self.chance(0.15) else ""
        return f"\\{mark}{name}" if len(name) == 1 and not caret and self.chance(0.5) else f"\\{mark}{{{caret}{name}}}"

    def bracket(self):
        items = []
        for _ in range(self.dice.randint(1, 4)):
            kind = self.dice.random()
            if kind < 0.4:
                items.append(self.in_class(self.character()))
            elif kind < 0.65:
                ends = [self.character(), self.character()]
                if not self.wrong or self.chance(0.7):
                    ends.sort()
                items.append("-".join(self.in_class(end) for end in ends))
            elif kind < 0.75:
                items.append(f"[:{self.one(['', '', '^'])}{self.one(POSIX)}:]")
            elif kind < 0.87:
                items.append(self.one(["\\d", "\\D", "\\s", "\\S", "\\w", "\\W"]))
            elif kind < 0.95:
                items.append(self.named())
            else:
                items.append(self.one(SPECIAL + ["&&", "~~", "--", "\\b", "\\B", "\\Q", "\\E", "\\A", "\\8", "\\_"]) if self.wrong else "^")
        if items[0].startswith("^") and not self.wrong:
            items.insert(0, "a")
        dash = self.dice.random()
        inner = "".join(items)
        inner = "-" + inner if dash < 0.05 else inner + "-" if dash < 0.1 else inner
        inner = "]" + inner if self.chance(0.03) else inner
        return "[" + ("^" if self.chance(0.25) else "") + inner + "]"

    def in_class(self, character):
        code = ord(character)
        plain = character if character not in "[]\\^-" else "\\" + character
        ways = [plain] * 6 + ["\\x{%x}" % code]
        if code < 128 and not character.isalnum():
            ways.append("\\" + character)
        if code < 256:
            ways.append("\\x%02x" % code)
        if code < 512:
            ways.append("\\%03o" % code)
        return self.one(ways)

    def flags(self):
        letters = "imsU" if not self.wrong or self.chance(0.8) else "imsUuxaLn-"
        on = "".join(self.one(letters) for _ in range(self.dice.randrange(3)))
        off = "-" + "".join(self.one(letters) for _ in range(self.dice.randint(1, 2))) if self.chance(0.3) else ""
        return on + off or "i"

    def group(self, depth):
        inside = self.alternatives(depth - 1)
        kind = self.dice.random()
        if kind < 0.35:
            return f"({inside})"
        if kind < 0.65:
            return f"(?:{inside})"
        if kind < 0.75:
            return f"(?{self.flags()}:{inside})"
        if kind < 0.87:
            return f"(?{self.flags()}){inside}"
        self.names += 1
        return f"(?{self.one(['P', ''])}<n{self.names}>{inside})"

    def repeated(self, depth):
        piece = self.piece(depth)
        kind = self.dice.random()
        if kind > 0.38:
            return piece
        low = self.dice.randrange(4)
        count = self.one(["*", "*", "+", "+", "?", "?", f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + self.dice.randrange(3)}}}"])
        if self.wrong and self.chance(0.2):
            count = self.one([f"{{{low + 1},{low}}}", f"{{,{low}}}", "{1001}", "{", "{}", "{a}", "**", "+*", "{2}{3}", "{1000}", "{ 1}", "{1 ,2}"])
        lazy = "?" if self.chance(0.2) else ""
        if piece in ("^", "$", "\\A", "\\z", "\\b", "\\B") or len(piece) < 2 or piece[0] in "([" or piece[0] == "\\" and len(piece) == 2:
            return piece + count + lazy
        return f"(?:{piece}){count}{lazy}" if self.chance(0.8) else piece + count + lazy

    def alternatives(self, depth):
        many = self.one([1, 1, 1, 2, 2, 3])
        return "|".join(self.sequence(depth) for _ in range(many))

    def sequence(self, depth):
        return "".join(self.repeated(depth) for _ in range(self.one([0, 1, 1, 1, 2, 2, 3])))

    def pattern(self):
        # Alternatives with a common beginning are what leftmost-longest is about.
        if self.chance(0.1):
            beginning = self.repeated(1)
            text = "|".join(beginning + self.sequence(1) for _ in range(self.dice.randint(2, 3)))
        else:
            text = self.alternatives(self.one([0, 1, 2, 3]))
        if self.chance(0.12):
            text = f"(?{self.flags()})" + text
        data = text.encode()
        if self.wrong and self.chance(0.15) and data:
            # A byte more, less or other, which may leave what is not UTF-8.
            at = self.dice.randrange(len(data))
            data = self.one([data[:at] + data[at + 1:], data[:at] + bytes([self.dice.randrange(256)]) + data[at:],
                             data[:at] + self.one(SPECIAL).encode() + data[at:]])
        return data


def longest():
    options = re2.Options()
    options.longest_match, options.log_errors = True, False
    return options


def first():
    options = re2.Options()
    options.log_errors = False
    return options


def text(draw, pattern):
    """Draws a text of characters that the pattern has, and others."""
    own = [c for c in pattern.decode(errors="replace") if c not in "\\()[]{}|"] or ["a"]
    letters = [draw.one(own) if draw.chance(0.65) else draw.character() for _ in range(draw.one([0, 1, 1, 2, 2, 3, 4, 6, 9]))]
    letters = [c.swapcase() if draw.chance(0.15) else c for c in letters]
    if draw.chance(0.15) and letters:
        letters = [letters[0]] * draw.dice.randint(1, 8)
    data = "".join(letters).encode()
    if draw.chance(0.03) and data:
        at = draw.dice.randrange(len(data))
        data = data[:at] + bytes([draw.dice.randrange(128, 256)]) + data[at:]
    return data


def field(name, data):
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + "64": base64.b64encode(data).decode()}


def span(found):
    return list(found.span()) if found else None


def drawn(seed, number):
    """Returns what RE2 makes of one pattern."""
    draw = Draw(random.Random(f"{seed} {number}"))
    pattern = draw.pattern()
    record = {"number": number, **field("pattern", pattern)}
    try:
        whole, search = re2.compile(pattern, first()), re2.compile(pattern, longest())
    except re2.error as error:
        message = error.args[0] if error.args else ""
        return {**record, "refused": message.decode(errors="replace") if isinstance(message, bytes) else str(message)}
    cases = []
    for _ in range(4):
        data = text(draw, pattern)
        # A character begins here, as in every search after a match.
        starts = [i for i in range(len(data) + 1) if i == len(data) or data[i] & 0xC0 != 0x80]
        start = draw.one(starts)
        cases.append({**field("text", data), "full": whole.fullmatch(data) is not None, "longest": span(search.search(data)),
                      "from": start, "later": span(search.search(data, start))})
    return {**record, "cases": cases}


def main():
    count, seed, begin = (int(argument) for argument in (sys.argv[1:] + ["1000", "1", "0"][len(sys.argv) - 1:])[:3])
    for number in range(begin, begin + count):
        print(json.dumps(drawn(seed, number)))


if __name__ == "__main__":
    main()
