//! A compiled graph: its segments, each with the plans built so far.
//!
//! A plan is valid for all inputs with the element types and ranks that it was traced with, if its guards (`guard.rs`) pass.
//! Extents may differ if the traced functions computed with them as symbolic expressions. If a function read the value of an
//! input, the plan is valid only for this value. A segment keeps the plans that were used most recently.

use super::cache::PlanMemory;
use super::claims::Claims;
use super::constants::{Pool, materialize};
use super::engine::Engine;
use super::failure::{Failure, in_node};
use super::guard::{Guards, InputGuard};
use super::interpreter::PlanOutputs;
use super::kernels::Material;
use super::lir::Plan;
use super::partition::PartitionedGraph;
use super::passes::{self, NativeOps, PassOptions, rewrite};
use super::refuse::refuse;
use super::resolve::Resolved;
use super::run_state::{RunLimits, RunState};
use super::saved::{Loaded, LoadedPlan, MadeFor};
use super::segment::{Outcome, SegmentInput, SegmentTrace, Settings, Start, Structure, Wanted, trace};
use super::segment_end::End;
use super::target::{AnyPrepared, Target};
use super::watch::{Watch, Watcher};
use crate::contract::PassSwitches;
use crate::contract::{BackendError, Caller};
use crate::contract::{CompileOptions, Module};
use crate::erased::AnyTensor;
use crate::erased::Holding;
use crate::ext::{ErasedError, ErasedTensor, OpSet};
use crate::measure::Activity;
use crate::single_flight::SingleFlight;
use crate::trace::{Liveness, Varies};
use crate::{Error, InputSpec, Port, RunOptions, Tensor};
use bb_ir::graph::ValueType;
use bb_ir::op::{Family, Primitive};
use bb_ir::{DataType, DataTypes, Shape, TensorData};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The maximum number of plans that a segment keeps.
const KEPT: usize = 64;

/// A compiled graph. It is not generic over its backend; `compiled.rs` adds the type.
pub(crate) struct Program {
    pub(super) resolved: Arc<Resolved>,
    pub(super) settings: Settings,
    pub(super) passes: PassOptions<'static>,
    pub(super) inputs: Vec<Port>,
    /// The declared inputs. Each run compares its inputs with them.
    pub(super) declared: InputSpec,
    pub(super) outputs: Vec<Port>,
    pub(super) first: Segment,
    pub(super) limits: RunLimits,
    /// The attributes and metadata of the caller, which are passed to the backend with every graph.
    pub(super) caller: Option<Arc<Caller>>,
    pool: Mutex<Pool>,
    pub(super) memory: PlanMemory,
    /// Whether the backend prepares steps.
    prepares: bool,
    /// The element types that whole graphs are narrowed to; `None` if the backend has every type.
    narrows: Option<Holding>,
    /// The primitives that a backend for whole graphs does not run.
    lacking: Vec<Primitive>,
}

/// A segment and its plans.
pub(super) struct Segment {
    resolved: Arc<Resolved>,
    pub(super) start: Start,
    /// The live tensors whose elements were read to build some plan.
    read: RwLock<Vec<Arc<Wanted>>>,
    /// The plans from the model's file that have not been used yet.
    loaded: Mutex<Vec<LoadedPlan>>,
    specializations: SingleFlight<Vec<Arc<Specialization>>>,
}

/// A plan of a segment, with the conditions on its inputs.
pub(super) struct Specialization {
    guards: Guards,
    /// The inputs that the plan was built for.
    made_for: Vec<MadeFor>,
    /// The required structure of the inputs.
    structure: Structure,
    /// The traced graph, for the names of nodes.
    pub(super) resolved: Arc<Resolved>,
    /// The node at which the segment begins.
    from: usize,
    pub(super) code: Code,
    /// The structure of the results.
    pub(super) results: Structure,
    /// The sequences among the results that the plan passes on unchanged, by their indices among its input sequences.
    pub(super) passed: Vec<usize>,
    pub(super) end: End<Segment>,
    /// The time of the last use, in units of [`PlanMemory::now`].
    used: AtomicU64,
    /// An estimate of the bytes of the plan, without its constants and kernels.
    overhead: usize,
}

