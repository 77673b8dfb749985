//! A model that is ready to run: its parts in order.

use crate::cut::{Piece, cut};
use crate::engine::Engine;
use crate::error::{EngineError, Refusal};
use crate::host::Host;
use crate::part::{How, Part, Shared};
use crate::rest::Rest;
use bb::onnx::OnnxValue;
use bb::{Backend, CompileOptions, Executable, InputSpec, Module, Port, RunOptions, TensorData};
use bb_ir::graph::{Graph, ValueId, ValueType};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A model that was loaded into an engine, all of it or in parts.
pub struct Program<E: Engine> {
    shared: Arc<Shared<E>>,
    parts: Vec<Part<E>>,
    /// For each part, the values that no later part reads.
    dead: Vec<Vec<ValueId>>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    declared: InputSpec,
    /// The numbers of the inputs and outputs.
    given: Vec<ValueId>,
    wanted: Vec<ValueId>,
    /// Constants that are outputs, or the defaults of inputs.
    constants: Vec<(ValueId, TensorData)>,
    values: usize,
}

impl<E: Engine> Program<E> {
    /// Cuts a model into parts, and loads those of the engine.
    pub(crate) fn new(
        shared: &Arc<Shared<E>>,
        module: &Module,
        options: &CompileOptions,
    ) -> Result<Program<E>, EngineError> {
        let graph = module.graph();
        let parts = parts(shared, graph, options)?;
        let ty = |value: &ValueId| graph.values.get(value.index()).map_or(ValueType::Unknown, |v| v.named());
        let is_constant = |value: &ValueId| graph.constants.iter().any(|(constant, _)| constant == value);
        let port = |value: &ValueId| Port {
            name: graph.name_of(*value).to_owned(),
            ty: ty(value),
            optional: is_constant(value),
        };
        let kept: HashSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
        let constants = graph.constants.iter().filter(|(value, _)| kept.contains(value));
        Ok(Program {
            dead: dead(graph, &parts),
            parts,
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            declared: InputSpec::new(graph),
            given: graph.inputs.clone(),
            wanted: graph.outputs.clone(),
            constants: constants.cloned().collect(),
            values: graph.values.len(),
            shared: shared.clone(),
        })
    }

    /// Returns the number of parts that the engine runs, and of those that it does not.
    pub fn parts(&self) -> (usize, usize) {
        let own = self.parts.iter().filter(|part| matches!(part.how, How::Engine(_))).count();
        (own, self.parts.len() - own)
    }

    /// Returns the error for the first input that is omitted and has no default.
    fn complete<T>(&self, inputs: &[Option<T>]) -> Result<(), EngineError> {
        let lacking = self.inputs.iter().zip(inputs).find(|(port, given)| given.is_none() && !port.optional);
        let Some((port, _)) = lacking else { return Ok(()) };
        let expected = self.inputs.iter().filter(|port| !port.optional).map(|port| port.name.clone());
        Err(bb::Error::MissingInput { name: port.name.clone(), expected: expected.collect() }.into())
    }

    fn run_all(
        &self,
        inputs: Vec<Option<OnnxValue<TensorData>>>,
    ) -> Result<Vec<OnnxValue<TensorData>>, EngineError> {
        let mut slots: Vec<Option<OnnxValue<TensorData>>> = vec![None; self.values];
        let mut set = |value: ValueId, item| {
            if let Some(slot) = slots.get_mut(value.index()) {
                *slot = Some(item);
            }
        };
        for (value, data) in &self.constants {
            set(*value, OnnxValue::Tensor(data.clone()));
        }
        for (value, item) in self.given.iter().zip(inputs) {
            if let Some(item) = item {
                set(*value, item);
            }
        }
        for (part, dead) in self.parts.iter().zip(&self.dead) {
            RunOptions::check_current()?;
            let read = |value: &ValueId| slots.get(value.index()).and_then(Option::as_ref);
            let operands: Vec<_> = part.inputs.iter().map(read).collect();
            let results = part.run(&self.shared, &operands)?;
            for (value, item) in part.outputs.iter().zip(results) {
                if let Some(slot) = slots.get_mut(value.index()) {
                    *slot = Some(item);
                }
            }
            for value in dead {
                if let Some(slot) = slots.get_mut(value.index()) {
                    *slot = None;
                }
            }
        }
        let mut results = Vec::with_capacity(self.wanted.len());
        for (value, port) in self.wanted.iter().zip(&self.outputs) {
            match slots.get(value.index()).and_then(Option::as_ref) {
                Some(item) => results.push(item.clone()),
                None => return Err(bb::Error::MissingOutput { name: port.name.clone() }.into()),
            }
        }
        Ok(results)
    }
}

