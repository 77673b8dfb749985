//! Writes the picture as SVG. The `<title>` of a box or an edge is its tooltip.

use super::arrange::{Arranged, TITLE as FRAME_TITLE, arrange};
use super::layout::{HEIGHT, Point};
use super::{Drawn, Frame, Kind, Picture, shortened};
use bb_ir::text::is_hidden;
use std::fmt::Write;

/// The margin around the picture.
const MARGIN: f64 = 24.0;
/// The height of the legend.
const LEGEND: f64 = 36.0;
/// The maximum numbers of characters of a title and of a subtitle.
const TITLE: usize = 28;
const SUBTITLE: usize = 34;

const STYLE: &str = "\
text{font-family:Helvetica,Arial,sans-serif;fill:#111}\
.t{font-size:12px;font-weight:600;text-anchor:middle}\
.s{font-size:9px;fill:#444;text-anchor:middle}\
.l{font-size:11px}\
.legend.coverage{display:none}\
.b{stroke:#667;stroke-width:1}\
.unused{stroke-dasharray:3 2}\
.e{fill:none;stroke:#8890a0;stroke-width:1.4}\
.e:hover{stroke:#d0451b;stroke-width:3}\
.f{fill:#fafbfd;stroke:#9aa3b5;stroke-width:1}\
.h{fill:#e6eaf3;stroke:#9aa3b5}\
.ht{font-size:11px;font-weight:600;fill:#334;paint-order:stroke;stroke:#e6eaf3;stroke-width:3px}\
.n:hover .b{stroke:#d0451b;stroke-width:2}";