/// The executable form of a segment.
pub(super) enum Code {
    /// Instructions, one operation call each, with their constants and kernels.
    Plan(AnyPrepared, Material),
    /// Graphs of primitives, each run by the backend as a whole.
    Graph(Box<PartitionedGraph>),
}

impl Specialization {
    /// Adds the failed node of the graph to the error of a run.
    pub(super) fn name<E: BackendError>(&self, failure: Failure<E>) -> E {
        failure.at.name(&self.resolved.graph, failure.error)
    }

    /// Returns the inputs that the plan was built for. Returns `None` for a plan that cannot be saved, because it does not run
    /// the graph to its end, or because some input or result is not a tensor.
    pub(super) fn made_for(&self) -> Option<Vec<MadeFor>> {
        let plain = self.structure.is_none() && self.results.is_none();
        (plain && matches!(self.end, End::Done)).then(|| self.made_for.clone())
    }

    /// Returns the time of the last use.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Records a use of the plan. The time is stored only if it differs, so that threads that run one plan do not contend.
    fn touch(&self, now: u64) {
        if self.used() != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// Returns an estimate of the bytes of the plan, without its constants and kernels.
    pub(super) fn overhead(&self) -> usize {
        self.overhead
    }

    /// Returns the reference count and the bytes of each constant and kernel. The count is the number of plans that keep it.
    pub(super) fn holds(&self) -> impl Iterator<Item = (usize, usize)> {
        let material = match &self.code {
            Code::Plan(_, material) => Some(material),
            Code::Graph(_) => None,
        };
        let constants = material.into_iter().flat_map(|material| material.constants.entries().flatten());
        let kernels = material.into_iter().flat_map(|material| material.kernels.entries());
        constants
            .map(|held| (Arc::strong_count(held), held.bytes))
            .chain(kernels.map(|held| (Arc::strong_count(held), held.bytes)))
    }
}

/// The input tensors of a segment.
pub(super) struct LiveTensors<'a> {
    /// The types and shapes of the tensors.
    pub(super) types: &'a [&'a dyn AnyTensor],
    /// Reads the elements of the tensor at an index.
    pub(super) to_host: &'a dyn Fn(usize) -> Result<TensorData, ErasedError>,
}

/// The element type and the shape of an input that has no elements yet.
#[derive(Clone)]
struct Placeholder {
    dtype: DataType,
    shape: Shape,
}

impl Tensor for Placeholder {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

/// The live tensors that were read, by index, and the watcher of the run.
struct Seen<'a, 'w> {
    values: Vec<Option<TensorData>>,
    watch: &'a mut Watcher<'w>,
}

impl Seen<'_, '_> {
    fn value(&self, position: usize) -> Option<&TensorData> {
        self.values.get(position).and_then(Option::as_ref)
    }
}

impl Drop for Segment {
    /// Drops the plans of later segments in a loop instead of recursively, because a graph may have more segments than the
    /// stack has room for.
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut *self.specializations.write());
        while let Some(plan) = pending.pop() {
            if let Some(plan) = Arc::into_inner(plan) {
                let following = plan.following();
                pending.extend(
                    following.flat_map(|segment| std::mem::take(&mut *segment.specializations.write())),
                );
            }
        }
    }
}

impl Segment {
    /// Reads the live tensors whose elements were needed for some plan.
    fn read(&self, live: &LiveTensors<'_>, seen: &mut Seen<'_, '_>) -> Result<(), ErasedError> {
        let read = self.wanted();
        if !read.is_empty() {
            seen.values.resize(live.types.len(), None);
        }
        for wanted in &read {
            if let (Some(place @ None), Some(x)) =
                (seen.values.get_mut(wanted.position), live.types.get(wanted.position))
            {
                let since = seen.watch.mark();
                let host =
                    (live.to_host)(wanted.position).map_err(|error| self.unread(wanted, x.dtype(), error))?;
                *place = Some(host);
                seen.watch.activity(since, Activity::Transfer, Some((&wanted.resolved, wanted.node)));
            }
        }
        Ok(())
    }

