//! A graph whose parts run on several backends.

use super::error::FirstOfError;
use super::place::{Barred, Candidates};
use super::settings::Fallback;
use super::several::FirstOf;
use crate::placement::PlacedTensor;
use crate::profile::Profile;
use crate::{
    BackendHandle, CompileOptions, ContractResponse, ErasedExecutable, Error, ErrorKind, Executable, Module,
    Port, RunOptions, Value,
};
use bb_core::contract::{OnnxValue, PartValues, PartedGraph, tensors};
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
    parts: Vec<CompiledPart>,
    whole: PartedGraph<PlacedTensor>,
    /// The program that replaces this one after a backend is lost.
    otherwise: Mutex<Option<Arc<Program>>>,
}

/// A part that is compiled.
struct CompiledPart {
    part: Part<usize>,
    on: BackendHandle,
    compiled: Arc<dyn ErasedExecutable>,
    /// Whether all results are known to be tensors.
    only_tensors: bool,
    /// Whether the next part may run at the same time as this one.
    beside: bool,
    /// The values that no later part reads.
    dead: Vec<ValueId>,
    /// The same part compiled for another backend, set after the part failed on its own backend.
    other: Mutex<Option<Arc<CompiledPart>>>,
}

/// The failure of a run.
struct Failed<'a> {
    /// The part that failed; `None` if the error does not come from a part.
    part: Option<&'a CompiledPart>,
    error: FirstOfError,
}

