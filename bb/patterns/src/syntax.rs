//! Patterns as RE2 reads them, written for the library, and what the library says of wrong ones.

/// The innermost reason, which says where in the pattern the trouble is.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => reason(cause),
        None => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// Rewrites what means something else to the engine than to RE2.
pub(crate) fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    // How many characters of a class in brackets are behind; the first one may be a bracket that closes nothing.
    let mut class: Option<usize> = None;
    while let Some(c) = rest.chars().next() {
        let (one, after) = rest.split_at(c.len_utf8());
        let two = after.chars().next();
        let taken = match (c, two) {
            ('\\', Some('Q')) => {
                let quoted = after.get(1..).unwrap_or_default();
                let (text, next) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                text.chars().for_each(|c| escaped(&mut out, c));
                rest = next;
                continue;
            }
            ('\\', Some(escape)) => {
                match (escape, class) {
                    ('d', _) => out.push_str("[0-9]"),
                    ('D', _) => out.push_str("[^0-9]"),
                    ('w', _) => out.push_str("[0-9A-Za-z_]"),
                    ('W', _) => out.push_str("[^0-9A-Za-z_]"),
                    ('s', _) => out.push_str("[\\t\\n\\f\\r ]"),
                    ('S', _) => out.push_str("[^\\t\\n\\f\\r ]"),
                    ('b', None) => out.push_str("(?-u:\\b)"),
                    ('B', None) => out.push_str("(?-u:\\B)"),
                    ('<' | '>', _) => out.push(escape),
                    _ => out.extend(['\\', escape]),
                }
                1 + escape.len_utf8()
            }
            ('[', _) if class.is_none() => {
                class = Some(0);
                out.push('[');
                if two == Some('^') {
                    out.push('^');
                }
                rest = after.strip_prefix('^').unwrap_or(after);
                continue;
            }
            ('[', Some(':')) => match after.find(":]") {
                Some(end) => {
                    let end = one.len() + end + 2;
                    out.push_str(rest.get(..end).unwrap_or_default());
                    end
                }
                None => {
                    out.push_str("\\[");
                    1
                }
            },
            ('[', _) => {
                out.push_str("\\[");
                1
            }
            (']', _) if class.is_some_and(|count| count > 0) => {
                out.push(']');
                class = None;
                rest = after;
                continue;
            }
            // Doubled, they join classes.
            ('-' | '&' | '~', Some(next)) if class.is_some() && next == c => {
                out.extend([c, '\\', c]);
                2
            }
            _ => {
                out.push(c);
                one.len()
            }
        };
        class = class.map(|count| count + 1);
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Writes a character that stands for itself.
fn escaped(out: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        out.push('\\');
    }
    // An underscore and the angles are no operators, and no escape either.
    if matches!(c, '<' | '>' | '_') {
        out.pop();
    }
    out.push(c);
}
