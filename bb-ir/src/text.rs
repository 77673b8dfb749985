//! Safe display of untrusted text.
//!
//! Names in a model or a request may contain any characters: some clear a terminal, some start a new line that looks like a
//! message of the program, and some reverse the reading order. Names may also have millions of characters. Text for
//! people goes through [`shown`], or through [`printable`] if it has several lines of its own.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

/// The maximum number of characters of a name that [`shown`] writes.
pub const LONGEST: usize = 256;

/// The maximum number of characters of a sentence that [`sentence`] writes.
pub const LONGEST_SENTENCE: usize = 2048;

/// The maximum number of names that [`listed`] writes.
pub const MOST_LISTED: usize = 20;

/// Formats a name on one line: invisible characters are escaped as in Rust literals, and a name longer than [`LONGEST`] is
/// truncated.
///
/// # Examples
///
/// ```
/// use bb_ir::text::shown;
/// assert_eq!(shown("x\u{1b}[2J\n").to_string(), "x\\u{1b}[2J\\n");
/// assert_eq!(shown("größe").to_string(), "größe");
/// assert!(shown("x".repeat(5_000_000)).to_string().ends_with("x…"));
/// ```
pub fn shown<T: Display>(name: T) -> Shown<T> {
    Shown { text: name, most: LONGEST }
}

/// Formats a sentence that contains names, as [`shown`] does, but truncates it after [`LONGEST_SENTENCE`] characters.
pub fn sentence<T: Display>(sentence: T) -> Shown<T> {
    Shown { text: sentence, most: LONGEST_SENTENCE }
}

/// Formats a string on one line, as [`shown`] does, but truncates it after `most` characters.
pub fn within<T: Display>(most: usize, text: T) -> Shown<T> {
    Shown { text, most }
}

/// Formats a list of names in brackets: each name is in quotation marks and written by [`shown`]. After the first
/// [`MOST_LISTED`] names, only the number of the other names is written.
///
/// # Examples
///
/// ```
/// assert_eq!(bb_ir::text::listed(&["x", "y"]).to_string(), r#"["x", "y"]"#);
/// ```
pub fn listed<S: AsRef<str>>(names: &[S]) -> Listed<'_, S> {
    Listed(names)
}

/// Escapes the invisible characters of a string, except line feeds.
///
/// This is for whole messages and tables that are written to a terminal. It does not truncate. It cannot distinguish line feeds
/// of the program from line feeds in a name, so names in the string must have gone through [`shown`] before.
pub fn printable(text: &str) -> Cow<'_, str> {
    let escaped = |c: char| c != '\n' && is_hidden(c);
    if !text.chars().any(escaped) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if escaped(c) { printable.push_str(&escape(c)) } else { printable.push(c) }
    }
    Cow::Owned(printable)
}

/// Returns whether a character is invisible and affects how other characters are displayed: control and format characters, and
/// line and paragraph separators.
///
/// Source: the Unicode Character Database, general categories Cc, Cf, Zl and Zp.
pub fn is_hidden(c: char) -> bool {
    // Fast path: nearly all text is ASCII.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Escapes a character as in a Rust literal.
fn escape(c: char) -> String {
    if c.is_ascii() { c.escape_debug().to_string() } else { c.escape_unicode().to_string() }
}

/// A value that is formatted safely; see [`shown`].
#[derive(Debug, Clone, Copy)]
pub struct Shown<T> {
    text: T,
    most: usize,
}

impl<T: Display> Display for Shown<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut cut = Cut { to: f, left: self.most, is_cut: false };
        write!(cut, "{}", self.text)?;
        if cut.is_cut { f.write_char('…') } else { Ok(()) }
    }
}

/// A list of names that is formatted safely; see [`listed`].
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a, S>(&'a [S]);

impl<S: AsRef<str>> Display for Listed<'_, S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (i, name) in self.0.iter().take(MOST_LISTED).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}\"{}\"", shown(name.as_ref()))?;
        }
        match self.0.len().checked_sub(MOST_LISTED) {
            None | Some(0) => f.write_char(']'),
            Some(more) => write!(f, ", and {more} more]"),
        }
    }
}

/// A writer that escapes the text written to it, and truncates it after `left` characters.
struct Cut<'a, 'f> {
    to: &'a mut Formatter<'f>,
    left: usize,
    is_cut: bool,
}

impl Write for Cut<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let Some(left) = self.left.checked_sub(1) else {
                self.is_cut = true;
                return Ok(());
            };
            self.left = left;
            if is_hidden(c) {
                self.to.write_str(&escape(c))?
            } else {
                self.to.write_char(c)?
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        Ok(())
    }
}

/// Returns whether a string contains `word` as a whole word: `bf16` does not contain the word `f16`.
pub fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|t| t.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

/// The texts that [`parse_bool`] accepts, for error messages.
pub const BOOL_FORM: &str = "`true`, `false`, `1` or `0`";

/// Parses an option that is true or false: `true`, `false`, `1` or `0`, in upper or lower case. Returns `None` for any other
/// text.
pub fn parse_bool(text: &str) -> Option<bool> {
    let is = |names: [&str; 2]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    match (is(["true", "1"]), is(["false", "0"])) {
        (false, false) => None,
        (truth, _) => Some(truth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_or_the_order_of_reading_is_escaped() {
        let evil = "a\u{1b}]0;b\u{7}\r\n\0\t\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{e0041}z";
        let readable = "a\\u{1b}]0;b\\u{7}\\r\\n\\0\\t\\u{7f}\\u{9b}2J\\u{202e}\\u{2066}\\u{200b}\\u{2028}\\u{feff}\\u{e0041}z";
        assert_eq!(shown(evil).to_string(), readable);
        assert_eq!(printable(evil), readable.replace("\\n", "\n"));
        // Escaping twice changes nothing.
        assert_eq!(shown(readable).to_string(), readable);
        assert_eq!(listed(&[evil, "b"]).to_string(), format!("[\"{readable}\", \"b\"]"));
    }

    #[test]
    fn a_word_is_not_part_of_another() {
        assert!(has_word("`exp` does not take f16", "f16") && has_word("f16: no", "f16"));
        assert!(!has_word("no bf16 here, nor f16x", "f16"));
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        for text in ["größe", "переменная", "变量", "चर", "משתנה", "é", "a b", "`\"\\'"]
        {
            assert_eq!(shown(text).to_string(), text);
            assert!(matches!(printable(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        for (text, whole) in [("ü".repeat(LONGEST), true), ("ü".repeat(LONGEST + 1), false)] {
            let shown = shown(&text).to_string();
            assert_eq!(shown.chars().count(), if whole { LONGEST } else { LONGEST + 1 });
            assert_eq!(shown.ends_with('…'), !whole);
        }
        let names: Vec<String> = (0..100_000).map(|i| format!("{i}{}", "n".repeat(1000))).collect();
        let list = listed(&names).to_string();
        assert!(list.ends_with(", and 99980 more]") && list.len() < 8000, "{}", list.len());
    }

    #[test]
    fn options_that_are_true_or_false_have_four_spellings() {
        assert_eq!(["true", "1", "True"].map(parse_bool), [Some(true); 3]);
        assert_eq!(["false", "0", "FALSE"].map(parse_bool), [Some(false); 3]);
        assert_eq!(["", "yes", "on", "2", "true "].map(parse_bool), [None; 5]);
    }
}