impl From<Error> for Failed<'_> {
    fn from(error: Error) -> Self {
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
        Program::without(on, module, options, on.none_barred())
    }

    /// Places and compiles a graph, excluding for each node the backends that it is barred from.
    fn without(
        on: &FirstOf,
        module: Module,
        options: &CompileOptions,
        barred: Barred,
    ) -> Result<Program, FirstOfError> {
        let graph = module.graph();
        let mut candidates = Candidates::of(&module, on.settings(), barred);
        let mut own = options.clone();
        // The identity in the options belongs to the whole graph, and a part is a different graph.
        own.identity = None;
        let parts = loop {
            let parts = candidates.parts(graph, &candidates.place(graph));
            match compiled(on, graph, &parts, &candidates, &own) {
                Ok(parts) => break parts,
                Err((part, error)) => {
                    let culprits = culprits(on, graph, part, &own);
                    // A pinned node runs on its backend or not at all.
                    let pinned = culprits.iter().any(|&node| candidates.is_pinned(node, part.target));
                    if pinned || !candidates.barred.bar(part.target, &culprits) {
                        return Err(error);
                    }
                }
            }
        };
        let kept: HashSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
        let constants = graph.constants.iter().filter(|(value, _)| kept.contains(value));
        let constants = constants.map(|(value, data)| (*value, PlacedTensor::of_host(data.clone())));
        Ok(Program {
            whole: PartedGraph::new(graph, options.strict, constants.collect()),
            parts,
            on: on.clone(),
            options: own,
            barred: candidates.barred,
            module,
            otherwise: Mutex::default(),
        })
    }

    /// Runs the graph. If a backend is lost and fallback is allowed, runs it without that backend.
    fn run_all(
        &self,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
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
        if self.on.fallback() == Fallback::Never || !self.parts.iter().any(CompiledPart::is_lost) {
            return None;
        }
        self.otherwise.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the program without the backend of a part, if that backend is lost; `None` if the error must be reported
    /// instead.
    fn after_failure(
        &self,
        part: &CompiledPart,
        error: &FirstOfError,
    ) -> Option<Result<Arc<Program>, FirstOfError>> {
        if self.on.fallback() == Fallback::Never || !part.is_lost() || part.is_of_caller(error) {
            return None;
        }
        let mut otherwise = self.otherwise.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*otherwise {
            return Some(Ok(known.clone()));
        }
        let all: Vec<usize> = (0..self.module.graph().nodes.len()).collect();
        let mut barred = self.barred.clone();
        if !barred.bar(part.part.target, &all) {
            return None;
        }
        let made = Program::without(&self.on, self.module.clone(), &self.options, barred);
        Some(made.map(|made| otherwise.insert(Arc::new(made)).clone()))
    }

    fn attempt(
        &self,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
        mut profile: Option<&mut Profile>,
    ) -> Result<Vec<Item>, Failed<'_>> {
        let mut values = self.whole.begin(inputs)?;
        let mut pending: Vec<(&CompiledPart, ContractResponse<Vec<Value>, Error>)> = Vec::new();
        let mut dead: Vec<ValueId> = Vec::new();
        for part in &self.parts {
            RunOptions::check_current()?;
            while let Some(place) = pending.iter().position(|(earlier, _)| part.reads(earlier)) {
                let (earlier, answer) = pending.swap_remove(place);
                self.finish(earlier, answer.wait().map(items), &mut values, None)?;
            }
            let operands = self.operands(part, &values).map_err(|error| part.failed(error))?;
            self.on.counters().ran(part.part.target);
            match (part.beside && profile.is_none()).then(|| only_tensors(&operands)).flatten() {
                Some(given) => pending.push((part, part.compiled.clone().run_async(given))),
                None => {
                    let results = part.run(&operands, profile.as_deref_mut());
                    self.finish(part, results, &mut values, profile.as_deref_mut())?;
                }
            }
            dead.extend(&part.dead);
            // If a pending part fails, it may run on another backend, which needs its operands. So they are kept until no
            // part is pending.
            if pending.is_empty() {
                values.drop_all(&dead);
                dead.clear();
            }
        }
        for (part, answer) in pending {
            self.finish(part, answer.wait().map(items), &mut values, None)?;
        }
        RunOptions::check_current()?;
        Ok(self.whole.end(&values)?)
    }

    /// Stores the results of a part. If the part failed and fallback is allowed, runs it on another backend.
    fn finish<'a>(
        &self,
        part: &'a CompiledPart,
        results: Result<Vec<OnnxValue<Value>>, Error>,
        values: &mut PartValues<PlacedTensor>,
        profile: Option<&mut Profile>,
    ) -> Result<(), Failed<'a>> {
        let results = match results {
            Ok(results) => results,
            Err(error) => self.elsewhere(part, part.failed(error), values, profile)?,
        };
        let placed = |item: &OnnxValue<Value>| item.map(&mut |x: &Value| PlacedTensor::of_value(x.clone()));
        values.store(&part.part.outputs, results.iter().map(placed));
        Ok(())
    }

    /// Runs a failed part on another backend, if fallback is allowed.
    fn elsewhere<'a>(
        &self,
        part: &CompiledPart,
        failed: Failed<'a>,
        values: &PartValues<PlacedTensor>,
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<Value>>, Failed<'a>> {
        if self.on.fallback() != Fallback::WhenFailed || part.is_lost() || part.is_of_caller(&failed.error) {
            return Err(failed);
        }
        let Some(other) = self.other(part) else { return Err(failed) };
        self.on.counters().fell_back();
        self.on.counters().ran(other.part.target);
        let ran = self.operands(&other, values).and_then(|operands| other.run(&operands, profile));
        ran.map_err(|error| Failed { part: None, error: FirstOfError::of(&other.on, error) })
    }

    /// Returns a part compiled for the first other backend that compiles it.
    fn other(&self, part: &CompiledPart) -> Option<Arc<CompiledPart>> {
        let mut known = part.other.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            let compiled = |target| {
                let moved = Part { target, ..part.part.clone() };
                CompiledPart::new(&self.on, self.module.graph(), moved, &self.options).ok()
            };
            let mut others = (0..self.on.backends().len()).filter(|&backend| backend != part.part.target);
            *known = others.find_map(compiled).map(Arc::new);
        }
        known.clone()
    }

    /// Moves the operands of a part to its backend, and returns them.
    fn operands(
        &self,
        part: &CompiledPart,
        values: &PartValues<PlacedTensor>,
    ) -> Result<Vec<Option<OnnxValue<Value>>>, Error> {
        let operand = |value: &ValueId| {
            let moved = |bytes| self.on.counters().moved(bytes);
            values.get(*value).map(|item| item.try_map(&mut |x| x.on(&part.on, moved))).transpose()
        };
        part.part.inputs.iter().map(operand).collect()
    }
}

/// Returns the operands if all of them are tensors.
fn only_tensors(operands: &[Option<OnnxValue<Value>>]) -> Option<Vec<Option<Value>>> {
    let tensor = |item: &Option<OnnxValue<Value>>| match item {
        None => Some(None),
        Some(item) => item.tensor().cloned().map(Some),
    };
    operands.iter().map(tensor).collect()
}

