//! Formats errors with their causes, tables and numbers for users.

use bb::RowProof;
use bb_ir::text::{MOST_LISTED, printable, sentence, shown, within};
use comfy_table::{ContentArrangement, presets};
use std::fmt;
use std::io::{IsTerminal, Write};

/// Prints an error and its causes to standard error, each on its own line.
pub(crate) fn error(error: &dyn std::error::Error) {
    let mut out = std::io::stderr().lock();
    // Disables colours if the variable is set and not empty, see https://no-color.org.
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (red, plain) = if wanted && out.is_terminal() { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
    let mut cause = error.source();
    // A failure is ignored, because there is no other place to report it.
    let _closed = writeln!(out, "{red}error:{plain} {}", printable(&error.to_string()));
    while let Some(source) = cause {
        let _closed = writeln!(out, "  because: {}", printable(&source.to_string()));
        cause = source.source();
    }
}

/// Formats an error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

/// A table for users. Untrusted text cannot break out of its cell.
pub(crate) struct Table(comfy_table::Table);

/// Creates a table with a header. On a terminal, the table is as wide as the terminal.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(presets::NOTHING).set_header(header.map(|cell| shown(cell).to_string()));
    // A terminal of unknown size reports 0 columns.
    if table.width().is_some_and(|columns| columns > 0) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    Table(table)
}

impl Table {
    /// Adds a row of cells with one line each. Very long cells are truncated.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item: fmt::Display>) {
        self.0.add_row(cells.into_iter().map(|cell| sentence(cell).to_string()));
    }

    /// Adds several rows.
    pub(crate) fn add_rows<R: IntoIterator<Item: fmt::Display>>(
        &mut self,
        rows: impl IntoIterator<Item = R>,
    ) {
        rows.into_iter().for_each(|row| self.add_row(row));
    }

    /// Adds a row of trusted texts, which may have several lines.
    pub(crate) fn add_lines(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Formats a shape like the options, as in `1,3,224,224`.
pub(crate) fn extents(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Lists names in backticks.
pub(crate) fn names<S: AsRef<str>>(names: &[S]) -> String {
    let mut list: Vec<String> =
        names.iter().take(MOST_LISTED).map(|name| format!("`{}`", shown(name.as_ref()))).collect();
    if names.len() > MOST_LISTED {
        list.push(format!("and {} more", names.len() - MOST_LISTED));
    }
    list.join(", ")
}

/// Formats a suggestion, if there is one.
pub(crate) fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{}`?", shown(name)))
}

/// Formats a duration with a suitable unit.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.2} µs", s * 1e6),
    }
}

/// Formats a number of bytes with a suitable unit.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        b if bytes < 1 << 10 => format!("{b} bytes"),
        b if bytes < 1 << 20 => format!("{:.1} KiB", b / 1024.0),
        b if bytes < 1 << 30 => format!("{:.1} MiB", b / f64::from(1 << 20)),
        b => format!("{:.2} GiB", b / f64::from(1 << 30)),
    }
}

/// Formats a type and shape, as in `f32[1, n, 3]`.
pub(crate) fn ty(ty: &bb_ir::graph::ValueType) -> String {
    use bb_ir::graph::{Dim, ValueType};
    match ty {
        ValueType::Unknown => "?".to_owned(),
        ValueType::Tensor { dtype, shape: None } => format!("{dtype}[..]"),
        ValueType::Tensor { dtype, shape: Some(dims) } => {
            let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
            format!("{dtype}[{}]", dims.join(", "))
        }
        ValueType::Sequence(of) => format!("sequence of {}", self::ty(of)),
        ValueType::Optional(of) => format!("optional {}", self::ty(of)),
        ValueType::Map(key, of) => format!("map from {key} to {}", self::ty(of)),
    }
}

/// Describes whether rows are independent. Control characters from the model are removed.
pub(crate) fn rows(proof: &RowProof) -> String {
    match proof {
        RowProof::Unproven { node, op, reason } if !node.is_empty() => {
            format!("not known to be independent: node `{}` ({}) {}", plain(node), plain(op), plain(reason))
        }
        other => other.to_string(),
    }
}

/// The maximum number of characters of a model's text that are printed.
const SHOWN: usize = 120;

/// Formats a model's text on one line, without characters that control a terminal.
pub(crate) fn plain(text: &str) -> String {
    within(SHOWN, text).to_string()
}