    /// Returns the error for a live tensor that could not be read, with the node that needs its elements.
    fn unread(&self, wanted: &Wanted, dtype: DataType, source: ErasedError) -> ErasedError {
        let value = self.start.live.get(wanted.position);
        let value = value.map(|v| self.resolved.graph.name_of(*v).to_owned()).unwrap_or_default();
        let error = Error::Transfer { value, dtype, source: source.into_source() };
        in_node(&wanted.resolved.graph, wanted.node, error).into()
    }

    fn new(resolved: Arc<Resolved>, start: Start, read: Vec<Arc<Wanted>>) -> Segment {
        let (read, loaded) = (RwLock::new(read), Mutex::default());
        Segment { resolved, start, read, loaded, specializations: SingleFlight::default() }
    }

    /// Returns the live tensors whose elements were needed for some plan.
    pub(super) fn wanted(&self) -> Vec<Arc<Wanted>> {
        self.read.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes the plan for these inputs from the loaded plans, and returns it.
    fn take_loaded(&self, live: &[&dyn AnyTensor], seen: &Seen<'_, '_>) -> Option<LoadedPlan> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |plan: &LoadedPlan| plan.guards.hold(live, |i| seen.value(i));
        let at = loaded.iter().position(holds)?;
        Some(loaded.swap_remove(at))
    }

    /// Returns the plans.
    pub(super) fn plans(&self) -> Vec<Arc<Specialization>> {
        self.specializations.read().clone()
    }

    /// Returns whether there is no plan.
    pub(super) fn is_empty(&self) -> bool {
        self.specializations.read().is_empty()
    }

    /// Removes a plan, if the segment has it.
    pub(super) fn forget(&self, plan: &Arc<Specialization>) {
        let mut plans = self.specializations.write();
        plans.retain(|known| !Arc::ptr_eq(known, plan));
    }

    /// Adds a plan; if there are too many, the least recently used plan is removed.
    fn add(&self, plan: Arc<Specialization>) {
        let mut plans = self.specializations.write();
        if plans.len() >= KEPT {
            let oldest = plans.iter().enumerate().min_by_key(|(_, plan)| plan.used()).map(|(at, _)| at);
            oldest.map(|at| plans.remove(at));
        }
        plans.push(plan);
    }

    /// Creates the segment that follows another one. The last argument is the index of the live tensor whose elements the first
    /// node needs, if any.
    fn follows(resolved: &Arc<Resolved>, start: Start, wanted: Option<usize>) -> Segment {
        let node = start.node;
        let wanted = wanted.map(|position| Arc::new(Wanted { position, resolved: resolved.clone(), node }));
        Segment::new(resolved.clone(), start, wanted.into_iter().collect())
    }
}

