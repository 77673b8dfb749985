//! Writes the picture in Graphviz's DOT language. Graphviz computes its own layout.

use super::svg::heat;
use super::{Kind, Picture, shortened};
use bb_ir::text::is_hidden;
use std::fmt::Write;

/// Returns the picture as DOT text.
pub(super) fn text(picture: &Picture) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _infallible = (|| -> std::fmt::Result {
        writeln!(text, "digraph {} {{", quoted(&picture.title))?;
        writeln!(text, "  node [style=\"filled,rounded\", shape=box, fontname=Helvetica, fontsize=11];")?;
        for (i, drawn) in picture.boxes.iter().enumerate() {
            let label = format!("{}\n{}", shortened(&drawn.title, 40), shortened(&drawn.subtitle, 60));
            let shape = if matches!(drawn.kind, Kind::Input | Kind::Output) { ", shape=ellipse" } else { "" };
            writeln!(
                text,
                "  n{i} [label={}, tooltip={}, fillcolor=\"{}\", class={}{shape}];",
                quoted(&label),
                quoted(&drawn.details.join("\n")),
                picture.share(drawn).map_or_else(|| drawn.kind.colour().to_owned(), heat),
                drawn.kind.name(),
            )?;
        }
        for (i, frame) in picture.frames.iter().enumerate() {
            let (label, tooltip) = (quoted(&frame.title()), quoted(&frame.details.join("\n")));
            write!(text, "  subgraph cluster_{i} {{ label={label}; tooltip={tooltip};")?;
            for at in frame.boxes.clone() {
                write!(text, " n{at};")?;
            }
            writeln!(text, " }}")?;
        }
        for edge in &picture.edges {
            let details = quoted(&edge.details);
            writeln!(text, "  n{} -> n{} [tooltip={details}, labeltooltip={details}];", edge.from, edge.to)?;
        }
        writeln!(text, "}}")
    })();
    text
}

/// Quotes text. A line feed becomes Graphviz's escape for a line break. Other invisible characters are replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if is_hidden(c) => quoted.push('\u{fffd}'),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_cannot_end_a_string() {
        assert_eq!(quoted("a\"b\\c\nd\0\u{202e}"), "\"a\\\"b\\\\c\\nd\u{fffd}\u{fffd}\"");
        assert_eq!(quoted("\\\""), "\"\\\\\\\"\"");
    }
}
