//! Graphs that need narrowing only in some parts, for `compile`. The other parts are passed unchanged to the backend's own
//! `compile`. The parts run in order.

use super::own::{OwnExecutable, has_own_types, made_constants};
use super::{NarrowTensor, NarrowedOn};
use crate::contract::{OnnxValue, PartedGraph, tensors};
use crate::cut::{self, Part};
use crate::ext::ErasedError;
use crate::measure::Profile;
use crate::{CompileOptions, Executable, Module, Port, RunOptions};
use bb_ir::graph::{Graph, Node, ValueId};
use std::collections::HashSet;

/// A graph in parts, which run in order.
pub(super) struct Parts<'a> {
    whole: PartedGraph<NarrowTensor>,
    parts: Vec<Ready<'a>>,
}

/// A compiled part.
struct Ready<'a> {
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// The values that no later part reads, which can be dropped.
    dead: Vec<ValueId>,
    executable: Box<dyn Executable<NarrowedOn<'a>>>,
}

type Item = OnnxValue<NarrowTensor>;

impl<'a> NarrowedOn<'a>
where
    NarrowedOn<'a>: 'static,
{
    /// Compiles a graph in parts. Returns `None` if the backend does not override `compile`, or if each node needs narrowing.
    ///
    /// # Errors
    ///
    /// Those of the backend's own `compile`, and of planning the parts that need narrowing.
    pub(super) fn compile_parts(
        &self,
        module: &Module,
        options: &CompileOptions,
    ) -> Result<Option<Parts<'a>>, ErasedError> {
        let graph = module.graph();
        let Some(parts) = self.cut(graph) else { return Ok(None) };
        let mut dead = cut::last_reads(graph, &parts);
        let mut options = options.clone();
        options.identity = None;
        // The parts that need no narrowing are compiled first, because the attempt shows whether the backend overrides
        // `compile`.
        let mut own: Vec<Option<OwnExecutable>> = Vec::with_capacity(parts.len());
        for part in &parts {
            own.push(match part.target && !part.outputs.is_empty() {
                true => match self.compile_own(&Module::of_part(part.graph(graph)), &options)? {
                    Some(executable) => Some(executable),
                    None => return Ok(None),
                },
                false => None,
            });
        }
        let mut ready = Vec::with_capacity(parts.len());
        for ((part, own), dead) in parts.into_iter().zip(own).zip(&mut dead) {
            // A part does not run if nothing reads its outputs.
            if part.outputs.is_empty() {
                continue;
            }
            let executable: Box<dyn Executable<NarrowedOn<'a>>> = match own {
                Some(own) => Box::new(own),
                None => self.compile_narrowed(Module::of_part(part.graph(graph)), &options)?,
            };
            let Part { inputs, outputs, .. } = part;
            ready.push(Ready { inputs, outputs, dead: std::mem::take(dead), executable });
        }
        Ok(Some(Parts {
            whole: PartedGraph::new(graph, options.strict, self.read_constants(graph)?),
            parts: ready,
        }))
    }
}

impl NarrowedOn<'_> {
    /// Cuts a graph into parts that need no narrowing and parts that do; `None` if each node needs narrowing.
    pub(super) fn cut(&self, graph: &Graph) -> Option<Vec<Part<bool>>> {
        let constants: HashSet<ValueId> = graph.constants.iter().map(|(id, _)| *id).collect();
        let given: HashSet<ValueId> = graph.inputs.iter().copied().collect();
        let made = made_constants(graph);
        let known = |id: &ValueId| (constants.contains(id) && !given.contains(id)) || made.contains(id);
        let is_own = |node: &Node| {
            let values = node.reads().chain(node.outputs.iter().flatten().copied());
            values.filter(|id| !known(id)).all(|id| has_own_types(graph, id, self.holding().types))
                && node.subgraphs().all(|inner| super::needs_no_narrowing(inner, self.holding().types))
        };
        let targets: Vec<bool> =
            graph.nodes.iter().map(|node| is_own(node) && !cut::is_constant(node)).collect();
        targets.contains(&true).then(|| cut::cut(graph, &targets, |_| false))
    }

    /// Returns the constants of a graph that are outputs, or defaults of inputs.
    pub(super) fn read_constants(&self, graph: &Graph) -> Result<Vec<(ValueId, NarrowTensor)>, ErasedError> {
        let read: HashSet<&ValueId> = graph.inputs.iter().chain(&graph.outputs).collect();
        let constants = graph.constants.iter().filter(|(id, _)| read.contains(id));
        constants.map(|(id, data)| Ok((*id, self.bring(data)?))).collect()
    }
}

impl<'a> Parts<'a> {
    fn run_all(
        &self,
        on: &NarrowedOn<'a>,
        inputs: &[Option<OnnxValue<&NarrowTensor>>],
        mut profile: Option<&mut Profile>,
    ) -> Result<Vec<Item>, ErasedError> {
        let mut values = self.whole.begin(inputs)?;
        for part in &self.parts {
            RunOptions::check_current()?;
            let operand = |id: &ValueId| values.get(*id).map(|item| item.map(&mut |x| x));
            let operands: Vec<Option<OnnxValue<&NarrowTensor>>> = part.inputs.iter().map(operand).collect();
            let results = match profile.as_deref_mut() {
                None => part.executable.run_items(on, &operands)?,
                Some(profile) => part.executable.run_profiled(on, &operands, profile)?,
            };
            values.store(&part.outputs, results);
            values.drop_all(&part.dead);
        }
        Ok(self.whole.end(&values)?)
    }
}

impl<'a> Executable<NarrowedOn<'a>> for Parts<'a> {
    fn inputs(&self) -> &[Port] {
        &self.whole.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.whole.outputs
    }

    fn run(
        &self,
        on: &NarrowedOn<'a>,
        inputs: &[Option<&NarrowTensor>],
    ) -> Result<Vec<NarrowTensor>, ErasedError> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        Ok(tensors(self.run_all(on, &items, None)?, &self.whole.outputs)?)
    }

    fn run_items(
        &self,
        on: &NarrowedOn<'a>,
        inputs: &[Option<OnnxValue<&NarrowTensor>>],
    ) -> Result<Vec<Item>, ErasedError> {
        self.run_all(on, inputs, None)
    }

    fn run_profiled(
        &self,
        on: &NarrowedOn<'a>,
        inputs: &[Option<OnnxValue<&NarrowTensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<Item>, ErasedError> {
        self.run_all(on, inputs, Some(profile))
    }
}
