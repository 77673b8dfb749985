//! The known wrong results of others, and models that they refuse without need.

use crate::record::Record;

/// A row of the list.
struct Row {
    line: String,
    operators: Vec<String>,
    kinds: Vec<String>,
    conditions: Vec<String>,
    used: bool,
}

/// The list of known differences.
///
/// A row is `OPERATORS | KINDS | CONDITIONS | reason`. Operators and kinds are separated by spaces, and `*` is any operator. A row
/// fits if the drawn operator or one of the nodes is in its list, and all conditions hold. A condition is one of these:
///
/// - a tag of the model, or the beginning of a tag and `*`;
/// - `since<N` or `since>=N`;
/// - `"text"`, which the detail contains, with `_` for a space;
/// - `domain:NAME`;
/// - `!` and a condition, which must not hold;
/// - several conditions with `;` between them; one of them must hold.
pub(crate) struct Known {
    rows: Vec<Row>,
}

impl Known {
    pub(crate) fn read(text: &str) -> Known {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let words = |part: Option<&str>| {
            part.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let rows = lines.map(|line| {
            let mut parts = line.splitn(4, '|');
            let row = Row {
                line: line.to_owned(),
                operators: words(parts.next()),
                kinds: words(parts.next()),
                conditions: words(parts.next()),
                used: false,
            };
            assert!(parts.next().is_some_and(|reason| !reason.trim().is_empty()), "without a reason: {line}");
            row
        });
        Known { rows: rows.collect() }
    }

    /// Returns the row that explains a difference.
    pub(crate) fn row(&mut self, record: &Record, kind: &str, detail: &str) -> Option<String> {
        let row = self.rows.iter_mut().find(|row| {
            row.kinds.iter().any(|k| k == kind)
                && row
                    .operators
                    .iter()
                    .any(|o| o == "*" || o == record.text("operator") || record.has("nodes", o))
                && row.conditions.iter().all(|c| c.split(';').any(|c| holds(c, record, detail)))
        })?;
        row.used = true;
        Some(row.line.clone())
    }

    /// Returns the rows that explained nothing.
    pub(crate) fn unused(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| !row.used).map(|row| row.line.as_str()).collect()
    }
}

fn holds(condition: &str, record: &Record, detail: &str) -> bool {
    if let Some(inner) = condition.strip_prefix('!') {
        return !holds(inner, record, detail);
    }
    let since = record.number("since");
    if let Some(n) = condition.strip_prefix("since<").and_then(|n| n.parse::<i64>().ok()) {
        return since < n;
    }
    if let Some(n) = condition.strip_prefix("since>=").and_then(|n| n.parse::<i64>().ok()) {
        return since >= n;
    }
    if let Some(text) = condition.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return detail.replace(' ', "_").contains(text);
    }
    if let Some(domain) = condition.strip_prefix("domain:") {
        return record.text("domain") == domain;
    }
    match condition.strip_suffix('*') {
        Some(start) => record.tags().any(|tag| tag.starts_with(start)),
        None => record.has("tags", condition),
    }
}
