//! A graph whose parts run on several backends.

use super::place::{Barred, Candidates};
use super::tensor::PlacedTensor;
use super::{Fallback, FirstOf};
use crate::cut::Part;
use crate::profile::Profile;
use crate::{
    CompileOptions, ContractResponse, ErasedExecutable, Error, ErrorKind, Executable, InputSpec, Module,
    Port, RunOptions, Value,
};
use bb_core::contract::OnnxValue;
use bb_ir::graph::{Graph, ValueId, ValueType};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

type Item = OnnxValue<PlacedTensor>;

/// A graph that was placed, and compiled part by part.
pub(super) struct Program {
    on: FirstOf,
    module: Module,
    options: CompileOptions,
    barred: Barred,
    parts: Vec<Ready>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    declared: InputSpec,
    /// The constants that are outputs, or defaults of inputs.
    constants: Vec<(ValueId, PlacedTensor)>,
    /// The same graph without what failed, from the first failure on.
    otherwise: Mutex<Option<Arc<Program>>>,
}

/// A part that is compiled.
struct Ready {
    /// The backend, by number.
    backend: usize,
    nodes: Vec<usize>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    compiled: Arc<dyn ErasedExecutable>,
    /// Whether the next part may run at the same time.
    beside: bool,
    /// The values that no later part reads.
    dead: Vec<ValueId>,
}

/// What failed in a run.
struct Failed {
    /// The number of the part, unless it was not the part that failed.
    part: Option<usize>,
    error: Error,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { part: None, error }
    }
}

impl Program {
    /// Places and compiles a graph.
    ///
    /// # Errors
    ///
    /// The error of the backend that compiles a part, if no other backend compiles it.
    pub(super) fn new(on: &FirstOf, module: Module, options: &CompileOptions) -> Result<Program, Error> {
        let barred = Barred::none(on.backends().len());
        Program::without(on, module, options, barred)
    }

    /// Places and compiles a graph, no node on a backend from which it is barred.
    fn without(
        on: &FirstOf,
        module: Module,
        options: &CompileOptions,
        mut barred: Barred,
    ) -> Result<Program, Error> {
        let graph = module.graph();
        let candidates = Candidates::of(&module, on);
        let mut own = options.clone();
        // A part has another graph than the whole.
        own.identity = None;
        let parts = loop {
            let of = candidates.place(graph, &barred);
            let parts = candidates.parts(graph, &of);
            match compiled(on, graph, &parts, &candidates, &own) {
                Ok(parts) => break parts,
                Err((at, error)) => {
                    let Some(part) = parts.get(at) else { return Err(error) };
                    let culprits = culprits(on, graph, part, &own);
                    if !barred.bar(part.target, &culprits) {
                        return Err(error);
                    }
                }
            }
        };
        let ty = |value: &ValueId| graph.values.get(value.index()).map_or(ValueType::Unknown, |v| v.named());
        let has_default = |value: &ValueId| graph.constants.iter().any(|(constant, _)| constant == value);
        let port = |value: &ValueId| Port {
            name: graph.name_of(*value).to_owned(),
            ty: ty(value),
            optional: has_default(value),
        };
        let kept: HashSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
        let constants = graph.constants.iter().filter(|(value, _)| kept.contains(value));
        Ok(Program {
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            declared: InputSpec::new(graph).with_strict(options.strict),
            constants: constants.map(|(value, data)| (*value, PlacedTensor::of_host(data.clone()))).collect(),
            parts,
            on: on.clone(),
            options: own,
            barred,
            module,
            otherwise: Mutex::default(),
        })
    }

    /// Runs the graph; if a part fails and that is allowed, without what failed.
    fn run_all(
        &self,
        inputs: &[Option<Item>],
        mut profile: Option<&mut Profile>,
    ) -> Result<Vec<Item>, Error> {
        if let Some(otherwise) = self.instead() {
            return otherwise.run_all(inputs, profile);
        }
        let Failed { part, error } = match self.attempt(inputs, profile.as_deref_mut()) {
            Ok(results) => return Ok(results),
            Err(failed) => failed,
        };
        match part.and_then(|part| self.after_failure(part, &error)) {
            Some(otherwise) => otherwise?.run_all(inputs, profile),
            None => Err(error),
        }
    }

