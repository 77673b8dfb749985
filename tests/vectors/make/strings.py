"""Vectors of the operators on strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch, TfIdfVectorizer, and
Cast, Equal, Reshape, Where and Concat of strings.

Python decides for splits, and RE2 for matches. StringNormalizer is as ONNX's text has it: the evaluator also strips accents and looks
for stop words inside elements, of which the text says nothing.
"""
import numpy as np
import re2
from family import Family

f = Family("strings")


def s(*texts):
    return np.array(texts, object)


words = s("a", "", "zwölf", " x ", "日本", "B")
f.add("concat", "StringConcat", {"a": words, "b": words[::-1].copy()}, expected=words + words[::-1])
f.add("concat_broadcast", "StringConcat", {"a": words.reshape(2, 3, 1), "b": s("1", "2")}, expected=words.reshape(2, 3, 1) + s("1", "2"))
f.add("concat_rank_0", "StringConcat", {"a": np.array("x", object), "b": np.array("y", object)}, expected=np.array("xy", object))
f.add("concat_nothing", "StringConcat", {"a": np.zeros((0, 2), object), "b": s("1", "2")}, expected=np.zeros((0, 2), object))
f.add("concat_of_shapes_that_do_not_fit", "StringConcat", {"a": s("a", "b"), "b": s("a", "b", "c")}, fails=True)


def split(x, delimiter, most):
    parts = [t.split(delimiter or None, -1 if most is None else most) for t in x.reshape(-1)]
    width = max((len(p) for p in parts), default=0)
    y = np.array([p + [""] * (width - len(p)) for p in parts], object).reshape(*x.shape, width)
    return [y, np.array([len(p) for p in parts], np.int64).reshape(x.shape)]


texts = s("a,b,,c", "", ",", "abc", "a, b", "é,ü")
for delimiter in [",", ", ", "b", ""]:
    for most in [None, 0, 1, 2, 9]:
        attributes = {"delimiter": delimiter} if delimiter or most else {}
        if most is not None:
            attributes["maxsplit"] = most
        f.add(f"split_by_{delimiter.replace(', ', 'comma_space').replace(',', 'comma') or 'space'}_at_most_{most}", "StringSplit",
              {"x": texts}, outputs=2, attributes=attributes, expected=split(texts, delimiter, most))
spaced = s("  a b\t\nc ", "one", "   ", "").reshape(2, 2)
f.add("split_by_runs_of_space", "StringSplit", {"x": spaced}, outputs=2, expected=split(spaced, None, None))
f.add("split_by_space_once_with_space_behind", "StringSplit", {"x": s("  a b  c  ", "x ")}, outputs=2, attributes={"maxsplit": 1},
      expected=[s("a", "b  c", "x", "").reshape(2, 2), np.array([2, 1])])
f.add("split_rank_0", "StringSplit", {"x": np.array("x y", object)}, outputs=2, expected=split(np.array("x y", object), None, None))
f.add("split_nothing", "StringSplit", {"x": np.zeros((0, 3), object)}, outputs=2,
      expected=[np.zeros((0, 3, 0), object), np.zeros((0, 3), np.int64)])

for name, attributes, expected in [
    ("lower", {"case_change_action": "LOWER"}, s("monday", "tuesday", "Äpfel".lower(), "")),
    ("upper", {"case_change_action": "UPPER"}, s("MONDAY", "TUESDAY", "ÄPFEL", "")),
    ("as_they_are", {}, s("Monday", "tuesday", "Äpfel", "")),
    ("without_stops", {"stopwords": ["monday"], "is_case_sensitive": 1}, s("Monday", "tuesday", "Äpfel", "")),
    ("without_exact_stops", {"stopwords": ["Monday"], "is_case_sensitive": 1, "case_change_action": "LOWER"}, s("tuesday", "äpfel", "")),
    ("without_stops_of_any_case", {"stopwords": ["MONDAY", "äpfel"], "case_change_action": "UPPER"}, s("TUESDAY", "")),
    ("without_all", {"stopwords": ["monday", "tuesday", "äpfel", ""]}, s("")),
]:
    x = s("Monday", "tuesday", "Äpfel", "")
    f.add(f"normalize_{name}", "StringNormalizer", {"x": x}, attributes=attributes, expected=expected)
    f.add(f"normalize_row_{name}", "StringNormalizer", {"x": x[None]}, attributes=attributes, expected=expected[None])