fn items(tensors: Vec<Value>) -> Vec<OnnxValue<Value>> {
    tensors.into_iter().map(OnnxValue::Tensor).collect()
}

impl CompiledPart {
    fn new(
        several: &FirstOf,
        graph: &Graph,
        part: Part<usize>,
        options: &CompileOptions,
    ) -> Result<CompiledPart, FirstOfError> {
        let on = several.backends().get(part.target).ok_or(Error::Abandoned)?.clone();
        let compiled = on.compile(Module::of_part(part.graph(graph)), options);
        let compiled = compiled.map_err(|error| FirstOfError::of(&on, error))?;
        let only_tensors = compiled.outputs().iter().all(|port| matches!(port.ty, ValueType::Tensor { .. }));
        let (beside, dead, other) = (false, Vec::new(), Mutex::default());
        Ok(CompiledPart { part, on, compiled, only_tensors, beside, dead, other })
    }

    fn is_lost(&self) -> bool {
        self.on.runtime().is_lost()
    }

    /// Returns whether the caller caused the error: the run was cancelled, its inputs are wrong, or a limit was exceeded.
    /// Then it would also fail on any other backend.
    fn is_of_caller(&self, error: &FirstOfError) -> bool {
        let kind = self.on.error_kind(error.error());
        matches!(kind, ErrorKind::Cancelled | ErrorKind::WrongInput | ErrorKind::Limit)
    }

    fn reads(&self, earlier: &CompiledPart) -> bool {
        earlier.part.outputs.iter().any(|value| self.part.inputs.contains(value))
    }

    fn failed(&self, error: Error) -> Failed<'_> {
        Failed { part: Some(self), error: FirstOfError::of(&self.on, error) }
    }

    fn run(
        &self,
        operands: &[Option<OnnxValue<Value>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        if let Some(profile) = profile {
            return self.compiled.run_profiled(operands, profile);
        }
        match only_tensors(operands).filter(|_| self.only_tensors) {
            Some(values) => {
                let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
                self.compiled.run(&values).map(items)
            }
            None => self.compiled.run_items(operands),
        }
    }
}

/// Compiles all parts, or returns the part that does not compile.
fn compiled<'a>(
    on: &FirstOf,
    graph: &Graph,
    parts: &'a [Part<usize>],
    candidates: &Candidates,
    options: &CompileOptions,
) -> Result<Vec<CompiledPart>, (&'a Part<usize>, FirstOfError)> {
    let mut ready: Vec<CompiledPart> = Vec::with_capacity(parts.len());
    for (at, (part, dead)) in parts.iter().zip(cut::last_reads(graph, parts)).enumerate() {
        // The results of this part are never read, so it does not run.
        if part.outputs.is_empty() {
            continue;
        }
        let made = CompiledPart::new(on, graph, part.clone(), options).map_err(|error| (part, error))?;
        let beside = parts.get(at + 1).is_some_and(|next| candidates.beside(part, next));
        ready.push(CompiledPart { beside: beside && made.only_tensors, dead, ..made });
    }
    Ok(ready)
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
        CompiledPart::new(on, graph, alone, options).is_err()
    };
    let found: Vec<usize> = part.nodes.iter().copied().filter(fails_alone).collect();
    if found.is_empty() { part.nodes.clone() } else { found }
}

impl Executable<FirstOf> for Program {
    fn inputs(&self) -> &[Port] {
        &self.whole.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.whole.outputs
    }

    fn run(&self, on: &FirstOf, inputs: &[Option<&PlacedTensor>]) -> Result<Vec<PlacedTensor>, FirstOfError> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        Ok(tensors(self.run_items(on, &items)?, &self.whole.outputs)?)
    }

    fn run_items(
        &self,
        _on: &FirstOf,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
    ) -> Result<Vec<Item>, FirstOfError> {
        self.run_all(inputs, None)
    }

    fn run_profiled(
        &self,
        _on: &FirstOf,
        inputs: &[Option<OnnxValue<&PlacedTensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<Item>, FirstOfError> {
        self.run_all(inputs, Some(profile))
    }
}
