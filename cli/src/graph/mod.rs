//! Draws a model's graph. The colour of a node shows how it runs, or how long it takes.
//!
//! Consecutive repeated blocks of nodes, for example the layers of a transformer, are drawn once, in a frame.

mod arrange;
mod dot;
mod fold;
mod html;
mod layout;
mod picture;
mod repeat;
mod svg;
mod times;

pub(crate) use times::Times;

use crate::error::{Error, Result};
use bb::Module;
use bb::coverage::Coverage;
use std::ops::Range;
use std::path::Path;

/// The options of a drawing.
#[derive(Default)]
pub(crate) struct Options {
    /// The times of the nodes, which determine their colours.
    pub(crate) times: Option<Times>,
    /// Whether repeated blocks are drawn each time that they occur.
    pub(crate) whole: bool,
}

/// The kind of a box, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input,
    Output,
    Native,
    Lowered,
    Host,
    Unsupported,
    /// A node whose results are not used.
    Unused,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Input, Kind::Output, Kind::Native, Kind::Lowered, Kind::Host, Kind::Unsupported, Kind::Unused];

    fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Output => "output",
            Kind::Native => "native",
            Kind::Lowered => "lowered",
            Kind::Host => "host",
            Kind::Unsupported => "unsupported",
            Kind::Unused => "unused",
        }
    }

    /// Returns the colour of the box, which is light enough for black text.
    fn colour(self) -> &'static str {
        match self {
            Kind::Input | Kind::Output => "#e8e8ec",
            Kind::Native => "#b9e4c0",
            Kind::Lowered => "#b8d5f5",
            Kind::Host => "#fbd9a0",
            Kind::Unsupported => "#f6a9a6",
            Kind::Unused => "#ffffff",
        }
    }
}

/// A box: an input, an output, or a node.
struct Drawn {
    kind: Kind,
    /// The operator of a node, or the name of an input or output.
    title: String,
    /// The name of a node, or the type of an input or output.
    subtitle: String,
    /// The lines of the tooltip.
    details: Vec<String>,
    /// A hash that is equal for nodes that look the same: nodes with the same operator, attributes and types of results.
    looks: u64,
    /// The time of the node in a run in seconds, if it is known.
    seconds: Option<f64>,
}

/// A value that one box computes and another box reads.
struct Edge {
    from: usize,
    to: usize,
    /// The name and the type.
    details: String,
}

/// A block of boxes that represents several consecutive copies.
struct Frame {
    boxes: Range<usize>,
    copies: usize,
    details: Vec<String>,
}

impl Frame {
    fn title(&self) -> String {
        format!("{} times, {} nodes each", self.copies, self.boxes.len())
    }
}

/// A graph as boxes: the inputs, the nodes and the outputs. Each box comes after the boxes that it reads.
struct Picture {
    title: String,
    boxes: Vec<Drawn>,
    edges: Vec<Edge>,
    frames: Vec<Frame>,
    /// The time of a run in seconds, if the picture has times.
    run: Option<f64>,
}

impl Picture {
    /// Returns a box's share of the time of a run.
    fn share(&self, drawn: &Drawn) -> Option<f64> {
        Some(times::share(drawn.seconds?, self.run?))
    }
}

/// Draws a model's graph to a file. The file's extension determines the format.
pub(crate) fn draw(path: &Path, module: &Module, coverage: &Coverage, options: &Options) -> Result<()> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let whole = Picture::of(module.graph(), coverage, options.times.as_ref());
    let folded = (!options.whole).then(|| fold::folded(&whole)).filter(|folded| !folded.frames.is_empty());
    let text = match extension.as_str() {
        "svg" => svg::text(folded.as_ref().unwrap_or(&whole)),
        "html" | "htm" => html::text(&whole, folded.as_ref()),
        "dot" | "gv" => dot::text(folded.as_ref().unwrap_or(&whole)),
        _ => return Err(Error::PictureForm { path: path.to_owned() }),
    };
    std::fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Draws a model's graph with its times as SVG, which is embedded in a page.
pub(crate) fn with_times(module: &Module, coverage: &Coverage, times: &Times) -> String {
    let whole = Picture::of(module.graph(), coverage, Some(times));
    svg::text(&fold::folded(&whole))
}

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    svg::escaped(text)
}

/// Shortens text to `most` characters by removing its middle, because names often differ at their ends.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let (head, tail) = (most.saturating_sub(1) / 3, most.saturating_sub(1) - most.saturating_sub(1) / 3);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghijk", 10), "abc…fghijk");
        assert_eq!(shortened("äöüäöüäöüäö", 4), "ä…äö");
        assert_eq!(shortened("ab", 0), "…");
    }
}
