//! Checks the numbers of a JSON schema, as they are written in its text.
//!
//! The library `llguidance` stores numbers as doubles. A number that a double cannot represent would silently become a different
//! number, and integers near the limits of 64 bits would overflow. Only the text of the schema has the original numbers.

use super::refusal::Refusal;
use crate::gguf::shortened;

/// The maximum magnitude of a number. Integers up to it are exact.
const MOST: f64 = 9_007_199_254_740_992.0;
/// The keywords with a bound of a range. For an exclusive bound, the library adds or subtracts 1, and the result must be exact,
/// too.
const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/// A list or object that is not closed yet.
enum Frame<'a> {
    /// The last key, without its quotes, and whether the next string is a key.
    Object {
        key: &'a str,
        wants_key: bool,
    },
    List {
        index: usize,
    },
}

/// Checks that a double represents each number of a schema exactly. The text must be valid JSON.
pub(super) fn check(text: &str) -> Result<(), Refusal> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        at += 1;
        match byte {
            b'{' => frames.push(Frame::Object { key: "", wants_key: true }),
            b'[' => frames.push(Frame::List { index: 0 }),
            b'}' | b']' => {
                frames.pop();
            }
            b',' => match frames.last_mut() {
                Some(Frame::Object { wants_key, .. }) => *wants_key = true,
                Some(Frame::List { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = at + end_of_text(text.as_bytes().get(at..).unwrap_or_default());
                if let Some(Frame::Object { key, wants_key: wants_key @ true }) = frames.last_mut() {
                    *key = text.get(at..end).unwrap_or_default();
                    *wants_key = false;
                }
                at = end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = text.get(at - 1..).unwrap_or_default();
                let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
                let number = rest.split(|c| !is_part(c)).next().unwrap_or_default();
                at += number.len().saturating_sub(1);
                let is_bound =
                    matches!(frames.last(), Some(Frame::Object { key, .. }) if BOUNDS.contains(key));
                if !exact(number, if is_bound { MOST - 1.0 } else { MOST }) {
                    return Err(Refusal::Number { path: path(&frames), number: shortened(number) });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the length of a string up to its closing quote.
fn end_of_text(bytes: &[u8]) -> usize {
    let mut escaped = false;
    let closes = |byte: &u8| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    };
    bytes.iter().position(closes).unwrap_or(bytes.len())
}

/// Returns true if a double represents a number exactly as written, which means that the shortest decimal of the double is the
/// same number.
fn exact(number: &str, most: f64) -> bool {
    let Ok(held) = number.parse::<f64>() else { return false };
    held.abs() <= most && digits(number) == digits(&format!("{held:e}"))
}

/// Returns the digits of a decimal number without leading and trailing zeros, and the power of ten of the last digit.
fn digits(number: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_end_matches('0');
    let zeros = (all.len() - significant.len()) as i64;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let exponent: i64 = exponent.trim_start_matches('+').parse().ok()?;
    Some((significant.to_owned(), exponent.checked_add(zeros)?.checked_sub(fraction.len() as i64)?))
}

/// Formats the location of a number as a JSON pointer.
fn path(frames: &[Frame<'_>]) -> String {
    let mut path = String::new();
    for frame in frames {
        path.push('/');
        match frame {
            Frame::Object { key, .. } => path.push_str(key),
            Frame::List { index } => path.push_str(&index.to_string()),
        }
    }
    shortened(&path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<(String, String)> {
        serde_json::from_str::<serde_json::Value>(text).unwrap();
        match check(text) {
            Ok(()) => None,
            Err(Refusal::Number { path, number }) => Some((path, number)),
            Err(other) => panic!("{other}"),
        }
    }

    /// A double represents all integers up to 2^53. The other numbers are the shortest decimals of doubles.
    #[test]
    fn numbers_that_a_double_holds_pass() {
        for number in [
            "0",
            "-0",
            "0.0",
            "-1",
            "1e3",
            "1E+3",
            "10.50",
            "0.1",
            "1e-7",
            "0.000001",
            "9007199254740992",
            "-9007199254740992",
            "9.007199254740992e15",
            "123456.789e-3",
            "4503599627370495.5",
            "1e15",
            "5e-324",
            "2.2250738585072014e-308",
        ] {
            assert_eq!(refused(&format!(r#"{{"const": {number}}}"#)), None, "{number}");
        }
    }

    #[test]
    fn other_numbers_are_refused_with_their_path() {
        for number in [
            "9007199254740993",
            "-9007199254740993",
            "12345678901234567890",
            "-9223372036854775808",
            "-1000000000000000001",
            "18446744073709551615",
            "-1e19",
            "1e300",
            "0.1000000000000000055511151231257827",
            "1.00000000000000000001",
            "9007199254740992.5",
            "1e-400",
        ] {
            let found = refused(&format!(r#"{{"a": [true, {{"b\"c": {{"enum": ["\\", {number}]}}}}]}}"#));
            assert_eq!(found, Some((r#"/a/1/b\"c/enum/1"#.to_owned(), number.to_owned())), "{number}");
        }
        assert!(refused(r#"{"exclusiveMinimum": 9007199254740992}"#).is_some());
        assert!(refused(r#"{"maximum": 9007199254740991}"#).is_none());
        assert!(refused(r#"{"const": "9007199254740993", "x9007199254740993": 1}"#).is_none());
        let long = "9".repeat(300);
        let (_, number) = refused(&format!(r#"{{"const": {long}}}"#)).unwrap();
        assert!(number.len() < 120, "{number}");
    }
}