    /// Returns the program that runs in place of this one, because a backend of this one is lost.
    fn instead(&self) -> Option<Arc<Program>> {
        let lost = |part: &Ready| self.on.backend(part.backend).is_some_and(|on| on.runtime().is_lost());
        if self.on.fallback() == Fallback::Never || !self.parts.iter().any(lost) {
            return None;
        }
        self.otherwise.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the program without what failed; `None` if the error is that of the run.
    fn after_failure(&self, part: usize, error: &Error) -> Option<Result<Arc<Program>, Error>> {
        let part = self.parts.get(part)?;
        let is_lost = self.on.backend(part.backend)?.runtime().is_lost();
        let failed = match self.on.fallback() {
            Fallback::Never => return None,
            Fallback::WhenLost if !is_lost => return None,
            Fallback::WhenLost | Fallback::WhenFailed if is_lost => {
                (0..self.module.graph().nodes.len()).collect()
            }
            Fallback::WhenLost | Fallback::WhenFailed => part.nodes.clone(),
        };
        // A run that its caller ended, or whose inputs are wrong, would end so on any backend.
        let kind = self.on.kind_of(part.backend, error);
        if matches!(kind, ErrorKind::Cancelled | ErrorKind::WrongInput | ErrorKind::Limit) {
            return None;
        }
        let mut otherwise = self.otherwise.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*otherwise {
            return Some(Ok(known.clone()));
        }
        let mut barred = self.barred.clone();
        if !barred.bar(part.backend, &failed) {
            return None;
        }
        let made = Program::without(&self.on, self.module.clone(), &self.options, barred);
        Some(made.map(|made| otherwise.insert(Arc::new(made)).clone()))
    }

    fn attempt(
        &self,
        inputs: &[Option<Item>],
        mut profile: Option<&mut Profile>,
    ) -> Result<Vec<Item>, Failed> {
        let graph = self.module.graph();
        let mut slots: Slots = vec![None; graph.values.len()];
        for (value, tensor) in &self.constants {
            set(&mut slots, *value, OnnxValue::Tensor(tensor.clone()));
        }
        for (value, item) in graph.inputs.iter().zip(inputs) {
            if let Some(item) = item {
                set(&mut slots, *value, item.clone());
            }
        }
        let mut pending: Vec<(usize, ContractResponse<Vec<Value>, Error>)> = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            RunOptions::check_current()?;
            let reads = |earlier: &Ready| earlier.outputs.iter().any(|value| part.inputs.contains(value));
            while let Some(place) =
                pending.iter().position(|(earlier, _)| self.parts.get(*earlier).is_some_and(reads))
            {
                let (earlier, answer) = pending.swap_remove(place);
                self.arrive(earlier, answer, &mut slots)?;
            }
            let failed = |error| Failed { part: Some(at), error };
            let items = self.operands(part, &slots).map_err(failed)?;
            match (part.beside && profile.is_none()).then(|| tensors(&items)).flatten() {
                Some(values) => pending.push((at, part.compiled.clone().run_async(values))),
                None => {
                    let results = part.run(&items, profile.as_deref_mut()).map_err(failed)?;
                    for (value, item) in part.outputs.iter().zip(results) {
                        let placed = item.map(&mut |value: &Value| PlacedTensor::of_value(value.clone()));
                        set(&mut slots, *value, placed);
                    }
                }
            }
            for value in &part.dead {
                if let Some(slot) = slots.get_mut(value.index()) {
                    *slot = None;
                }
            }
        }
        for (at, answer) in pending {
            self.arrive(at, answer, &mut slots)?;
        }
        RunOptions::check_current()?;
        let result = |value: &ValueId| {
            let missing = || Error::MissingOutput { name: graph.name_of(*value).to_owned() };
            slots.get(value.index()).cloned().flatten().ok_or_else(missing)
        };
        Ok(graph.outputs.iter().map(result).collect::<Result<_, Error>>()?)
    }

    /// Waits for a part that runs on a thread of its own.
    fn arrive(
        &self,
        at: usize,
        answer: ContractResponse<Vec<Value>, Error>,
        slots: &mut Slots,
    ) -> Result<(), Failed> {
        let results = answer.wait().map_err(|error| Failed { part: Some(at), error })?;
        let Some(part) = self.parts.get(at) else { return Ok(()) };
        for (value, result) in part.outputs.iter().zip(results) {
            set(slots, *value, OnnxValue::Tensor(PlacedTensor::of_value(result)));
        }
        Ok(())
    }

    /// Returns the operands of a part on its backend.
    fn operands(&self, part: &Ready, slots: &Slots) -> Result<Vec<Option<OnnxValue<Value>>>, Error> {
        let Some(backend) = self.on.backend(part.backend) else { return Ok(Vec::new()) };
        let operand = |value: &ValueId| {
            let Some(Some(item)) = slots.get(value.index()) else { return Ok(None) };
            item.try_map(&mut |x: &PlacedTensor| x.on(backend, self.on.counters())).map(Some)
        };
        part.inputs.iter().map(operand).collect()
    }

