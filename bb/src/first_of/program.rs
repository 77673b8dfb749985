//! A graph whose parts run on several backends.

use super::place::{Barred, Candidates};
use super::tensor::PlacedTensor;
use super::{Fallback, FirstOf, FirstOfError};
use crate::profile::Profile;
use crate::{
    CompileOptions, ContractResponse, ErasedExecutable, Error, ErrorKind, Executable, InputSpec, Module,
    Port, RunOptions, Value,
};
use bb_core::contract::OnnxValue;
use bb_core::cut::{self, Part};
use bb_ir::graph::{Graph, ValueId, ValueType};
use std::collections::HashSet;
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
    /// The same graph without a backend that is lost.
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
    /// Whether all results are known to be tensors.
    only_tensors: bool,
    /// Whether the next part may run at the same time.
    beside: bool,
    /// The values that no later part reads.
    dead: Vec<ValueId>,
    /// The same part on another backend, once it failed on its own.
    other: Mutex<Option<Arc<Ready>>>,
}

/// The failure of a run.
struct Failed {
    /// The number of the part, unless it was not the part that failed.
    part: Option<usize>,
    error: FirstOfError,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { part: None, error: error.into() }
    }
}

impl Program {
    /// Places and compiles a graph.
    ///
    /// # Errors
    ///
    /// The error of the backend that compiles a part, if no other backend compiles it.
    pub(super) fn new(
        on: &FirstOf,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Program, FirstOfError> {
        let barred = Barred::none(on.backends().len());
        Program::without(on, module, options, barred)
    }

    /// Places and compiles a graph, excluding for each node the backends that it is barred from.
    fn without(
        on: &FirstOf,
        module: Module,
        options: &CompileOptions,
        mut barred: Barred,
    ) -> Result<Program, FirstOfError> {
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
                    // A pinned node runs on its backend or not at all.
                    let pinned = culprits.iter().any(|&node| candidates.is_pinned(node, part.target));
                    if pinned || !barred.bar(part.target, &culprits) {
                        return Err(error);
                    }
                }
            }
        };
        let kept: HashSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
        let constants = graph.constants.iter().filter(|(value, _)| kept.contains(value));
        Ok(Program {
            inputs: Port::all_of(graph, &graph.inputs),
            outputs: Port::all_of(graph, &graph.outputs),
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

    /// Runs the graph; if a backend is lost and that is allowed, without it.
    fn run_all(
        &self,
        inputs: &[Option<Item>],
        mut profile: Option<&mut Profile>,
    ) -> Result<Vec<Item>, FirstOfError> {
        if let Some(otherwise) = self.instead() {
            return otherwise.run_all(inputs, profile);
        }
        let Failed { part, error } = match self.attempt(inputs, profile.as_deref_mut()) {
            Ok(results) => return Ok(results),
            Err(failed) => failed,
        };
        match part.and_then(|part| self.after_failure(part, &error)) {
            Some(otherwise) => {
                self.on.counters().fell_back();
                otherwise?.run_all(inputs, profile)
            }
            None => Err(error),
        }
    }

    /// Returns the program that replaces this one if a backend of this one is lost.
    fn instead(&self) -> Option<Arc<Program>> {
        let lost = |part: &Ready| self.on.backend(part.backend).is_some_and(|on| on.runtime().is_lost());
        if self.on.fallback() == Fallback::Never || !self.parts.iter().any(lost) {
            return None;
        }
        self.otherwise.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether a run would end so on any backend: because its caller ended it, or its inputs are wrong.
    fn is_of_caller(&self, part: &Ready, error: &FirstOfError) -> bool {
        let kind = self.on.backend(part.backend).map(|on| on.error_kind(error.error()));
        matches!(kind, Some(ErrorKind::Cancelled | ErrorKind::WrongInput | ErrorKind::Limit))
    }

    /// Returns the program without the backend of a part, if that backend is lost; `None` if the error belongs to the run.
    fn after_failure(&self, part: usize, error: &FirstOfError) -> Option<Result<Arc<Program>, FirstOfError>> {
        let part = self.parts.get(part)?;
        let is_lost = self.on.backend(part.backend)?.runtime().is_lost();
        if self.on.fallback() == Fallback::Never || !is_lost || self.is_of_caller(part, error) {
            return None;
        }
        let all: Vec<usize> = (0..self.module.graph().nodes.len()).collect();
        let mut otherwise = self.otherwise.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*otherwise {
            return Some(Ok(known.clone()));
        }
        let mut barred = self.barred.clone();
        if !barred.bar(part.backend, &all) {
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
            let failed = |error| self.failed(at, error);
            let items = self.operands(part, &slots).map_err(failed)?;
            self.on.counters().ran(part.backend);
            match (part.beside && profile.is_none()).then(|| tensors(&items)).flatten() {
                Some(values) => pending.push((at, part.compiled.clone().run_async(values))),
                None => {
                    let results = match part.run(&items, profile.as_deref_mut()) {
                        Ok(results) => results,
                        Err(error) => self.elsewhere(at, failed(error), &slots, profile.as_deref_mut())?,
                    };
                    place(&mut slots, part, &results);
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
            let missing =
                || Error::MissingOutput { name: graph.name_of(*value).to_owned(), made: Vec::new() };
            slots.get(value.index()).cloned().flatten().ok_or_else(missing)
        };
        Ok(graph.outputs.iter().map(result).collect::<Result<_, Error>>()?)
    }

    /// Runs a part that failed on another backend, if that is allowed.
    fn elsewhere(
        &self,
        at: usize,
        failed: Failed,
        slots: &Slots,
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<Value>>, Failed> {
        let Some(part) = self.parts.get(at) else { return Err(failed) };
        let is_lost = self.on.backend(part.backend).is_some_and(|on| on.runtime().is_lost());
        if self.on.fallback() != Fallback::WhenFailed || is_lost || self.is_of_caller(part, &failed.error) {
            return Err(failed);
        }
        let Some(other) = self.other(part) else { return Err(failed) };
        self.on.counters().fell_back();
        self.on.counters().ran(other.backend);
        let of_other = |error| Failed { part: None, error: self.failed_on(other.backend, error) };
        let items = self.operands(&other, slots).map_err(of_other)?;
        other.run(&items, profile).map_err(of_other)
    }

    /// Returns a part on the first other backend that compiles it.
    fn other(&self, part: &Ready) -> Option<Arc<Ready>> {
        let mut known = part.other.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            let compiled = |target: usize| {
                let moved = Part {
                    target,
                    nodes: part.nodes.clone(),
                    inputs: part.inputs.clone(),
                    outputs: part.outputs.clone(),
                };
                let compiled = compile(&self.on, self.module.graph(), &moved, &self.options).ok()?;
                Some(Arc::new(Ready::new(moved, compiled)))
            };
            let others = (0..self.on.backends().len()).filter(|&backend| backend != part.backend);
            *known = others.into_iter().find_map(compiled);
        }
        known.clone()
    }

    /// Returns the failure of a part.
    fn failed(&self, at: usize, error: Error) -> Failed {
        let backend = self.parts.get(at).map_or(usize::MAX, |part| part.backend);
        Failed { part: Some(at), error: self.failed_on(backend, error) }
    }

    fn failed_on(&self, backend: usize, error: Error) -> FirstOfError {
        match self.on.backend(backend) {
            Some(on) => FirstOfError::of(on, error),
            None => error.into(),
        }
    }

    /// Waits for a part that runs on a thread of its own.
    fn arrive(
        &self,
        at: usize,
        answer: ContractResponse<Vec<Value>, Error>,
        slots: &mut Slots,
    ) -> Result<(), Failed> {
        let Some(part) = self.parts.get(at) else { return Ok(()) };
        let results = match answer.wait() {
            Ok(results) => results.into_iter().map(OnnxValue::Tensor).collect::<Vec<_>>(),
            Err(error) => self.elsewhere(at, self.failed(at, error), slots, None)?,
        };
        place(slots, part, &results);
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

    /// Checks the inputs; trailing inputs may be omitted.
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

/// Stores the results of a part.
fn place(slots: &mut Slots, part: &Ready, results: &[OnnxValue<Value>]) {
    for (value, item) in part.outputs.iter().zip(results) {
        set(slots, *value, item.map(&mut |value: &Value| PlacedTensor::of_value(value.clone())));
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
    fn new(part: Part<usize>, compiled: Arc<dyn ErasedExecutable>) -> Ready {
        let Part { target: backend, nodes, inputs, outputs } = part;
        let only_tensors = compiled.outputs().iter().all(|port| matches!(port.ty, ValueType::Tensor { .. }));
        let (beside, dead, other) = (false, Vec::new(), Mutex::default());
        Ready { backend, nodes, inputs, outputs, compiled, only_tensors, beside, dead, other }
    }

    fn run(
        &self,
        items: &[Option<OnnxValue<Value>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        if let Some(profile) = profile {
            return self.compiled.run_profiled(items, profile);
        }
        match tensors(items) {
            Some(values) if self.only_tensors => {
                let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
                Ok(self.compiled.run(&values)?.into_iter().map(OnnxValue::Tensor).collect())
            }
            _ => self.compiled.run_items(items),
        }
    }
}

/// Compiles all parts, or returns the number of the one that does not compile.
fn compiled(
    on: &FirstOf,
    graph: &Graph,
    parts: &[Part<usize>],
    candidates: &Candidates,
    options: &CompileOptions,
) -> Result<Vec<Ready>, (usize, FirstOfError)> {
    let mut dead = cut::last_reads(graph, parts);
    let mut ready: Vec<Ready> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        // A part without readers does not run.
        if part.outputs.is_empty() {
            continue;
        }
        let compiled = compile(on, graph, part, options).map_err(|error| (at, error))?;
        let beside = parts.get(at + 1).is_some_and(|next| candidates.beside(part, next));
        let mut made = Ready::new(part.clone(), compiled);
        made.beside = beside && made.only_tensors;
        made.dead = dead.get_mut(at).map(std::mem::take).unwrap_or_default();
        ready.push(made);
    }
    Ok(ready)
}

fn compile(
    on: &FirstOf,
    graph: &Graph,
    part: &Part<usize>,
    options: &CompileOptions,
) -> Result<Arc<dyn ErasedExecutable>, FirstOfError> {
    let backend = on.backend(part.target).ok_or(Error::Abandoned)?;
    let module = Module::of_part(graph.part(&part.nodes, &part.inputs, &part.outputs));
    backend.compile(module, options).map_err(|error| FirstOfError::of(backend, error))
}

/// Finds the nodes that prevent a part from compiling: those that do not compile separately, or else all nodes of the part.
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

impl Executable<FirstOf> for Program {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, on: &FirstOf, inputs: &[Option<&PlacedTensor>]) -> Result<Vec<PlacedTensor>, FirstOfError> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        let results = self.run_items(on, &items)?.into_iter().zip(&self.outputs);
        let tensor = |(item, port): (Item, &Port)| match item {
            OnnxValue::Tensor(x) => Ok(x),
            other => Err(Error::NotTensor { name: port.name.clone(), got: other.kind() }.into()),
        };
        results.map(tensor).collect()
    }

    fn run_items(
        &self,
        _on: &FirstOf,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
    ) -> Result<Vec<Item>, FirstOfError> {
        self.run_all(&self.checked(inputs)?, None)
    }

    fn run_profiled(
        &self,
        _on: &FirstOf,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<Item>, FirstOfError> {
        self.run_all(&self.checked(inputs)?, Some(profile))
    }
}