/// Compiles for a backend with these native operations and element types.
///
/// # Errors
///
/// [`Error::Unsupported`] that lists every node without an implementation.
pub(super) fn compile_program(
    module: &Module,
    options: &CompileOptions,
    natives: &[(Family, OpSet)],
    engine: Engine,
    types: DataTypes,
    narrows: Option<Holding>,
) -> Result<Program, Error> {
    let graph = module.graph();
    let [inputs, outputs] = [&graph.inputs, &graph.outputs].map(|values| Port::all_of(graph, values));
    let resolved = Arc::new(Resolved::new(module.planned()?)?);
    let fuse = options.passes.fuse && engine == Engine::Interpreter && passes::fuses(natives);
    let widen_halves =
        options.passes.widen_halves && engine == Engine::Interpreter && types.has(crate::DataType::F32);
    let native = NativeOps::of(natives);
    refuse(&resolved, natives, options)?;
    let start = Start { live: graph.inputs.clone(), ..Start::default() };
    // The first run computes the constants, so their limit must not exceed the limit of the whole run.
    let fold_bytes = options.fold_bytes.min(options.run_bytes);
    let mut program = Program {
        pool: Mutex::new(Pool::default()),
        memory: PlanMemory::new(options.plan_bytes),
        prepares: true,
        narrows,
        lacking: Vec::new(),
        settings: Settings {
            natives: passes::kept(natives.to_vec(), fuse),
            value_bytes: options.value_bytes,
            fold_bytes,
            symbolic: engine == Engine::Interpreter,
            strict: false,
            types,
        },
        first: Segment::new(resolved.clone(), start, Vec::new()),
        limits: RunLimits::new(options),
        caller: options.caller(),
        declared: InputSpec::new(graph).with_strict(options.strict),
        inputs,
        outputs,
        resolved,
        passes: PassOptions {
            engine,
            check: options.check_passes,
            fold_bytes,
            switches: PassSwitches { fuse, widen_halves, ..options.passes },
            natives: native,
            ..PassOptions::INTERPRETED
        },
    };
    match module.saved_plans() {
        None => Ok(program),
        Some(saved) => {
            let Loaded { read, plans } = saved.load(&program.resolved, &program.saved_settings())?;
            let loaded = Mutex::new(plans);
            (program.first.read, program.first.loaded) = (RwLock::new(read), loaded);
            Ok(program)
        }
    }
}

impl Program {
    /// Returns the program with a list of primitives that its plans refuse.
    pub(super) fn without(self, lacking: Vec<Primitive>) -> Self {
        Program { lacking, ..self }
    }

    /// Returns an error if a trace has a primitive that the backend does not run.
    ///
    /// # Errors
    ///
    /// [`Error::NoPrimitive`], in the node that needs the primitive.
    fn refuse_lacking(&self, traced: &SegmentTrace) -> Result<(), Error> {
        if self.lacking.is_empty() {
            return Ok(());
        }
        let liveness = Liveness::of(&traced.recorded)?;
        for (id, node) in traced.steps_by_node() {
            let op = traced.recorded.steps.get(id)?.operation.primitive();
            if let Some(op) = op.filter(|op| self.lacking.contains(op))
                && liveness.is_live(id)?
            {
                let error = Error::NoPrimitive { op: op.spec().method };
                return Err(in_node(&traced.resolved.graph, node, error));
            }
        }
        Ok(())
    }

    /// Returns the program for a single run. It does not prepare steps, because that would not pay off.
    pub(super) fn for_one_run(self) -> Self {
        Program { prepares: false, ..self }
    }

    /// Builds the plan of the first segment for inputs of these types and shapes, unless the plan depends on their elements.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if an input differs from its declaration; errors of lowering.
    pub(super) fn plan_ahead(
        &self,
        target: &dyn Target,
        inputs: &[Option<(DataType, &[usize])>],
    ) -> Result<(), ErasedError> {
        let placeholder = |&(dtype, shape): &(DataType, &[usize])| Placeholder { dtype, shape: shape.into() };
        let mut inputs: Vec<Option<Placeholder>> =
            inputs.iter().map(|input| input.as_ref().map(placeholder)).collect();
        self.declared.check(&inputs.iter().map(Option::as_ref).collect::<Vec<_>>())?;
        inputs.resize(self.inputs.len(), None);
        let mut defaults = vec![None; inputs.len()];
        for ((input, default), value) in inputs.iter_mut().zip(&mut defaults).zip(&self.resolved.graph.inputs)
        {
            if let (None, Some((_, data))) = (&input, self.resolved.constant(*value)?) {
                *input = Some(Placeholder { dtype: data.dtype(), shape: data.shape().into() });
                *default = Some(data);
            }
        }
        let types: Option<Vec<&dyn AnyTensor>> =
            inputs.iter().map(|input| input.as_ref().map(|x| x as _)).collect();
        let Some(types) = types else { return Ok(()) };
        let depends_on_elements = Cell::new(false);
        let to_host = |position: usize| {
            defaults.get(position).copied().flatten().cloned().ok_or_else(|| {
                depends_on_elements.set(true);
                Error::excluded("a plan made ahead to read no elements").into()
            })
        };
        let live = LiveTensors { types: &types, to_host: &to_host };
        match self.specialization(target, &self.first, &live, &None, &mut Watcher(None)) {
            Err(_) if depends_on_elements.get() => Ok(()),
            made => made.map(drop),
        }
    }

