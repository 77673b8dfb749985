//! The reports of backend layers: the table of `metrics+…`.

use crate::{out, render};

/// Prints the counts of each `metrics` layer to standard error, because standard output is for the results.
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

/// Formats an option of a backend or a layer. For an option of its own, includes the default and the purpose.
pub(crate) fn option(option: &bb::OpenOption) -> String {
    match option.own() {
        Some(own) => format!("{}={}  {} ({})", own.name, own.default, own.about, own.default.type_name()),
        None => option.name().to_owned(),
    }
}

/// Lists the layers that can precede the name of a backend.
pub(crate) fn table() -> render::Table {
    let mut table = render::table(["LAYER", "WHAT IT DOES", "OPTIONS"]);
    for layer in bb::LayerRegistration::all() {
        let options: Vec<String> = layer.options.iter().map(option).collect();
        table.add_lines([layer.name.to_owned(), layer.about.to_owned(), options.join("\n")]);
    }
    table
}

/// Lists the backends that combine several other backends.
pub(crate) fn combined() -> render::Table {
    let mut table = render::table(["SEVERAL", "WHAT IT DOES"]);
    for combined in bb::CombinedRegistration::all() {
        table.add_lines([format!("{}(…, …)", combined.name), combined.about.to_owned()]);
    }
    table
}
