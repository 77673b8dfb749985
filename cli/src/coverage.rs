//! `bb coverage`: which operators a backend runs, in which versions, on which element types.

use crate::error::Result;
use crate::{args, out, render, session};
use bb::DataType;
use bb::coverage::{How, Matrix, Row};
use std::process::ExitCode;

pub(crate) fn coverage(options: &args::Coverage) -> Result<ExitCode> {
    let handle = session::backend(options.common.backend.as_deref())?;
    let matrix = Matrix::of(handle.runtime());
    if options.common.json {
        out::json(&json(&matrix))?;
    } else if options.markdown {
        out::print(&markdown(&matrix))?;
    } else {
        let mut table = render::table(["OPERATOR", "DOMAIN", "SINCE", matrix.backend, "TYPES", "REFUSED"]);
        for row in &matrix.rows {
            let since = row.since.to_string();
            let (served, refused) = (words(&row.served), words(&row.refused));
            let cells = [row.name, domain(row.domain), &since, &row.how.to_string(), &served, &refused];
            table.add_row(cells);
        }
        out::line(table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json(matrix: &Matrix) -> serde_json::Value {
    let names = |types: &[DataType]| -> Vec<&str> { types.iter().map(|t| t.name()).collect() };
    let rows: Vec<serde_json::Value> = matrix
        .rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "domain": row.domain, "operator": row.name, "since": row.since, "runs": row.how.to_string(),
                "types": names(&row.served), "refused": names(&row.refused),
            })
        })
        .collect();
    serde_json::json!({ "backend": matrix.backend, "operators": rows })
}

/// Writes the matrix with an operator in each row, a table per domain. What neighbouring versions share is written once;
/// a middle dot is between those that differ.
fn markdown(matrix: &Matrix) -> String {
    let mut out = String::new();
    let mut last = None;
    for rows in matrix.rows.chunk_by(|a, b| (a.domain, a.name) == (b.domain, b.name)) {
        let Some(row) = rows.first() else { continue };
        if last != Some(row.domain) {
            last = Some(row.domain);
            let gap = if out.is_empty() { "" } else { "\n" };
            let (domain, backend) = (domain(row.domain), matrix.backend);
            out +=
                &format!("{gap}| `{domain}` | since | on `{backend}` | element types |\n|---|---|---|---|\n");
        }
        let (mut since, mut types) = (Vec::new(), Vec::new());
        for same in rows.chunk_by(alike) {
            let Some(first) = same.first() else { continue };
            let versions: Vec<String> = same.iter().map(|r| r.since.to_string()).collect();
            since.push(versions.join(", "));
            types.push(match (&*first.served, &*first.refused) {
                ([], []) => "as its function".to_owned(),
                ([], _) => "none".to_owned(),
                (served, _) => words(served),
            });
        }
        let [since, types] = [since, types].map(|cells| cells.join(" · "));
        out += &format!("| {} | {since} | {} | {types} |\n", row.name, hows(rows));
    }
    out
}

/// Whether two versions of an operator are served alike, in whatever number of operations.
fn alike(a: &Row, b: &Row) -> bool {
    same_way(a, b) && (&a.served, &a.refused) == (&b.served, &b.refused)
}

fn same_way(a: &Row, b: &Row) -> bool {
    matches!((a.how, b.how), (How::Lowered(_), How::Lowered(_))) || a.how == b.how
}

/// Writes what runs the versions of an operator; for those that are lowered, to how many operations.
fn hows(rows: &[Row]) -> String {
    let cell = |same: &[Row]| {
        let counts =
            same.iter().filter_map(|row| if let How::Lowered(steps) = row.how { steps } else { None });
        let (least, most) = counts.fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        match same.first().map(|row| row.how) {
            Some(How::Lowered(_)) if least < most => format!("lowered ({least}–{most})"),
            Some(How::Lowered(_)) if least == most => format!("lowered ({least})"),
            Some(How::Lowered(_)) => "lowered".to_owned(),
            Some(how) => how.to_string(),
            None => String::new(),
        }
    };
    rows.chunk_by(same_way).map(cell).collect::<Vec<_>>().join(" · ")
}

fn domain(name: &'static str) -> &'static str {
    if name.is_empty() { "ai.onnx" } else { name }
}

/// The groups of element types that have a word of their own.
const GROUPS: [(&str, &[DataType]); 4] = {
    use DataType::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [
        ("numbers", &[F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64]),
        ("floats", &[F32, F64, F16, BF16]),
        ("integers", &[I8, I16, I32, I64, U8, U16, U32, U64]),
        ("unsigned", &[U8, U16, U32, U64]),
    ]
};

/// Lists element types, whole groups by their words.
fn words(types: &[DataType]) -> String {
    let mut rest = types.to_vec();
    let mut words = Vec::new();
    for (word, group) in GROUPS {
        if group.iter().all(|t| rest.contains(t)) {
            rest.retain(|t| !group.contains(t));
            words.push(word);
        }
    }
    words.extend(rest.iter().map(|t| t.name()));
    words.join(" ")
}
