//! Prints segments of a module as readable text: one line per node, step or instruction.

use super::Module;
use super::lir::{Operand, Plan};
use super::passes::{NativeOps, PassCount, PassOptions, UNREWRITTEN, fuses, kept, rewrite, rewrite_to};
use super::resolve::Resolved;
use super::segment::{Outcome, SegmentInput, SegmentTrace, Settings, Start, Weights, trace};
use super::segment_end::End;
use crate::contract::PassSwitches;
use crate::ext::OpSet;
use crate::trace::{Varies, called};
use crate::{Error, InputSpec};
use bb_ir::Shape;
use bb_ir::graph::{Attribute, Dim, Graph, ValueType};
use bb_ir::op::Family;
use bb_ir::text::{sentence, shown};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the pass options for a backend with kernels and these native operations.
fn interpreted<'w>(
    natives: &[(Family, OpSet)],
    weights: Weights<'w>,
    settings: &'w Settings,
) -> PassOptions<'w> {
    PassOptions {
        switches: PassSwitches { fuse: fuses(natives), ..PassOptions::INTERPRETED.switches },
        natives: NativeOps::of(natives),
        weights,
        settings: Some(settings),
        ..PassOptions::INTERPRETED
    }
}

/// Returns the settings of the traces that are printed, for a backend with these native operations.
fn settings(natives: &[(Family, OpSet)]) -> Settings {
    Settings {
        natives: kept(natives.to_vec(), fuses(natives)),
        value_bytes: bb_ir::Limits::default().value_bytes,
        fold_bytes: bb_ir::Limits::default().fold_bytes,
        symbolic: false,
        strict: false,
        types: bb_ir::DataTypes::ALL,
    }
}

impl Module {
    /// Prints the graph of the model, with its functions inlined.
    pub fn print_hir(&self) -> String {
        let mut text = String::new();
        graph(&mut text, self.graph(), 0);
        text
    }

    /// Prints the trace that the graph is lowered to for a backend with these native operations, before any pass rewrites it.
    ///
    /// Shapes: `shapes` maps names of inputs to extents. Extents that neither `shapes` nor the model fixes are 1.
    ///
    /// # Errors
    ///
    /// Errors of lowering.
    pub fn print_mir(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<String, Error> {
        self.print_mir_after(shapes, natives, UNREWRITTEN)
    }

    /// Prints the trace for a backend with kernels after a pass, and the number of steps that each pass changed.
    /// [`pass_names`](crate::pass_names) lists the passes; `trace` selects the trace that no pass has rewritten.
    ///
    /// Shapes: as [`print_mir`](Self::print_mir).
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPass`]; errors of lowering.
    pub fn print_mir_after(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
        pass: &str,
    ) -> Result<String, Error> {
        let (mut traced, ended) = self.trace(shapes, natives)?;
        let (recorded, weights) = traced.rewritable();
        let counts = rewrite_to(recorded, interpreted(natives, weights, &settings(natives)), pass)?;
        let mut text = traced.recorded.to_string();
        end(&mut text, &ended);
        print_counts(&mut text, &counts);
        Ok(text)
    }

    /// Prints the instructions of the plan, and the number of steps that each pass changed.
    ///
    /// Shapes: as [`print_mir`](Self::print_mir).
    ///
    /// # Errors
    ///
    /// Errors of lowering.
    pub fn print_lir(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<String, Error> {
        let (mut traced, ended) = self.trace(shapes, natives)?;
        let (recorded, weights) = traced.rewritable();
        let counts = rewrite(recorded, interpreted(natives, weights, &settings(natives)))?;
        let plan = Plan::new(&traced.recorded, false)?;
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
            let mut call = called(instruction.operation, &inputs, &instruction.params);
            if !instruction.frees.is_empty() {
                let frees: Vec<String> = instruction.frees.iter().map(|s| format!("s{s}")).collect();
                call.push_str(&format!("  frees {}", frees.join(", ")));
            }
            text.push_str(&format!("{} = {call}\n", outputs.join(", ")));
        }
        let outputs: Vec<String> = plan.outputs.iter().map(operand).collect();
        text.push_str(&format!("return {} ({} slots)\n", outputs.join(", "), plan.slots));
        end(&mut text, &ended);
        print_counts(&mut text, &counts);
        Ok(text)
    }

    /// Traces the first segment.
    pub(super) fn trace(
        &self,
        shapes: &HashMap<String, Vec<usize>>,
        natives: &[(Family, OpSet)],
    ) -> Result<(SegmentTrace, End<Start>), Error> {
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
                        let varies = shape.clone().map_or(Varies::Everything, Varies::Declared);
                        let shape = named.map_or_else(|| declared.collect(), |s| Shape::from_slice(s));
                        Ok(SegmentInput { dtype: *dtype, shape, varies, known: None })
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
        let resolved = Arc::new(Resolved::new(self.planned()?)?);
        match trace(&resolved, &start, &inputs_known, &None, &settings(natives))? {
            Outcome::Traced(traced, end) => Ok((*traced, end)),
            Outcome::Needs(wanted) => {
                let value = start.live.get(wanted.position).map_or("", |v| graph.name_of(*v));
                Err(Error::NotConstant { op: "trace".to_owned(), value: value.to_owned() })
            }
        }
    }
}

/// Prints the reason why the trace ended, if it did not reach the end of the graph.
fn end(text: &mut String, end: &End<Start>) {
    let Some(node) = end.node(|start| start.node) else { return };
    text.push_str(&match end {
        End::Read { .. } => format!("… node {node} needs a value that only running gives\n"),
        _ => format!("… node {node} runs between this plan and the next\n"),
    });
}

/// Prints the number of steps that each pass changed.
fn print_counts(text: &mut String, counts: &[PassCount]) {
    for PassCount { pass, count } in counts {
        text.push_str(&format!("pass {pass}: {count}\n"));
    }
}

fn graph(text: &mut String, of: &Graph, depth: usize) {
    let indent = "  ".repeat(depth);
    for node in &of.nodes {
        let name = |v: &Option<bb_ir::graph::ValueId>| {
            v.map_or_else(|| "-".to_owned(), |v| shown(of.name_of(v)).to_string())
        };
        let outputs: Vec<String> = node.outputs.iter().map(name).collect();
        let inputs: Vec<String> = node.inputs.iter().map(name).collect();
        let domain =
            if node.domain.is_empty() { String::new() } else { format!("{}::", shown(&node.domain)) };
        let scalars: Vec<String> = node
            .attributes
            .iter()
            .filter(|(_, a)| !matches!(a, Attribute::Graph(_) | Attribute::Graphs(_)))
            .map(|(name, a)| format!("{}={}", shown(name), sentence(attribute(a))))
            .collect();
        let scalars = if scalars.is_empty() { String::new() } else { format!(" {{{}}}", scalars.join(", ")) };
        text.push_str(&indent);
        let (op, opset, inputs) = (shown(&node.op_type), node.opset, inputs.join(", "));
        text.push_str(&format!("{} = {domain}{op}.{opset}({inputs}){scalars}\n", outputs.join(", ")));
        for (name, a) in node.attributes.iter() {
            if let Attribute::Graph(inner) = a {
                text.push_str(&format!("{indent}  {}:\n", shown(name)));
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
