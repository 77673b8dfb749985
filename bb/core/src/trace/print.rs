//! Formats a trace as text: one line per step, then the returned values.
//!
//! ```text
//! once %3: f32[4, 2] = transpose(weight0) {perm=[1, 0]}
//! %4: f32[1, 2] = matmul(input0, %3)
//! return %4
//! ```

use super::steps::{Operation, Phase, Step, Trace, TraceValue, ValueSource};
use bb_ir::op::Param;
use std::fmt::{Display, Formatter, Result};

impl Display for Trace {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for step in self.steps.entries() {
            writeln!(f, "{}", self.line(step))?;
        }
        let outputs: Vec<String> = self.outputs.iter().map(|value| self.name(*value)).collect();
        writeln!(f, "return {}", outputs.join(", "))
    }
}

impl Trace {
    /// Formats a step.
    fn line(&self, step: &Step) -> String {
        let typed = |value: &TraceValue| match self.values.get(*value) {
            Ok(info) => format!("%{value}: {}{:?}", info.dtype, info.shape.as_slice()),
            Err(_) => missing(*value),
        };
        let outputs: Vec<String> = step.outputs.iter().map(typed).collect();
        let inputs = step.inputs.iter().map(|v| v.map_or_else(|| "-".to_owned(), |v| self.name(v)));
        let once = if step.phase == Phase::Once { "once " } else { "" };
        let called = called(step.operation, &inputs.collect::<Vec<_>>(), &step.params);
        format!("{once}{} = {called}", outputs.join(", "))
    }

    /// Returns the name of a value in the text form.
    pub(crate) fn name(&self, value: TraceValue) -> String {
        match self.values.get(value).map(|info| info.source) {
            Ok(ValueSource::Step) => format!("%{value}"),
            Ok(ValueSource::Input(index)) => format!("input{index}"),
            Ok(ValueSource::Weight(id)) => format!("weight{id}"),
            Ok(ValueSource::Constant(index)) => format!("constant{index}"),
            Err(_) => missing(value),
        }
    }
}

/// Returns a name for a value that the trace does not contain, so that a faulty trace can be printed too.
fn missing(value: TraceValue) -> String {
    format!("%{value}?")
}

/// Formats a call, as in `transpose(input0) {perm=[1, 0]}`.
pub(crate) fn called(operation: Operation, inputs: &[String], params: &[Param<'_>]) -> String {
    let text: Vec<String> = match operation {
        Operation::Row(spec) => {
            spec.params.iter().zip(params).map(|(spec, p)| format!("{}={}", spec.name, param(p))).collect()
        }
        Operation::Host(_) => params.iter().map(param).collect(),
    };
    let params = if text.is_empty() { String::new() } else { format!(" {{{}}}", text.join(", ")) };
    format!("{}({}){params}", operation.name(), inputs.join(", "))
}

fn param(param: &Param<'_>) -> String {
    match param {
        Param::Int(v) => v.to_string(),
        Param::Float(v) => v.to_string(),
        Param::Bool(v) => v.to_string(),
        Param::Ints(v) => format!("{v:?}"),
        Param::Extents(v) => format!("{v:?}"),
        Param::Type(v) => v.to_string(),
        Param::Round(v) => v.name().to_owned(),
        Param::Text(v) => v.to_string(),
        Param::Data(v) => format!("{v:?}"),
        other => format!("{other:?}"),
    }
}
