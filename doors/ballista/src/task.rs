//! Extracts the cause from the errors of queries.
//!
//! A cluster passes on only the `Debug` output of an error, with all layers: `Task failed due to runtime execution error:
//! DataFusionError(Shared(External(Model("…"))))`. The scheduler and the client prepend their own context. [`reason`] finds the innermost
//! error in that text. Texts of another form are not changed.

use ballista_core::error::BallistaError;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// Returns the innermost cause of an error of a query, without the layers that passed it on.
///
/// # Examples
///
/// ```
/// use bb_ballista::reason;
/// use datafusion::error::DataFusionError;
/// let passed_on = "Job 1 failed: Job failed due to stage 1 failed: Task failed due to runtime execution error: \
///                  DataFusionError(Shared(Execution(\"the column is null\")))\n";
/// let error = DataFusionError::Execution(passed_on.to_owned());
/// assert_eq!(reason(&error), "a task of the query failed: the column is null");
/// ```
pub fn reason(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::External(cause) => match cause.downcast_ref() {
            Some(BallistaError::DataFusionError(cause)) => reason(cause),
            _ => cause.to_string(),
        },
        DataFusionError::ArrowError(cause, _) => match &**cause {
            ArrowError::ExternalError(cause) => cause.to_string(),
            cause => cause.to_string(),
        },
        DataFusionError::Execution(text) => of_task(text)
            .map_or_else(|| without_trace(text), |cause| format!("a task of the query failed: {cause}")),
        cause => cause.strip_backtrace(),
    }
}

/// Returns the cause in a cluster's message about a failed task, or `None` for other texts.
fn of_task(text: &str) -> Option<String> {
    // If a task failed several times, the message quotes its last error.
    if let Some((_, quoted)) = text.split_once("most recent failure reason: ") {
        let (last, _) = literal(quoted)?;
        return Some(of_task(&last).unwrap_or(last));
    }
    let (_, failed) = text.split_once("Task failed due to ")?;
    let (_, layers) = failed.split_once("error: ")?;
    Some(innermost(layers).map_or_else(|| layers.trim().to_owned(), |cause| without_trace(&cause)))
}

fn without_trace(text: &str) -> String {
    text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text).trim().to_owned()
}

/// Parses nested errors in the format of `derive(Debug)`, and returns the message of the innermost one. Returns `None` if the text has
/// another format.
fn innermost(mut text: &str) -> Option<String> {
    loop {
        text = text.trim_start_matches('[');
        if text.starts_with('"') {
            return Some(literal(text)?.0);
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        if let Some(fields) = rest.strip_prefix(" { ") {
            text = ["source: ", "error: ", "message: "].iter().find_map(|field| after(fields, field))?;
        } else if let Some(inner) = rest.strip_prefix('(') {
            text = inner;
            // A `Context` has its description before the error.
            if name == "Context" {
                text = literal(inner)?.1.strip_prefix(", ")?;
            }
        } else {
            return Some(words(name));
        }
    }
}

/// Returns the text after `field` among the fields of a struct. Ignores quoted strings and nested structs.
fn after<'a>(mut fields: &'a str, field: &str) -> Option<&'a str> {
    let mut depth = 0usize;
    loop {
        if depth == 0
            && let Some(value) = fields.strip_prefix(field)
        {
            return Some(value);
        }
        match fields.chars().next()? {
            '"' => {
                fields = literal(fields)?.1;
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let mut chars = fields.chars();
        chars.next();
        fields = chars.as_str();
    }
}

/// Parses a string in the format of `Debug`. Returns the string, and the rest of the text.
fn literal(text: &str) -> Option<(String, &str)> {
    let mut chars = text.strip_prefix('"')?.chars();
    let mut said = String::new();
    loop {
        match chars.next()? {
            '"' => return Some((said, chars.as_str())),
            '\\' => said.push(match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let (code, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
                    chars = rest.chars();
                    char::from_u32(u32::from_str_radix(code, 16).ok()?)?
                }
                other => other,
            }),
            other => said.push(other),
        }
    }
}

/// Converts the name of a variant to words: `DivideByZero` becomes "divide by zero".
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use ballista_core::serde::protobuf::FailedTask;
    use std::sync::Arc;

    /// Returns the error that a client of Ballista receives for a failed task.
    fn passed_on(error: DataFusionError) -> DataFusionError {
        let task = FailedTask::from(BallistaError::from(error)).error;
        DataFusionError::Execution(format!("Job a1 failed: Job failed due to stage 1 failed: {task}\n"))
    }

    fn null() -> Error {
        Error::Null { input: "a \"b\"\n(c".to_owned(), row: 7 }
    }

    #[test]
    fn the_error_of_a_task_is_its_cause() {
        let inner = |error: Error| DataFusionError::from(error);
        let expected = null().to_string();
        for error in [
            inner(null()),
            DataFusionError::Shared(Arc::new(inner(null()))),
            DataFusionError::Context("projecting \"y\"".to_owned(), Box::new(inner(null()))),
            DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(inner(null())))), None),
            DataFusionError::Collection(vec![inner(null())]),
        ] {
            let said = format!("{error:?}");
            assert_eq!(
                reason(&passed_on(error)),
                format!("a task of the query failed: {expected}"),
                "{said}"
            );
        }
        for (error, expected) in [
            (ArrowError::DivideByZero, "divide by zero"),
            (ArrowError::CastError("no number: 'x'".to_owned()), "no number: 'x'"),
        ] {
            let error = DataFusionError::ArrowError(Box::new(error), None);
            assert_eq!(reason(&passed_on(error)), format!("a task of the query failed: {expected}"));
        }
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, "the disk is full");
        let error = passed_on(DataFusionError::IoError(full));
        assert_eq!(reason(&error), "a task of the query failed: the disk is full");
    }

    #[test]
    fn what_failed_several_times_is_its_last_cause() {
        let task = FailedTask::from(BallistaError::IoError(std::io::Error::other("gone"))).error;
        let stage =
            format!("Task 3 in Stage 1 failed 4 times, fail the stage, most recent failure reason: {task:?}");
        let error =
            DataFusionError::Execution(format!("Job a1 failed: Job failed due to stage 1 failed: {stage}\n"));
        assert_eq!(reason(&error), "a task of the query failed: gone");
    }

    #[test]
    fn an_error_of_this_process_is_its_cause() {
        let error = DataFusionError::Context("planning".to_owned(), Box::new(DataFusionError::from(null())));
        assert_eq!(reason(&error), null().to_string());
        assert_eq!(reason(&DataFusionError::Execution("no such file".to_owned())), "no such file");
        assert_eq!(reason(&DataFusionError::Plan("no table".to_owned())), "Error during planning: no table");
    }

    #[test]
    fn a_text_of_another_form_stays() {
        for layers in [
            "",
            "Model(",
            "Model(\"open",
            "Os { code: 2 }",
            "42",
            "Context(\"a\" b)",
            "A { \\\"",
            "Io(\"\\u{zz}\")",
        ] {
            let text = format!("Task failed due to runtime execution error: {layers}");
            let said = reason(&DataFusionError::Execution(text));
            assert_eq!(said, format!("a task of the query failed: {layers}"));
        }
    }
}
