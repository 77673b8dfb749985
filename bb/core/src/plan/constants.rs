//! Constants on the backend: weights, literals, and values computed only from them.
//!
//! One pool serves all plans of a program. So a plan for other extents neither uploads weights again nor folds constants again.
//! The plans own the tensors, and the pool has weak references to them. A constant is dropped when no plan reads it, for
//! example a weight that was folded into another constant, a weight that a kernel was prepared from, or a constant of a plan
//! that was dropped.

use super::claims::Claim;
use super::guard::Guards;
use super::kernels::{KernelPool, Material};
use super::lir::{Callee, Plan, PlanConstant};
use super::prepare::Preparing;
use super::segment::SegmentTrace;
use super::target::Target;
use crate::contract::{bytes_of, contained, contained_in, inside};
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor, FamilyTable};
use crate::trace::{Liveness, Operation, Phase, Step, StepId, Table, TraceValue, ValueSource, held};
use crate::{Backend, Error, Outputs, ResultMaker, RunOptions, Tensor};
use bb_ir::op::Param;
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// A constant that plans own.
pub(crate) struct Held {
    pub(crate) tensor: ErasedTensor,
    /// The bytes that the constant takes in addition to the model. They are 0 for weights, which the model stores.
    pub(crate) bytes: usize,
}

/// The constants of a plan; `None` for a constant that was needed only to prepare kernels.
pub(crate) type Constants = Table<PlanConstant, Option<Arc<Held>>>;

/// The constants that a step reads.
pub(super) type Operands = SmallVec<[Option<Arc<Held>>; 4]>;

/// The id of the source of a constant: a weight, literal or fold of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SourceId(u64);

/// The element type, shape and bytes of a literal.
type LiteralKey = (DataType, bb_ir::Shape, bytes::Bytes);

/// The element type and shape of a weight, and the address and number of its bytes.
type WeightKey = (DataType, bb_ir::Shape, bb_ir::Identity);

/// An operation and the sources of its operands.
type FoldKey = (Operation, SmallVec<[Option<SourceId>; 3]>);

