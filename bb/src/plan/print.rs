//! Segments of a module as text, for people: one line per node, step or instruction.

use super::Module;
use super::end::End;
use super::lir::{Constants, Operand, Plan, PlanConstant};
use super::resolve::Resolved;
use super::segment::{Outcome, SegmentInput, SegmentTrace, Settings, Start, trace};
use crate::ext::OpSet;
use crate::trace::{Operation, Table, TableIndex, TraceValue, ValueSource};
use crate::{Error, InputSpec};
use bb_ir::Shape;
use bb_ir::graph::{Attribute, Dim, Graph, ValueType};
use bb_ir::op::{Family, Param};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

impl Module {
    /// Prints the graph as authored, functions inlined.
    pub fn print_hir(&self) -> String {
        let mut text = String::new();
        graph(&mut text, self.graph(), 0);
        text
    }

    /// Prints what the graph is lowered to for a backend with these native operations.
    ///
    /// Shapes: `shapes` names the extents of inputs; those that the model leaves open are 1 unless named.
    ///
    /// # Errors
    ///
    /// What makes lowering fail.
    pub fn print_mir(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<String, Error> {
        let traced = self.trace(shapes, natives)?;
        let mut text = String::new();
        for step in traced.recorded.steps.entries() {
            let value = |value: TraceValue| -> Result<String, Error> {
                Ok(match traced.recorded.values.get(value)?.source {
                    ValueSource::Step => format!("%{value}"),
                    ValueSource::Input(index) => format!("input{index}"),
                    ValueSource::Weight(id) => format!("weight{id}"),
                    ValueSource::Constant(index) => format!("constant{index}"),
                })
            };
            let mut outputs = Vec::with_capacity(step.outputs.len());
            for output in &step.outputs {
                let info = traced.recorded.values.get(*output)?;
                outputs.push(format!("%{output}: {}{:?}", info.dtype, info.shape.as_slice()));
            }
            let inputs = step.inputs.iter().map(|v| v.map_or_else(|| Ok("-".to_owned()), value));
            let inputs: Vec<String> = inputs.collect::<Result<_, _>>()?;
            line(
                &mut text,
                &outputs.join(", "),
                step.operation.name(),
                &inputs,
                &params(step.operation, &step.params),
            );
        }
        end(&mut text, &traced);
        Ok(text)
    }

    /// Prints the instructions over slots.
    ///
    /// Shapes: as [`print_mir`](Self::print_mir).
    ///
    /// # Errors
    ///
    /// What makes lowering fail.
    pub fn print_lir(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<String, Error> {
        let traced = self.trace(shapes, natives)?;
        let mut constants = 0;
        let of_value: Constants = traced
            .recorded
            .values
            .entries()
            .map(|v| {
                v.source.is_constant().then(|| {
                    constants += 1;
                    PlanConstant::at(constants - 1)
                })
            })
            .collect::<Table<_, _>>();
        let plan = Plan::new(&traced.recorded, &of_value)?;
        let operand = |operand: &Operand| match operand {
            Operand::Slot(i) => format!("s{i}"),
            Operand::Input(i) => format!("input{i}"),
            Operand::Constant(i) => format!("c{i}"),
            Operand::Absent => "-".to_owned(),
        };
        let mut text = String::new();
        for instruction in &plan.instructions {
            let outputs: Vec<String> = instruction
                .outputs
                .iter()
                .map(|slot| slot.map_or_else(|| "_".to_owned(), |s| format!("s{s}")))
                .collect();
            let inputs: Vec<String> = instruction.inputs.iter().map(operand).collect();
            let mut params = params(instruction.operation, &instruction.params);
            if !instruction.frees.is_empty() {
                let frees: Vec<String> = instruction.frees.iter().map(|s| format!("s{s}")).collect();
                params.push_str(&format!("  frees {}", frees.join(", ")));
            }
            line(&mut text, &outputs.join(", "), instruction.operation.name(), &inputs, &params);
        }
        let outputs: Vec<String> = plan.outputs.iter().map(operand).collect();
        text.push_str(&format!("return {} ({} slots)\n", outputs.join(", "), plan.slots));
        end(&mut text, &traced);
        Ok(text)
    }

    /// Traces the first segment.
    pub(super) fn trace(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<SegmentTrace, Error> {
        let graph = self.graph();
        let inputs_known = graph
            .inputs
            .iter()
            .map(|value| {
                let ty = graph.values.get(value.index()).map(|v| &v.ty);
                let named = shapes.get(graph.name_of(*value));
                match ty {
                    Some(ValueType::Tensor { dtype, shape }) => {
                        let declared =
                            shape.iter().flatten().map(|d| if let Dim::Known(n) = d { *n } else { 1 });
                        let shape = named.map_or_else(|| declared.collect(), |s| Shape::from_slice(s));
                        Ok(SegmentInput { dtype: *dtype, shape, varies: true, known: None })
                    }
                    _ => Err(Error::NotConstant {
                        op: "trace".to_owned(),
                        value: graph.name_of(*value).to_owned(),
                    }),
                }
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let given = |i: usize| inputs_known.get(i).map(|a| (a.dtype, a.shape.as_slice()));
        InputSpec::new(graph).check_by(inputs_known.len(), &given)?;
        let start = Start { live: graph.inputs.clone(), ..Start::default() };
        let settings = Settings {
            natives: natives.to_vec(),
            value_bytes: bb_ir::Limits::default().value_bytes,
            explores: false,
        };
        match trace(&Arc::new(Resolved::new(self.shared())?), &start, &inputs_known, &None, &settings)? {
            Outcome::Done(traced) => Ok(*traced),
            Outcome::Needs(wanted) => {
                let value = start.live.get(wanted.position).map_or("", |v| graph.name_of(*v));
                Err(Error::NotConstant { op: "trace".to_owned(), value: value.to_owned() })
            }
        }
    }
}

/// Says how the trace ended, where it did not reach the graph's end.
fn end(text: &mut String, traced: &SegmentTrace) {
    let node = match &traced.end {
        End::Done => return,
        End::Read { start, .. } => {
            text.push_str(&format!("… node {} needs a value that only running gives\n", start.node));
            return;
        }
        End::Between(between) => between.node,
    };
    text.push_str(&format!("… node {node} runs between this plan and the next\n"));
}

fn line(text: &mut String, outputs: &str, op: &str, inputs: &[String], params: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{outputs} = {op}({}){params}", inputs.join(", "));
}

fn params(of: Operation, params: &[Param<'_>]) -> String {
    let text: Vec<String> = match of {
        Operation::Row(spec) => {
            spec.params.iter().zip(params).map(|(spec, p)| format!("{}={}", spec.name, param(p))).collect()
        }
        Operation::Host(_) => params.iter().map(param).collect(),
    };
    if text.is_empty() { String::new() } else { format!(" {{{}}}", text.join(", ")) }
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

fn graph(text: &mut String, of: &Graph, depth: usize) {
    let indent = "  ".repeat(depth);
    for node in &of.nodes {
        let name = |v: &Option<bb_ir::graph::ValueId>| {
            v.map_or_else(|| "-".to_owned(), |v| of.name_of(v).to_owned())
        };
        let outputs: Vec<String> = node.outputs.iter().map(name).collect();
        let inputs: Vec<String> = node.inputs.iter().map(name).collect();
        let domain = if node.domain.is_empty() { String::new() } else { format!("{}::", node.domain) };
        let scalars: Vec<String> = node
            .attributes
            .iter()
            .filter(|(_, a)| !matches!(a, Attribute::Graph(_) | Attribute::Graphs(_)))
            .map(|(name, a)| format!("{name}={}", attribute(a)))
            .collect();
        let scalars = if scalars.is_empty() { String::new() } else { format!(" {{{}}}", scalars.join(", ")) };
        text.push_str(&indent);
        line(
            text,
            &outputs.join(", "),
            &format!("{domain}{}.{}", node.op_type, node.opset),
            &inputs,
            &scalars,
        );
        for (name, a) in node.attributes.iter() {
            if let Attribute::Graph(inner) = a {
                text.push_str(&format!("{indent}  {name}:\n"));
                graph(text, inner, depth + 2);
            }
        }
    }
}

fn attribute(a: &Attribute) -> String {
    match a {
        Attribute::Float(v) => v.to_string(),
        Attribute::Int(v) => v.to_string(),
        Attribute::Text(v) => String::from_utf8_lossy(v).into_owned(),
        Attribute::Ints(v) => format!("{v:?}"),
        Attribute::Floats(v) => format!("{v:?}"),
        Attribute::Tensor(v) => format!("{v:?}"),
        other => other.kind().to_owned(),
    }
}
