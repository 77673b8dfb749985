//! Named character classes, and the rules for names of groups in a pattern.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The names of Unicode's general categories.
const CATEGORIES: &str =
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs";

/// The names of Unicode's scripts.
const SCRIPTS: &str = "\
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi \
    Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform \
    Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic \
    Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew \
    Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi \
    Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian \
    Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive \
    Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu \
    Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian \
    Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician \
    Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo \
    Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan \
    Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square";

/// The maximum number of characters of a pattern that an error message repeats.
const SHOWN: usize = 20;

/// Returns the class `\d`, `\s` or `\w`, which only have ASCII characters.
pub(super) fn perl(name: char) -> ClassUnicode {
    match name {
        'd' => of(&[('0', '9')]),
        's' => of(&[('\t', '\n'), ('\x0C', '\r'), (' ', ' ')]),
        _ => of(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]),
    }
}

/// Returns the class `[:name:]`.
pub(super) fn posix(name: &str) -> Option<ClassUnicode> {
    Some(match name {
        "alnum" => of(&[('0', '9'), ('A', 'Z'), ('a', 'z')]),
        "alpha" => of(&[('A', 'Z'), ('a', 'z')]),
        "ascii" => of(&[('\0', '\x7F')]),
        "blank" => of(&[('\t', '\t'), (' ', ' ')]),
        "cntrl" => of(&[('\0', '\x1F'), ('\x7F', '\x7F')]),
        "digit" => of(&[('0', '9')]),
        "graph" => of(&[('!', '~')]),
        "lower" => of(&[('a', 'z')]),
        "print" => of(&[(' ', '~')]),
        "punct" => of(&[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        "space" => of(&[('\t', '\r'), (' ', ' ')]),
        "upper" => of(&[('A', 'Z')]),
        "word" => perl('w'),
        "xdigit" => of(&[('0', '9'), ('A', 'F'), ('a', 'f')]),
        _ => return None,
    })
}

fn of(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|&(first, last)| ClassUnicodeRange::new(first, last)))
}

/// Returns the class `\p{name}`.
pub(super) fn unicode(name: &str) -> Option<ClassUnicode> {
    let is_in = |names: &str| names.split(' ').any(|own| own == name);
    match name {
        "Any" => Some(of(&[('\0', char::MAX)])),
        // In RE2, `C` excludes unassigned code points, and no text contains a surrogate.
        "C" => parsed(r"[\p{Cc}\p{Cf}\p{Co}]"),
        "Cs" => Some(of(&[])),
        _ if is_in(CATEGORIES) => parsed(&format!(r"\p{{gc={name}}}")),
        _ if is_in(SCRIPTS) => parsed(&format!(r"\p{{sc={name}}}")),
        _ => None,
    }
}

/// Returns a class as the crate `regex_syntax` defines it.
fn parsed(pattern: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        // The parser represents a class of one character as a literal.
        HirKind::Literal(text) => {
            let c = std::str::from_utf8(&text.0).ok()?.chars().next()?;
            Some(of(&[(c, c)]))
        }
        _ => None,
    }
}

/// Returns whether a string is a valid name of a group: letters, marks, digits and underscores.
pub(super) fn is_name(name: &str) -> bool {
    let classes = ["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd", "Pc"];
    let is_word = |c: char| {
        let has = |class: ClassUnicode| class.ranges().iter().any(|r| r.start() <= c && c <= r.end());
        classes.iter().filter_map(|class| unicode(class)).any(has)
    };
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii() && is_word(c))
}

/// Returns the beginning of a string, for an error message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