    /// Runs a plan on erased tensors.
    pub(super) fn run_specialization(
        target: &dyn Target,
        specialization: &Specialization,
        live: &[&ErasedTensor],
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<PlanOutputs<ErasedTensor>, ErasedError> {
        let graph = &specialization.resolved.graph;
        let since = watch.mark();
        let results = match &specialization.code {
            Code::Plan(plan, material) => target.run(plan, material, live, graph, state, watch.profile()),
            Code::Graph(whole) => whole.run(&target.backend(), live, graph, state, watch),
        };
        let results = results.map_err(|failure| specialization.name(*failure))?;
        watch.segment(since, &specialization.resolved, specialization.from);
        Ok(results)
    }

    /// Finds or builds the plan for these inputs.
    pub(super) fn specialization(
        &self,
        target: &dyn Target,
        segment: &Segment,
        live: &LiveTensors<'_>,
        structure: &Structure,
        watch: &mut Watcher<'_>,
    ) -> Result<Arc<Specialization>, ErasedError> {
        let mut seen = Seen { values: Vec::new(), watch };
        let find = |seen: &mut Seen<'_, '_>| {
            segment.read(live, seen)?;
            let known = segment.specializations.read();
            let holds = |plan: &&Arc<Specialization>| {
                plan.structure == *structure && plan.guards.hold(live.types, |i| seen.value(i))
            };
            let found = known.iter().rev().find(holds);
            Ok(found.inspect(|plan| plan.touch(self.memory.now())).cloned())
        };
        segment
            .specializations
            .find_or_make(&mut seen, find, |seen| self.specialize(target, segment, live, structure, seen))
    }

    /// Builds a plan for these inputs, and reads the input elements that tracing needs.
    fn specialize(
        &self,
        target: &dyn Target,
        segment: &Segment,
        live: &LiveTensors<'_>,
        structure: &Structure,
        seen: &mut Seen<'_, '_>,
    ) -> Result<Arc<Specialization>, ErasedError> {
        let since = seen.watch.mark();
        if structure.is_none()
            && let Some(LoadedPlan { guards, traced, inputs }) = segment.take_loaded(live.types, seen)
        {
            let made = self.made(target, segment, traced, End::Done, guards, inputs, structure)?;
            seen.watch.activity(since, Activity::Planning, None);
            return Ok(made);
        }
        loop {
            let since = seen.watch.mark();
            let input = |(i, x): (usize, &&dyn AnyTensor)| SegmentInput {
                dtype: x.dtype(),
                shape: Shape::from_slice(x.shape()),
                varies: self.varies(segment, structure, i),
                known: seen.value(i).cloned(),
            };
            let inputs: Vec<SegmentInput> = live.types.iter().enumerate().map(input).collect();
            match trace(&segment.resolved, &segment.start, &inputs, structure, &self.settings)? {
                Outcome::Needs(wanted) => {
                    let mut read = segment.read.write().unwrap_or_else(PoisonError::into_inner);
                    if !read.iter().any(|known| known.position == wanted.position) {
                        read.push(Arc::new(wanted));
                    }
                    drop(read);
                    seen.watch.activity(since, Activity::Planning, None);
                    segment.read(live, seen)?;
                }
                Outcome::Traced(mut traced, end) => {
                    let (recorded, weights) = traced.rewritable();
                    rewrite(
                        recorded,
                        PassOptions { weights, settings: Some(&self.settings), ..self.passes },
                    )?;
                    let made_for = MadeFor::of(&inputs);
                    let inputs = inputs.into_iter().map(|input| (input.dtype, input.shape, input.known));
                    let guards = Guards::new(&traced.recorded, inputs, self.settings.value_bytes)?;
                    let made = self.made(target, segment, *traced, end, guards, made_for, structure)?;
                    seen.watch.activity(since, Activity::Planning, None);
                    return Ok(made);
                }
            }
        }
    }

    /// Builds a plan from a trace, and adds it to a segment.
    #[expect(clippy::too_many_arguments, reason = "the parts of a plan")]
    fn made(
        &self,
        target: &dyn Target,
        segment: &Segment,
        traced: SegmentTrace,
        end: End<Start>,
        guards: Guards,
        made_for: Vec<MadeFor>,
        structure: &Structure,
    ) -> Result<Arc<Specialization>, ErasedError> {
        let code = self.code(target, &traced, &guards)?;
        let overhead = traced.overhead(&segment.resolved, made_for.len());
        let planned = segment.start.planned.saturating_add(overhead);
        let follows = |resolved: &Arc<Resolved>, start: Start, wanted: Option<usize>| {
            Segment::follows(resolved, Start { planned, ..start }, wanted)
        };
        let specialization = Arc::new(Specialization {
            guards,
            made_for,
            structure: structure.clone(),
            from: segment.start.node,
            end: end.segments(&traced.resolved, follows),
            resolved: traced.resolved,
            code,
            results: traced.structure,
            passed: traced.passed,
            used: AtomicU64::new(self.memory.begin()),
            overhead,
        });
        // The plans of one run may take more memory than the model, because each plan contains all values that are read after
        // it. Plans beyond the limit are used for one run and not kept.
        if segment.start.planned == 0 || planned <= self.memory.limit() {
            segment.add(specialization.clone());
            self.count_plan(&specialization);
        }
        Ok(specialization)
    }

    /// Builds the executable form of a trace.
    fn code(&self, target: &dyn Target, traced: &SegmentTrace, guards: &Guards) -> Result<Code, ErasedError> {
        match self.passes.engine {
            Engine::Interpreter => {
                let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
                let fixed = guards.are_fixed();
                // The sizes in a file are not trusted, so each run of a loaded plan counts the bytes of its results.
                let plan = Plan::new(&traced.recorded, fixed && !traced.is_loaded)?;
                let claims = Claims::new(&traced.recorded, &plan, fixed, traced.is_loaded)?;
                let material = materialize(target, &mut pool, traced, &plan, guards, self.prepares)?;
                let prepared = target.prepared(plan, &material, traced.origins.clone(), claims)?;
                Ok(Code::Plan(prepared, material))
            }
            Engine::WholeGraph => {
                self.refuse_lacking(traced)?;
                let open: Vec<bool> = guards.inputs.iter().map(InputGuard::is_open).collect();
                let partitioned = RunOptions::paced(|| PartitionedGraph::new(traced, &open, self.narrows))??;
                Ok(Code::Graph(Box::new(partitioned)))
            }
        }
    }

    /// Returns the extents of a live value that may differ between runs.
    pub(super) fn varies(&self, segment: &Segment, structure: &Structure, position: usize) -> Varies {
        let ty = segment
            .start
            .live
            .get(position)
            .and_then(|v| segment.resolved.graph.values.get(v.index()))
            .map(|v| &v.ty);
        match ty {
            Some(ValueType::Tensor { shape: Some(dims), .. })
                if structure.is_none() && std::ptr::eq(segment, &self.first) =>
            {
                Varies::Declared(dims.clone())
            }
            _ => Varies::Everything,
        }
    }
}
