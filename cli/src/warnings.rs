//! Prints warnings about faults of a model that do not prevent it from running.

use crate::error::Result;
use crate::{out, render};
use bb::Module;
use bb_ir::graph::Warning;

/// Prints a line for each warning.
pub(crate) fn print(module: &Module) -> Result<()> {
    let warnings = module.warnings();
    if warnings.is_empty() {
        return Ok(());
    }
    out::line(format_args!("WARNINGS"))?;
    warnings.iter().try_for_each(|warning| out::line(format_args!(" {warning}")))?;
    out::line(format_args!(""))
}

/// Returns the warnings as JSON: their fields, and a sentence.
pub(crate) fn json(module: &Module) -> Vec<serde_json::Value> {
    module.warnings().iter().map(one).collect()
}

fn one(warning: &Warning) -> serde_json::Value {
    let message = warning.to_string();
    match warning {
        Warning::Declaration { value, declared, found } => serde_json::json!({
            "value": value, "declared": [render::ty(declared)], "found": render::ty(found), "message": message,
        }),
        Warning::Declarations { value, first, second } => serde_json::json!({
            "value": value, "declared": [render::ty(first), render::ty(second)], "message": message,
        }),
        Warning::ImportedTwice { function, domain, other, used } => serde_json::json!({
            "function": function, "domain": domain, "other": other, "used": used, "message": message,
        }),
        Warning::NotImported { domain, used } => serde_json::json!({
            "domain": domain, "used": used, "message": message,
        }),
        _ => serde_json::json!({ "message": message }),
    }
}