/// Returns the picture as SVG text.
pub(super) fn text(picture: &Picture) -> String {
    let arranged = arrange(picture);
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| picture.boxes.iter().any(|b| b.kind == *kind)).collect();
    let legend_width =
        if picture.run.is_some() { SCALE.max(legend_width(&kinds)) } else { legend_width(&kinds) };
    let width = (arranged.width + 2.0 * MARGIN).max(legend_width + 2.0 * MARGIN);
    let height = arranged.height + 2.0 * MARGIN + LEGEND;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _infallible = (|| -> std::fmt::Result {
        writeln!(
            text,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}">"#
        )?;
        writeln!(text, "<title>{}</title>\n<style>{STYLE}</style>", escaped(&picture.title))?;
        writeln!(text, r##"<rect width="100%" height="100%" fill="#fff"/>"##)?;
        // A page shows one of the two legends.
        if picture.run.is_some() {
            write!(text, r#"<g class="legend time">"#)?;
            scale(&mut text)?;
            write!(text, r#"</g><g class="legend coverage">"#)?;
            legend(&mut text, &kinds)?;
            writeln!(text, "</g>")?;
        } else {
            legend(&mut text, &kinds)?;
        }
        let left = (width - arranged.width) / 2.0;
        writeln!(text, r#"<g transform="translate({left:.1} {:.1})">"#, MARGIN + LEGEND)?;
        all_frames(&mut text, &arranged)?;
        all_edges(&mut text, picture, &arranged)?;
        titles(&mut text, picture, &arranged)?;
        for (drawn, at) in picture.boxes.iter().zip(&arranged.boxes) {
            one_box(&mut text, picture, drawn, *at)?;
        }
        writeln!(text, "</g>\n</svg>")
    })();
    text
}

fn all_frames(text: &mut String, arranged: &Arranged) -> std::fmt::Result {
    for area in &arranged.frames {
        // Two frames behind the frame indicate further copies.
        for back in [8.0, 4.0, 0.0] {
            writeln!(
                text,
                r#"<rect class="f" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="8"/>"#,
                area.x + back,
                area.y + back,
                area.width,
                area.height
            )?;
        }
        writeln!(
            text,
            r#"<rect class="h" x="{:.1}" y="{:.1}" width="{:.1}" height="{FRAME_TITLE}" rx="8"/>"#,
            area.x, area.y, area.width,
        )?;
    }
    Ok(())
}

/// Draws the titles of the frames on top of the edges.
fn titles(text: &mut String, picture: &Picture, arranged: &Arranged) -> std::fmt::Result {
    for (frame, area) in picture.frames.iter().zip(&arranged.frames) {
        let details: Vec<String> = frame.details.iter().map(|line| escaped(line)).collect();
        writeln!(
            text,
            r#"<text class="ht" x="{:.1}" y="{:.1}">{}<title>{}</title></text>"#,
            area.x + 10.0,
            area.y + 15.0,
            escaped(&frame.title()),
            details.join("\n"),
        )?;
    }
    Ok(())
}

fn all_edges(text: &mut String, picture: &Picture, arranged: &Arranged) -> std::fmt::Result {
    for (edge, points) in picture.edges.iter().zip(&arranged.edges) {
        let mut points = points.iter();
        let Some(mut last) = points.next().copied() else { continue };
        write!(text, r#"<path class="e" d="M{:.1} {:.1}"#, last.x, last.y)?;
        for next in points {
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
            last = *next;
        }
        writeln!(text, r#""><title>{}</title></path>"#, escaped(&edge.details))?;
    }
    Ok(())
}

fn one_box(text: &mut String, picture: &Picture, drawn: &Drawn, at: Point) -> std::fmt::Result {
    let (kind, width) = (drawn.kind, width(drawn));
    let fill = match picture.share(drawn) {
        Some(share) => format!(r#"fill="{}" data-coverage="{}""#, heat(share), kind.colour()),
        None => format!(r#"fill="{}""#, kind.colour()),
    };
    let details: Vec<String> = drawn.details.iter().map(|line| escaped(line)).collect();
    // Inputs and outputs of the model have round ends.
    let round = if matches!(kind, Kind::Input | Kind::Output) { HEIGHT / 2.0 } else { 5.0 };
    writeln!(
        text,
        r#"<g class="n"><title>{}</title><rect class="b {}" x="{:.1}" y="{:.1}" width="{width:.1}" height="{HEIGHT}" rx="{round}" {fill}/><text class="t" x="{:.1}" y="{:.1}">{}</text><text class="s" x="{:.1}" y="{:.1}">{}</text></g>"#,
        details.join("\n"),
        kind.name(),
        at.x - width / 2.0,
        at.y,
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

/// The width of the colour scale for times.
const SCALE: f64 = 330.0;

/// Draws the colour scale for shares of the time.
fn scale(text: &mut String) -> std::fmt::Result {
    let y = MARGIN - 10.0;
    for (place, share) in [0.0, 0.01, 0.03, 0.1, 0.3].into_iter().enumerate() {
        let x = MARGIN + 62.0 * place as f64;
        writeln!(
            text,
            r#"<rect class="b" x="{x:.1}" y="{y}" width="14" height="14" rx="3" fill="{}"/><text class="l" x="{:.1}" y="{}">{:.0} %</text>"#,
            heat(share),
            x + 19.0,
            y + 11.0,
            100.0 * share
        )?;
    }
    writeln!(text, r#"<text class="l" x="{:.1}" y="{}">of a run</text>"#, MARGIN + 305.0, y + 11.0)
}

/// Returns the colour for a share of the time, from white through yellow to red. The scale is logarithmic, so that small shares are
/// visible, too.
pub(super) fn heat(share: f64) -> String {
    let depth = (1.0 + (share.max(1e-9) / 0.3).log10() / 2.5).clamp(0.0, 1.0);
    let stops = [(255.0, 255.0, 255.0), (255.0, 237.0, 160.0), (252.0, 166.0, 84.0), (240.0, 100.0, 75.0)];
    let at = depth * (stops.len() - 1) as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let [low, high] =
        [below, below + 1].map(|stop| stops.get(stop.min(stops.len() - 1)).copied().unwrap_or_default());
    let mix = |from: f64, to: f64| (from + (to - from) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

/// Returns the width that the title of a frame takes.
pub(super) fn frame_width(frame: &Frame) -> f64 {
    6.2 * frame.title().chars().count() as f64
}

fn legend_entry(kind: Kind) -> f64 {
    37.0 + 6.2 * kind.name().len() as f64
}

fn legend_width(kinds: &[Kind]) -> f64 {
    kinds.iter().map(|kind| legend_entry(*kind)).sum()
}

/// Returns the width of a box, which depends on its text.
pub(super) fn width(drawn: &Drawn) -> f64 {
    let title = shortened(&drawn.title, TITLE).chars().count() as f64 * 7.4;
    let subtitle = shortened(&drawn.subtitle, SUBTITLE).chars().count() as f64 * 5.1;
    (title.max(subtitle) + 20.0).max(52.0)
}

/// Escapes text for XML elements and attributes. Characters that XML does not allow are replaced.
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
            // XML does not allow these characters (XML 1.0, section 2.2).
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            // Invisible characters are replaced, because they could make different names look the same.
            c if is_hidden(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_time_is_more_red() {
        assert_eq!((heat(0.0), heat(1.0)), ("#ffffff".to_owned(), "#f0644b".to_owned()));
        let blue = |share: f64| u8::from_str_radix(heat(share).get(5..).unwrap_or_default(), 16).unwrap_or(0);
        assert!([0.0, 0.01, 0.1, 0.3].map(blue).is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn special_characters_of_xml_are_escaped() {
        assert_eq!(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escaped("\0\u{1b}[31m\u{202e}x\ny"), "\u{fffd}\u{fffd}[31m\u{fffd}x y");
        assert_eq!(escaped("模型 ü"), "模型 ü");
    }
}
