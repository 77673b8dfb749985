//! The reports of layers in the names of backends: the table of `metrics+…`.

use crate::{out, render};

/// Prints the counts of each layer `metrics` on standard error, because standard output has the results.
pub(crate) fn report() {
    for measured in bb_layers::all_metrics() {
        let mut rows: Vec<_> = measured.snapshot().into_iter().collect();
        rows.sort_by_key(|(name, row)| (std::cmp::Reverse(row.time), *name));
        let mut table =
            render::table(["OPERATION", "CALLS", "PREPARED", "FAILED", "ELEMENTS", "BYTES", "MILLISECONDS"]);
        for (name, row) in rows {
            table.add_row([
                name.to_owned(),
                row.calls.to_string(),
                row.prepared.to_string(),
                row.failed.to_string(),
                row.elements.to_string(),
                row.bytes.to_string(),
                format!("{:.3}", row.time.as_secs_f64() * 1e3),
            ]);
        }
        out::note(table);
    }
}

/// Writes an option that a backend or a layer takes: with its default and purpose, if it is its own.
pub(crate) fn option(option: &bb::OpenOption) -> String {
    match option.own() {
        Some(own) => format!("{}={}  {} ({})", own.name, own.default, own.about, own.default.type_name()),
        None => option.name().to_owned(),
    }
}

/// Lists the layers that may stand before the name of a backend.
pub(crate) fn table() -> render::Table {
    let mut table = render::table(["LAYER", "WHAT IT DOES", "OPTIONS"]);
    for layer in bb::LayerRegistration::all() {
        let options: Vec<String> = layer.options.iter().map(option).collect();
        table.add_lines([layer.name.to_owned(), layer.about.to_owned(), options.join("\n")]);
    }
    table
}

/// Lists the backends that combine several others.
pub(crate) fn combined() -> render::Table {
    let mut table = render::table(["SEVERAL", "WHAT IT DOES"]);
    for combined in bb::CombinedRegistration::all() {
        table.add_lines([format!("{}(…, …)", combined.name), combined.about.to_owned()]);
    }
    table
}