/// Cuts and loads until everything has a place.
fn parts<E: Engine>(
    shared: &Shared<E>,
    graph: &Graph,
    options: &CompileOptions,
) -> Result<Vec<Part<E>>, EngineError> {
    let mut own = Vec::with_capacity(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        let refusal = shared.refusal(graph, node);
        own.push(refusal.is_none());
        if let Some(refusal) = refusal {
            refused::<E>(shared, graph, at, refusal)?;
        }
    }
    loop {
        let pieces = cut(graph, &own);
        let mut parts = Vec::with_capacity(pieces.len());
        let mut again = false;
        for piece in pieces {
            let part = graph.part(&piece.nodes, &piece.inputs, &piece.outputs);
            let how = if piece.own {
                match shared.load(&part, shared.resting(&part, options)) {
                    Ok(own) => How::Engine(Box::new(own)),
                    Err(refusal) => {
                        for at in culprits(shared, graph, &piece, &refusal) {
                            if let Some(own) = own.get_mut(at) {
                                *own = false;
                            }
                            again = true;
                        }
                        let first = piece.nodes.first().copied().unwrap_or(0);
                        refused::<E>(shared, graph, first, refusal)?;
                        // What is loaded of the others would have to be loaded again.
                        break;
                    }
                }
            } else {
                let resting = shared.resting(&part, options);
                How::Rest(Box::new(resting.ok_or(EngineError::State { expected: "a backend for the rest" })?))
            };
            parts.push(Part { inputs: piece.inputs, outputs: piece.outputs, how });
        }
        if !again {
            return Ok(parts);
        }
    }
}

/// Returns the error of a node that the engine does not run, if nothing else does.
fn refused<E: Engine>(
    shared: &Shared<E>,
    graph: &Graph,
    at: usize,
    source: Refusal,
) -> Result<(), EngineError> {
    if matches!(shared.rest, Rest::On(_)) {
        return Ok(());
    }
    let node = graph.nodes.get(at);
    Err(EngineError::Refused {
        engine: E::NAME,
        node: node.map(|node| graph.label_of(node).to_owned()).unwrap_or_default(),
        op: node.map(|node| node.op_type.clone()).unwrap_or_default(),
        source,
    })
}

/// Finds the nodes because of which the engine did not load a piece: those that it does not load alone, or all of the piece.
fn culprits<E: Engine>(shared: &Shared<E>, graph: &Graph, piece: &Piece, refusal: &Refusal) -> Vec<usize> {
    let of_value = match refusal {
        Refusal::Type { value, .. } | Refusal::NotTensor { value } => Some(value.as_str()),
        Refusal::Gap { .. } | Refusal::Load(_) | Refusal::Opset { .. } | Refusal::Weight(_) => None,
    };
    let alone = |at: &usize| {
        let Some(node) = graph.nodes.get(*at) else { return false };
        if let Some(name) = of_value {
            let results = node.outputs.iter().flatten().copied();
            return node.reads().chain(results).any(|value| graph.name_of(value) == name);
        }
        let constants: HashSet<ValueId> = graph.constants.iter().map(|(value, _)| *value).collect();
        let mut inputs: Vec<ValueId> = node.reads().filter(|value| !constants.contains(value)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let outputs: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
        // A value that is no tensor may exist within a part.
        matches!(
            shared.load(&graph.part(&[*at], &inputs, &outputs), None),
            Err(Refusal::Load(_) | Refusal::Opset { .. } | Refusal::Weight(_))
        )
    };
    let found: Vec<usize> = piece.nodes.iter().copied().filter(alone).collect();
    if found.is_empty() { piece.nodes.clone() } else { found }
}

/// Lists for each part the values that no later part reads.
fn dead<E: Engine>(graph: &Graph, parts: &[Part<E>]) -> Vec<Vec<ValueId>> {
    let outputs: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut last: HashMap<ValueId, usize> = HashMap::new();
    for (at, part) in parts.iter().enumerate() {
        last.extend(part.inputs.iter().chain(&part.outputs).map(|value| (*value, at)));
    }
    let mut dead = vec![Vec::new(); parts.len()];
    for (value, at) in last {
        if !outputs.contains(&value)
            && let Some(dead) = dead.get_mut(at)
        {
            dead.push(value);
        }
    }
    dead
}

impl<E, B> Executable<B> for Program<E>
where
    E: Engine,
    B: Backend<Tensor = Host, Error = EngineError> + ?Sized,
{
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, _: &B, inputs: &[Option<&Host>]) -> Result<Vec<Host>, EngineError> {
        self.declared.check(inputs)?;
        self.complete(inputs)?;
        let tensors = inputs.iter().map(|x| x.map(|x| OnnxValue::Tensor(x.data().clone()))).collect();
        let mut results = Vec::with_capacity(self.outputs.len());
        for (item, port) in self.run_all(tensors)?.into_iter().zip(&self.outputs) {
            match item {
                OnnxValue::Tensor(x) => results.push(Host::from(x)),
                other => {
                    return Err(bb::Error::NotTensor { name: port.name.clone(), got: other.kind() }.into());
                }
            }
        }
        Ok(results)
    }

    fn run_items(
        &self,
        _: &B,
        inputs: &[Option<OnnxValue<&Host>>],
    ) -> Result<Vec<OnnxValue<Host>>, EngineError> {
        self.declared.check_items(inputs)?;
        self.complete(inputs)?;
        let host = |item: &OnnxValue<&Host>| item.map(&mut |x: &&Host| x.data().clone());
        let items = inputs.iter().map(|item| item.as_ref().map(host)).collect();
        let results = self.run_all(items)?;
        Ok(results.into_iter().map(|item| item.map(&mut |x: &TensorData| Host::from(x.clone()))).collect())
    }
}