/// The parameters of a fold, and the sources of its results.
type Fold = (Box<[Param<'static>]>, SmallVec<[SourceId; 1]>);

/// The constants of a program on one backend, and the kernels prepared from them.
pub(crate) struct Pool {
    /// Weak references to the tensors that plans own.
    tensors: HashMap<SourceId, Weak<Held>>,
    pub(super) kernels: KernelPool,
    /// The weights by the location of their bytes. The location is the same in every graph that the program's graph was split
    /// into.
    weights: HashMap<WeightKey, SourceId>,
    literals: HashMap<LiteralKey, SourceId>,
    folds: HashMap<FoldKey, Vec<Fold>>,
    next: u64,
    /// The number of entries at which the pool removes unused sources.
    most: usize,
}

/// The maximum number of folds with the same operation and operands that a fold is compared with, the latest first. They differ
/// in their parameters.
const MOST_ALIKE: usize = 256;

/// The number of entries at which a pool first looks for unused ones.
const FEW: usize = 1 << 10;

impl Default for Pool {
    fn default() -> Self {
        Pool {
            tensors: HashMap::new(),
            kernels: KernelPool::default(),
            weights: HashMap::new(),
            literals: HashMap::new(),
            folds: HashMap::new(),
            next: 0,
            most: FEW,
        }
    }
}

impl Pool {
    /// Returns the tensor of a source, if a plan owns it.
    fn tensor(&self, source: SourceId) -> Option<Arc<Held>> {
        self.tensors.get(&source)?.upgrade()
    }

    /// Stores a weak reference to a tensor, which is valid as long as a plan owns the tensor.
    fn keep(&mut self, source: SourceId, tensor: ErasedTensor, bytes: usize) -> Arc<Held> {
        let held = Arc::new(Held { tensor, bytes });
        self.tensors.insert(source, Arc::downgrade(&held));
        held
    }

    fn weight(&mut self, data: &TensorData) -> SourceId {
        // The identity is the location of the bytes in the model. It stays the same if they are copied for alignment.
        let key = (data.dtype(), data.shape().into(), data.identity());
        let next = &mut self.next;
        *self.weights.entry(key).or_insert_with(|| fresh(next))
    }

    fn literal(&mut self, data: &TensorData) -> Result<SourceId, Error> {
        let key = (data.dtype(), bb_ir::Shape::from_slice(data.shape()), data.bytes()?.clone());
        let next = &mut self.next;
        Ok(*self.literals.entry(key).or_insert_with(|| fresh(next)))
    }

    /// Returns the sources of a step's results.
    fn fold(&mut self, step: &Step, operands: SmallVec<[Option<SourceId>; 3]>) -> SmallVec<[SourceId; 1]> {
        let folds = self.folds.entry((step.operation, operands)).or_default();
        let mut latest = folds.iter().rev().take(MOST_ALIKE);
        if let Some((_, results)) = latest.find(|(params, _)| same_params(params, &step.params)) {
            return results.clone();
        }
        let results: SmallVec<[SourceId; 1]> = step.outputs.iter().map(|_| fresh(&mut self.next)).collect();
        folds.push((step.params.clone(), results.clone()));
        results
    }

    /// Removes the sources without a live tensor or kernel, once there are many. Sources that a live constant was computed from
    /// stay, so that another plan finds the constant.
    fn forget(&mut self) {
        if self.known() < self.most {
            return;
        }
        self.tensors.retain(|_, tensor| tensor.strong_count() > 0);
        let mut made_of: HashMap<SourceId, Vec<SourceId>> = HashMap::new();
        for ((_, operands), folds) in &self.folds {
            for result in folds.iter().flat_map(|(_, results)| results) {
                made_of.insert(*result, operands.iter().flatten().copied().collect());
            }
        }
        let mut used: HashSet<SourceId> = HashSet::new();
        let mut pending: Vec<SourceId> = self.tensors.keys().copied().chain(self.kernels.forget()).collect();
        while let Some(source) = pending.pop() {
            if used.insert(source) {
                pending.extend(made_of.get(&source).into_iter().flatten());
            }
        }
        self.weights.retain(|_, source| used.contains(source));
        self.literals.retain(|_, source| used.contains(source));
        self.folds.retain(|_, folds| {
            folds.retain(|(_, results)| results.iter().any(|source| used.contains(source)));
            !folds.is_empty()
        });
        self.most = FEW.max(2 * self.known());
    }

    /// Returns the number of entries of the pool.
    fn known(&self) -> usize {
        self.weights.len() + self.literals.len() + self.folds.len() + self.kernels.len()
    }
}

/// Returns whether all parameters are equal.
fn same_params(a: &[Param<'_>], b: &[Param<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
}

fn fresh(next: &mut u64) -> SourceId {
    *next += 1;
    SourceId(*next)
}

/// Uploads the constants of a plan, and computes the folded constants that no plan owns yet. If `prepares` is set, the backend
/// prepares the kernels that no plan owns yet; constants that only these kernels needed are dropped.
///
/// # Errors
///
/// The backend's own errors.
pub(crate) fn materialize(
    target: &dyn Target,
    pool: &mut Pool,
    traced: &SegmentTrace,
    plan: &Plan,
    guards: &Guards,
    prepares: bool,
) -> Result<Material, ErasedError> {
    let on = &target.backend();
    pool.forget();
    let sources = Sources::new(pool, traced)?;
    let mut preparing = Preparing::new(pool, traced, plan, guards, &sources)?;
    let (runs, readers) = sources.missing(pool, traced, preparing.readers.clone())?;
    preparing.readers = readers;
    let count = traced.recorded.values.len();
    let mut making = Making { pool, traced, sources, made: Table::with(count, || None) };
    for &id in &runs {
        making.run(on, id, &mut preparing.readers)?;
    }
    if prepares {
        preparing.prepare(target, &mut making)?;
    }
    let mut constants = Table::default();
    for &value in plan.constants.entries() {
        RunOptions::check_current()?;
        let read = *preparing.readers.get(value)? > 0;
        constants.push(read.then(|| making.constant(on, value)).transpose()?);
    }
    Ok(Material { constants, kernels: preparing.kernels })
}

/// The sources of the values of a trace that are known before a run.
pub(super) struct Sources {
    of: Table<TraceValue, Option<SourceId>>,
    liveness: Liveness<TraceValue, StepId>,
}

impl Sources {
    fn new(pool: &mut Pool, traced: &SegmentTrace) -> Result<Sources, Error> {
        let recorded = &traced.recorded;
        let liveness = Liveness::of(recorded)?;
        let mut of = Table::with(recorded.values.len(), || None);
        for (value, info) in recorded.values.iter() {
            let source = match info.source {
                _ if !liveness.is_read(value)? => continue,
                ValueSource::Weight(id) => pool.weight(traced.weights().get(id)?),
                ValueSource::Constant(index) => {
                    let failed = |error| traced.constant(value, None, info.dtype, error);
                    pool.literal(recorded.constants.get(index)?).map_err(failed)?
                }
                ValueSource::Input(_) | ValueSource::Step => continue,
            };
            of.set(value, Some(source))?;
        }
        let mut sources = Sources { of, liveness };
        for (id, step) in recorded.steps.iter().filter(|(_, step)| step.phase == Phase::Once) {
            if !sources.liveness.is_live(id)? {
                continue;
            }
            let mut operands = SmallVec::new();
            for value in &step.inputs {
                operands.push(value.map(|value| sources.get(value)).transpose()?);
            }
            for (&value, source) in step.outputs.iter().zip(pool.fold(step, operands)) {
                sources.of.set(value, Some(source))?;
            }
        }
        Ok(sources)
    }

    pub(super) fn get(&self, value: TraceValue) -> Result<SourceId, Error> {
        held(*self.of.get(value)?, value)
    }

    /// Returns the steps that must run because no plan owns their results, in order. Adds their reads of each value to the
    /// reads by the plan.
    fn missing(
        &self,
        pool: &Pool,
        traced: &SegmentTrace,
        mut readers: Readers,
    ) -> Result<(Vec<StepId>, Readers), Error> {
        let recorded = &traced.recorded;
        let mut runs = Vec::new();
        for (id, step) in recorded.steps.iter().rev().filter(|(_, step)| step.phase == Phase::Once) {
            let mut missing = false;
            for &value in &step.outputs {
                missing |= *readers.get(value)? > 0 && pool.tensor(self.get(value)?).is_none();
            }
            if !missing || !self.liveness.is_live(id)? {
                continue;
            }
            runs.push(id);
            for value in step.reads() {
                *readers.get_mut(value)? += 1;
            }
        }
        runs.reverse();
        Ok((runs, readers))
    }
}

/// The number of remaining reads of each value of a trace, while a plan is built and by the plan itself.
pub(super) type Readers = Table<TraceValue, usize>;

/// The state while constants are computed.
pub(super) struct Making<'a> {
    pub(super) pool: &'a mut Pool,
    traced: &'a SegmentTrace,
    pub(super) sources: Sources,
    /// The constants that will be read again.
    made: Table<TraceValue, Option<Arc<Held>>>,
}

impl Making<'_> {
    /// Runs a step whose result is a constant.
    fn run(&mut self, on: &ErasedBackend<'_>, id: StepId, readers: &mut Readers) -> Result<(), ErasedError> {
        let step = self.traced.recorded.steps.get(id)?;
        let mut operands: Operands = SmallVec::new();
        for value in &step.inputs {
            operands.push(value.map(|value| self.constant(on, value)).transpose()?);
        }
        RunOptions::check_current()?;
        let results = {
            let tensors: SmallVec<[Option<&ErasedTensor>; 4]> =
                operands.iter().map(|x| x.as_ref().map(|x| &x.tensor)).collect();
            let call = || inside(|| on.0.operation(step.operation, &tensors, &step.params));
            contained_in(|| Some(step.operation.name()), call)
        };
        drop(operands);
        let named = |error| self.traced.node_of(id).name(&self.traced.resolved.graph, error);
        for (index, (&value, tensor)) in step.outputs.iter().zip(results.map_err(named)?).enumerate() {
            let claim = Claim::of(&self.traced.recorded, value, true)?;
            if !claim.holds(&tensor) {
                let maker = step.operation.spec().map_or(ResultMaker::BACKEND, |spec| on.0.maker_of(spec));
                let op = step.operation.name();
                let wrong = claim.wrong(op, index, &tensor, self.traced.is_loaded, maker);
                return Err(named(wrong.into()));
            }
            if *readers.get(value)? > 0 {
                self.fold(value, tensor)?;
            }
        }
        for value in step.reads() {
            self.release(value, readers)?;
        }
        Ok(())
    }

    /// Records a read of a value, and drops the value after its last read.
    pub(super) fn release(&mut self, value: TraceValue, readers: &mut Readers) -> Result<(), Error> {
        let left = readers.get_mut(value)?;
        *left = left.saturating_sub(1);
        if *left == 0 && self.made.get(value)?.is_some() {
            self.made.set(value, None)?;
            // The weight's memory can be released, because only the constant computed from it is needed from now on.
            if let ValueSource::Weight(id) = self.traced.recorded.values.get(value)?.source {
                self.traced.weights().get(id)?.forget();
            }
        }
        Ok(())
    }

    /// Returns a constant; uploads it first if necessary.
    pub(super) fn constant(
        &mut self,
        on: &ErasedBackend<'_>,
        value: TraceValue,
    ) -> Result<Arc<Held>, ErasedError> {
        if let Some(held) = self.made.get(value)? {
            return Ok(held.clone());
        }
        let source = self.sources.get(value)?;
        if let Some(held) = self.pool.tensor(source) {
            return Ok(held);
        }
        let recorded = &self.traced.recorded;
        let info = recorded.values.get(value)?;
        let (data, weight) = match info.source {
            ValueSource::Weight(id) => (self.traced.weights().get(id)?, Some(id)),
            ValueSource::Constant(index) => (recorded.constants.get(index)?, None),
            ValueSource::Input(_) | ValueSource::Step => {
                return Err(Error::excluded("a constant to be made before it is read").into());
            }
        };
        // `aligned` may copy the elements for alignment. The copy is released with the constant.
        let made = data.aligned().map_err(Error::from).map_err(ErasedError::from);
        let made = made.and_then(|data| contained(|| on.constant(&data)));
        let tensor = made.map_err(|error| self.traced.constant(value, weight, info.dtype, error))?;
        let held = self.pool.keep(source, tensor, if weight.is_none() { data.byte_len() } else { 0 });
        self.made.set(value, Some(held.clone()))?;
        Ok(held)
    }

    /// Stores the result of a step as a constant.
    fn fold(&mut self, value: TraceValue, tensor: ErasedTensor) -> Result<(), Error> {
        let bytes = bytes_of(tensor.dtype(), tensor.shape());
        let held = self.pool.keep(self.sources.get(value)?, tensor, bytes);
        self.made.set(value, Some(held))
    }
}

/// Calls a primitive, or an operation of a family that is native to the backend.
///
/// # Errors
///
/// The operation's own errors.
#[inline]
pub(crate) fn call<B: Backend + ?Sized>(
    on: &B,
    natives: &[FamilyTable<B>],
    callee: Callee,
    operands: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    match callee {
        Callee::Primitive(op) => crate::call::call_primitive(on, op, operands, params),
        Callee::Extension(op) => match natives.iter().find(|table| table.family() == op.family) {
            Some(table) => table.call(on, op, operands, params),
            None => Err(Error::unknown_row(op).into()),
        },
        Callee::Host(body) => crate::trace::host::run(on, body, operands, params),
    }
}