f.add("normalize_two_rows", "StringNormalizer", {"x": s("a", "b").reshape(2, 1)}, fails=True)
f.add("normalize_to_unknown_case", "StringNormalizer", {"x": s("a")}, attributes={"case_change_action": "TITLE"}, fails=True)

lines = s("abc", "ab", "www.example.com", "ABC", "", "a\nb", "żółw").reshape(7, 1)
for name, pattern in [("letters", "[a-z]+"), ("alternatives", "a|ab|abc"), ("address", r"www\.[\w.-]+\.\bcom\b"), ("anything", ".*"),
                      ("nothing", ""), ("ignoring_case", "(?i)abc"), ("counted", "[a-c]{2,3}"), ("words", r"\w+"), ("property", r"\pL+"),
                      ("octal", r"\141b\143?"), ("quoted", r"\Qwww.\E.*"), ("braces", "a{,2}bc|ab"), ("bytes", r"\Cb\C|\C{7}"), ("joined_classes", "[a&&b[]+c?"),
                      ("other_letters", r"[^\pL]*")]:
    f.add(f"match_{name}", "RegexFullMatch", {"x": lines}, attributes={"pattern": pattern},
          expected=np.array([bool(re2.fullmatch(pattern, t)) for t in lines.reshape(-1)]).reshape(lines.shape))
for name, pattern in [("escape", r"\u0061"), ("flag", "(?x)a"), ("stacked", "a**"), ("count", "a{1001}"), ("range", "[a--b]")]:
    f.add(f"match_bad_{name}", "RegexFullMatch", {"x": lines}, attributes={"pattern": pattern}, fails=True)
f.add("match_bad_pattern", "RegexFullMatch", {"x": lines}, attributes={"pattern": "(("}, fails=True)

# Bytes that are no text: Latin 1, half a character, and a surrogate.
latin, half, surrogate = b"caf\xe9", b"\xc3", b"\xed\xa0\x80"
f.add("bytes_equal", "Equal", {"a": s(latin, half, surrogate), "b": s(latin, b"\xc4", "")}, expected=np.array([True, False, False]))
f.add("bytes_concat", "StringConcat", {"a": s(latin, half), "b": s(half, b"\xa9")}, expected=s(latin + half, "é"))
f.add("bytes_split", "StringSplit", {"x": s(b"a,\xff,b")}, outputs=2, attributes={"delimiter": ","}, expected=[s("a", b"\xff", "b")[None], np.array([3])])
f.add("bytes_split_by_space", "StringSplit", {"x": s(b" \xff \xe9\xe8\t")}, outputs=2, expected=[s(b"\xff", b"\xe9\xe8")[None], np.array([2])])
f.add("bytes_upper", "StringNormalizer", {"x": s(latin, half)}, attributes={"case_change_action": "UPPER"}, expected=s(b"CAF\xe9", half))
f.add("bytes_without_stops", "StringNormalizer", {"x": s(latin, half)}, attributes={"stopwords": [half], "is_case_sensitive": 1}, expected=s(latin))
f.add("bytes_match", "RegexFullMatch", {"x": s(latin, "caf", "café")}, attributes={"pattern": r"caf\C*"}, expected=np.array([True, True, True]))
f.add("bytes_match_no_character", "RegexFullMatch", {"x": s(latin, "café")}, attributes={"pattern": "caf."}, expected=np.array([False, True]))
f.add("bytes_unique", "Unique", {"x": s(latin, half, latin, "a")}, outputs=2, expected=[s("a", latin, half), np.array([3, 0, 1])])
f.add("bytes_gather", "Gather", {"x": s(latin, half), "i": np.array([1, 0, 1])}, expected=s(half, latin, half))