    /// Checks the inputs, of which those at the end may be left out.
    fn checked<'a>(
        &self,
        inputs: &[Option<OnnxValue<&'a PlacedTensor>>],
    ) -> Result<Vec<Option<Item>>, Error> {
        self.declared.check_items(inputs)?;
        let given = inputs.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let mut items = Vec::with_capacity(self.inputs.len());
        for (port, given) in self.inputs.iter().zip(given) {
            if given.is_none() && !port.optional {
                let needed = self.inputs.iter().filter(|port| !port.optional);
                let expected = needed.map(|port| port.name.clone()).collect();
                return Err(Error::MissingInput { name: port.name.clone(), expected });
            }
            items.push(given.map(|item| item.map(&mut |x: &&'a PlacedTensor| (*x).clone())));
        }
        Ok(items)
    }
}

type Slots = Vec<Option<Item>>;

fn set(slots: &mut Slots, value: ValueId, item: Item) {
    if let Some(slot) = slots.get_mut(value.index()) {
        *slot = Some(item);
    }
}

/// Returns the operands if all of them are tensors.
fn tensors(items: &[Option<OnnxValue<Value>>]) -> Option<Vec<Option<Value>>> {
    let tensor = |item: &Option<OnnxValue<Value>>| match item {
        None => Some(None),
        Some(OnnxValue::Tensor(value)) => Some(Some(value.clone())),
        Some(_) => None,
    };
    items.iter().map(tensor).collect()
}

impl Ready {
    fn run(
        &self,
        items: &[Option<OnnxValue<Value>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        if let Some(profile) = profile {
            return self.compiled.run_profiled(items, profile);
        }
        match tensors(items) {
            Some(values) if self.only_tensors() => {
                let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
                Ok(self.compiled.run(&values)?.into_iter().map(OnnxValue::Tensor).collect())
            }
            _ => self.compiled.run_items(items),
        }
    }

    /// Tells whether all results are known to be tensors.
    fn only_tensors(&self) -> bool {
        self.compiled.outputs().iter().all(|port| matches!(port.ty, ValueType::Tensor { .. }))
    }
}

/// Compiles all parts, or returns the number of the one that does not compile.
fn compiled(
    on: &FirstOf,
    graph: &Graph,
    parts: &[Part<usize>],
    candidates: &Candidates,
    options: &CompileOptions,
) -> Result<Vec<Ready>, (usize, Error)> {
    let mut dead = dead(graph, parts);
    let mut ready: Vec<Ready> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        // What nobody reads does not run.
        if part.outputs.is_empty() {
            continue;
        }
        let compiled = compile(on, graph, part, options).map_err(|error| (at, error))?;
        let beside = parts.get(at + 1).is_some_and(|next| candidates.beside(part, next));
        let tensors = compiled.outputs().iter().all(|port| matches!(port.ty, ValueType::Tensor { .. }));
        ready.push(Ready {
            backend: part.target,
            nodes: part.nodes.clone(),
            inputs: part.inputs.clone(),
            outputs: part.outputs.clone(),
            compiled,
            beside: beside && tensors,
            dead: dead.get_mut(at).map(std::mem::take).unwrap_or_default(),
        });
    }
    Ok(ready)
}

fn compile(
    on: &FirstOf,
    graph: &Graph,
    part: &Part<usize>,
    options: &CompileOptions,
) -> Result<Arc<dyn ErasedExecutable>, Error> {
    let backend = on.backend(part.target).ok_or(Error::Abandoned)?;
    let module = Module::of_part(graph.part(&part.nodes, &part.inputs, &part.outputs));
    backend.compile(module, options)
}

/// Finds the nodes because of which a part does not compile: those that do not compile alone, or all of the part.
fn culprits(on: &FirstOf, graph: &Graph, part: &Part<usize>, options: &CompileOptions) -> Vec<usize> {
    let constants: HashSet<ValueId> = graph.constants.iter().map(|(value, _)| *value).collect();
    let fails_alone = |at: &usize| {
        let Some(node) = graph.nodes.get(*at) else { return false };
        let mut inputs: Vec<ValueId> = node.reads().filter(|value| !constants.contains(value)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let outputs = node.outputs.iter().flatten().copied().collect();
        let alone = Part { target: part.target, nodes: vec![*at], inputs, outputs };
        compile(on, graph, &alone, options).is_err()
    };
    let found: Vec<usize> = part.nodes.iter().copied().filter(fails_alone).collect();
    if found.is_empty() { part.nodes.clone() } else { found }
}

/// Lists for each part the values that no later part reads.
fn dead(graph: &Graph, parts: &[Part<usize>]) -> Vec<Vec<ValueId>> {
    let outputs: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut last: HashMap<ValueId, usize> = HashMap::new();
    for (at, part) in parts.iter().enumerate() {
        last.extend(part.inputs.iter().map(|value| (*value, at)));
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

impl Executable<FirstOf> for Program {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, on: &FirstOf, inputs: &[Option<&PlacedTensor>]) -> Result<Vec<PlacedTensor>, Error> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        let results = self.run_items(on, &items)?.into_iter().zip(&self.outputs);
        let tensor = |(item, port): (Item, &Port)| match item {
            OnnxValue::Tensor(x) => Ok(x),
            other => Err(Error::NotTensor { name: port.name.clone(), got: other.kind() }),
        };
        results.map(tensor).collect()
    }

    fn run_items(
        &self,
        _on: &FirstOf,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
    ) -> Result<Vec<Item>, Error> {
        self.run_all(&self.checked(inputs)?, None)
    }

    fn run_profiled(
        &self,
        _on: &FirstOf,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<Item>, Error> {
        self.run_all(&self.checked(inputs)?, Some(profile))
    }
}
