//! `bb coverage`: lists the operators that a backend runs, by version and element type.

use crate::error::Result;
use crate::{args, out, render, session};
use bb::DataType;
use bb::coverage::{How, Matrix, Refused, RefusedBy, Row};
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
            let (served, refused) = (words(&row.served), reasons(&row.refused));
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
                "types": names(&row.served), "refused": row.refused.iter().map(refusal).collect::<Vec<_>>(),
            })
        })
        .collect();
    serde_json::json!({ "backend": matrix.backend, "operators": rows })
}

fn refusal(refused: &Refused) -> serde_json::Value {
    let by = match &refused.by {
        RefusedBy::Backend { .. } => "backend",
        RefusedBy::Operator => "operator",
        _ => "probe",
    };
    serde_json::json!({ "type": refused.dtype.name(), "by": by, "reason": refused.reason })
}

/// Lists the refused element types, grouped by their reasons.
fn reasons(refused: &[Refused]) -> String {
    let mut groups: Vec<(String, Vec<DataType>)> = Vec::new();
    for Refused { dtype, by, .. } in refused {
        let why = match by {
            RefusedBy::Backend { op } if op.is_empty() => "failed".to_owned(),
            RefusedBy::Backend { op } => format!("no {op}"),
            RefusedBy::Probe { needs } => format!("not tried without {needs}"),
            _ => "no meaning".to_owned(),
        };
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, types)) => types.push(*dtype),
            None => groups.push((why, vec![*dtype])),
        }
    }
    let cell = |(why, types): &(String, Vec<DataType>)| format!("{} ({why})", words(types));
    groups.iter().map(cell).collect::<Vec<_>>().join(", ")
}

/// Formats the matrix as a table per domain, with a row per operator. Consecutive versions with equal entries share one entry; a middle dot
/// separates entries that differ.
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
                ([], refused) if refused.iter().any(|r| matches!(r.by, RefusedBy::Probe { .. })) => {
                    reasons(refused)
                }
                ([], _) => "none".to_owned(),
                (served, _) => words(served),
            });
        }
        let [since, types] = [since, types].map(|cells| cells.join(" · "));
        out += &format!("| {} | {since} | {} | {types} |\n", row.name, hows(rows));
    }
    out
}

/// Returns whether two versions of an operator are supported in the same way. Ignores the number of operations.
fn alike(a: &Row, b: &Row) -> bool {
    let types = |row: &Row| row.refused.iter().map(|refused| refused.dtype).collect::<Vec<_>>();
    same_way(a, b) && a.served == b.served && types(a) == types(b)
}

fn same_way(a: &Row, b: &Row) -> bool {
    matches!((a.how, b.how), (How::Lowered(_), How::Lowered(_))) || a.how == b.how
}

/// Describes how the versions of an operator run. For lowered versions, includes the number of operations.
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

/// Named groups of element types.
const GROUPS: [(&str, &[DataType]); 4] = {
    use DataType::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [
        ("numbers", &[F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64]),
        ("floats", &[F32, F64, F16, BF16]),
        ("integers", &[I8, I16, I32, I64, U8, U16, U32, U64]),
        ("unsigned", &[U8, U16, U32, U64]),
    ]
};

/// Lists element types. Complete groups are listed by their names.
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