f.add("bytes_labels", "ai.onnx.ml::LabelEncoder", {"x": s(latin, half)}, attributes={"keys_strings": [latin], "values_int64s": [7]},
      opsets={"ai.onnx.ml": 4}, expected=np.array([7, -1]))
f.add("bytes_as_labels", "ai.onnx.ml::LabelEncoder", {"x": np.array([1, 2, 3])}, attributes={
    "keys_int64s": [1, 2], "values_strings": [latin, half], "default_string": surrogate}, opsets={"ai.onnx.ml": 4}, expected=s(latin, half, surrogate))
f.add("bytes_ngrams", "TfIdfVectorizer", {"x": s(latin, half, latin)}, attributes={
    "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0], "ngram_indexes": [0, 1],
    "pool_strings": [half, latin]}, expected=np.array([1, 2], np.float32))

pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
rows = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
for mode in ["TF", "IDF", "TFIDF"]:
    for least, most, skips in [(1, 1, 0), (2, 2, 0), (2, 2, 5), (1, 2, 5), (1, 2, 0)]:
        for name, x in [("rows", rows), ("vector", rows[1].astype(np.int32))]:
            f.add(f"ngrams_{mode.lower()}_{least}{most}{skips}_{name}", "TfIdfVectorizer", {"x": x}, attributes={
                "mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips, "ngram_counts": [0, 4],
                "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": pool, "weights": [1.0, 0.5, 2.0, 0.25, 3.0, 1.5, 0.125]})
f.add("ngrams_of_strings", "TfIdfVectorizer", {"x": s("a", "b", "a", "b", "c")}, attributes={
    "mode": "TF", "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 1, "ngram_counts": [0, 2, 6],
    "ngram_indexes": [3, 0, 1, 2, 4], "pool_strings": ["a", "c", "a", "b", "b", "a", "a", "b", "a"]})

f.add("equal", "Equal", {"a": words, "b": s("a", "x", "zwölf", "x", "日本", "b")}, expected=np.array([1, 0, 1, 0, 1, 0], bool))
f.add("equal_broadcast", "Equal", {"a": words.reshape(6, 1), "b": s("", "B")}, expected=words.reshape(6, 1) == s("", "B"))
f.add("where", "Where", {"c": np.array([[True], [False]]), "a": words, "b": s("-")},
      expected=np.array([words, ["-"] * 6], object))
f.add("join", "Concat", {"a": words, "b": s("x")}, attributes={"axis": 0}, expected=s(*words, "x"))
f.add("reshape_and_transpose", [__import__("onnx").helper.make_node("Reshape", ["x", "to"], ["m"]),
      __import__("onnx").helper.make_node("Transpose", ["m"], ["y"])], {"x": words}, constants={"to": np.array([2, 3])},
      outputs=["y"], expected=[words.reshape(2, 3).T.copy()])
STRING = 8
numbers = {"f32": np.array([0.1, -0.0, 1e-5, 1e16, 123456.78, 3, np.nan, np.inf, -np.inf], np.float32),
           "f64": np.array([0.1, 1 / 3, 1e-5, 1e16, 1e15, 2.5e-310, np.nan, -np.inf]),
           "i64": np.array([0, -5, 2**63 - 1, -2**63]), "bool": np.array([True, False])}
for name, x in numbers.items():
    f.add(f"print_{name}", "Cast", {"x": x}, attributes={"to": STRING}, expected=x.astype(str).astype(object))
f.add("parse_floats", "Cast", {"x": s("1.5", "-2e3", "NaN", "INF", "-inf", " 7 ")}, attributes={"to": 1},
      expected=np.array([1.5, -2000, np.nan, np.inf, -np.inf, 7], np.float32))
f.add("parse_integers", "Cast", {"x": s("12", "-7", str(2**63 - 1))}, attributes={"to": 7}, expected=np.array([12, -7, 2**63 - 1]))
f.add("parse_no_number", "Cast", {"x": s("one")}, attributes={"to": 1}, fails=True)
f.write()
