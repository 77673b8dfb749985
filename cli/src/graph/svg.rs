//! Writes the picture as SVG. The `<title>` of a box or an edge is the text that appears under the pointer.

use super::layout::{HEIGHT, Layout, Point, Problem, place};
use super::{Drawn, Kind, Picture, shortened};
use std::fmt::Write;

/// The margin around the picture.
const MARGIN: f64 = 24.0;
/// The height of the line that explains the colours.
const LEGEND: f64 = 36.0;
/// The greatest number of characters of a title and of a subtitle.
const TITLE: usize = 28;
const SUBTITLE: usize = 34;

const STYLE: &str = "\
text{font-family:Helvetica,Arial,sans-serif;fill:#111}\
.t{font-size:12px;font-weight:600;text-anchor:middle}\
.s{font-size:9px;fill:#444;text-anchor:middle}\
.l{font-size:11px}\
.b{stroke:#667;stroke-width:1}\
.unused{stroke-dasharray:3 2}\
.e{fill:none;stroke:#8890a0;stroke-width:1.4}\
.e:hover{stroke:#d0451b;stroke-width:3}\
.n:hover .b{stroke:#d0451b;stroke-width:2}";

/// Writes the picture.
pub(super) fn text(picture: &Picture) -> String {
    let widths = picture.boxes.iter().map(width).collect();
    let edges = picture.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = place(&Problem { widths, edges });
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| picture.boxes.iter().any(|b| b.kind == *kind)).collect();
    let width = (layout.width + 2.0 * MARGIN).max(legend_width(&kinds) + 2.0 * MARGIN);
    let height = layout.height + 2.0 * MARGIN + LEGEND;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _infallible = (|| -> std::fmt::Result {
        writeln!(
            text,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}">"#
        )?;
        writeln!(text, "<title>{}</title>\n<style>{STYLE}</style>", escaped(&picture.title))?;
        writeln!(text, r##"<rect width="100%" height="100%" fill="#fff"/>"##)?;
        legend(&mut text, &kinds)?;
        let left = (width - layout.width) / 2.0;
        writeln!(text, r#"<g transform="translate({left:.1} {:.1})">"#, MARGIN + LEGEND)?;
        all_edges(&mut text, picture, &layout)?;
        for (drawn, at) in picture.boxes.iter().zip(&layout.boxes) {
            one_box(&mut text, drawn, *at)?;
        }
        writeln!(text, "</g>\n</svg>")
    })();
    text
}

fn all_edges(text: &mut String, picture: &Picture, layout: &Layout) -> std::fmt::Result {
    for (edge, bends) in picture.edges.iter().zip(&layout.bends) {
        let (Some(from), Some(to)) = (layout.boxes.get(edge.from), layout.boxes.get(edge.to)) else {
            continue;
        };
        let mut last = Point { y: from.y + HEIGHT, ..*from };
        write!(text, r#"<path class="e" d="M{:.1} {:.1}"#, last.x, last.y)?;
        for &next in bends.iter().chain([to]) {
            let middle = (last.y + next.y) / 2.0;
            if (last.x - next.x).abs() < 0.05 {
                write!(text, "V{:.1}", next.y)?;
            } else {
                write!(
                    text,
                    "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}",
                    last.x, next.x, next.x, next.y
                )?;
            }
            last = next;
        }
        writeln!(text, r#""><title>{}</title></path>"#, escaped(&edge.details))?;
    }
    Ok(())
}

fn one_box(text: &mut String, drawn: &Drawn, at: Point) -> std::fmt::Result {
    let (kind, width) = (drawn.kind, width(drawn));
    let details: Vec<String> = drawn.details.iter().map(|line| escaped(line)).collect();
    // Inputs and outputs of the model have round ends.
    let round = if matches!(kind, Kind::Input | Kind::Output) { HEIGHT / 2.0 } else { 5.0 };
    writeln!(
        text,
        r#"<g class="n"><title>{}</title><rect class="b {}" x="{:.1}" y="{:.1}" width="{width:.1}" height="{HEIGHT}" rx="{round}" fill="{}"/><text class="t" x="{:.1}" y="{:.1}">{}</text><text class="s" x="{:.1}" y="{:.1}">{}</text></g>"#,
        details.join("\n"),
        kind.name(),
        at.x - width / 2.0,
        at.y,
        kind.colour(),
        at.x,
        at.y + 14.5,
        escaped(&shortened(&drawn.title, TITLE)),
        at.x,
        at.y + 27.0,
        escaped(&shortened(&drawn.subtitle, SUBTITLE)),
    )
}

fn legend(text: &mut String, kinds: &[Kind]) -> std::fmt::Result {
    let mut x = MARGIN;
    for &kind in kinds {
        let (name, y) = (kind.name(), MARGIN - 10.0);
        writeln!(
            text,
            r#"<rect class="b {name}" x="{x:.1}" y="{y}" width="14" height="14" rx="3" fill="{}"/><text class="l" x="{:.1}" y="{}">{name}</text>"#,
            kind.colour(),
            x + 19.0,
            y + 11.0
        )?;
        x += legend_entry(kind);
    }
    Ok(())
}

fn legend_entry(kind: Kind) -> f64 {
    37.0 + 6.2 * kind.name().len() as f64
}

fn legend_width(kinds: &[Kind]) -> f64 {
    kinds.iter().map(|kind| legend_entry(*kind)).sum()
}

/// Returns the width of a box, which depends on its text.
fn width(drawn: &Drawn) -> f64 {
    let title = shortened(&drawn.title, TITLE).chars().count() as f64 * 7.4;
    let subtitle = shortened(&drawn.subtitle, SUBTITLE).chars().count() as f64 * 5.1;
    (title.max(subtitle) + 20.0).max(52.0)
}

/// Escapes text for XML elements and attributes; characters that XML does not allow are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            // XML 1.0, section 2.2.
            '\0'..'\u{20}' | '\u{7f}'..'\u{a0}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            // Characters that change the direction of text could make a name look like another, so they are
            // replaced.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_xml_are_escaped() {
        assert_eq!(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escaped("\0\u{1b}[31m\u{202e}x\ny"), "\u{fffd}\u{fffd}[31m\u{fffd}x y");
        assert_eq!(escaped("模型 ü"), "模型 ü");
    }
}
