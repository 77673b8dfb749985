//! Constants on the backend: weights, literals, and what is computed from them alone.
//!
//! One pool serves all plans of a program, so that a graph which is planned anew for other extents neither
//! uploads its weights again nor computes again what follows from them.

use super::lir::{Callee, Constants, PlanConstant, callee};
use super::segment::SegmentTrace;
use crate::ext::{FamilyTable, OpSet};
use crate::trace::{Liveness, Operation, Step, Table, Trace, TraceValue, ValueSource, WeightId, indices};
use crate::{Backend, Error, Outputs};
use bb_ir::op::{Family, Param};
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;
use std::collections::HashMap;

indices! {
    /// A constant of a [`Pool`].
    PoolConstant = "constant of the pool";
}

/// A literal's element type, extents and bytes.
type LiteralKey = (DataType, bb_ir::Shape, bytes::Bytes);

/// A weight's element type, extents, and the address and number of its bytes.
type WeightKey = (DataType, bb_ir::Shape, usize, usize);

/// An operation and the constants that it reads.
type FoldKey = (Operation, SmallVec<[Option<PoolConstant>; 3]>);

/// What a fold was called with beyond its operands, and the constants that it gave.
type Folded = (Box<[Param<'static>]>, SmallVec<[PoolConstant; 1]>);

/// The constants of a program on one backend.
pub(crate) struct Pool<T> {
    tensors: Table<PoolConstant, T>,
    /// Weights by where their bytes are, which is the same in every graph that a program's graph was taken apart into.
    weights: HashMap<WeightKey, PoolConstant>,
    literals: HashMap<LiteralKey, PoolConstant>,
    folds: HashMap<FoldKey, Vec<Folded>>,
}

/// The most constants kept beyond the weights; plans hold their own, so forgetting them is safe.
const KEPT: usize = 1 << 14;

/// The most bytes that a fold may make out of smaller operands.
const GROWN: usize = 1 << 20;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool {
            tensors: Table::default(),
            weights: HashMap::new(),
            literals: HashMap::new(),
            folds: HashMap::new(),
        }
    }
}

/// The constants of one plan: for each value of the trace its constant, and their tensors.
pub(crate) struct PlanConstants<T> {
    pub(crate) of_value: Constants,
    pub(crate) tensors: Table<PlanConstant, T>,
}

/// Materialises the constants of a trace and runs the steps that read nothing else.
///
/// # Errors
///
/// The backend's own.
pub(crate) fn fold<B: Backend + ?Sized, N: Natives<B>>(
    on: &B,
    natives: &N,
    pool: &mut Pool<B::Tensor>,
    traced: &SegmentTrace,
) -> Result<PlanConstants<B::Tensor>, B::Error> {
    let recorded = &traced.recorded;
    if pool.tensors.len() > KEPT + pool.weights.len() {
        *pool = Pool::default();
    }
    let liveness = Liveness::of(recorded)?;
    let mut found: Table<TraceValue, Option<PoolConstant>> = Table::with(recorded.values.len(), || None);
    for (value, info) in recorded.values.iter() {
        if !liveness.is_read(value)? {
            continue;
        }
        let failed = |weight, error| traced.constant(value, weight, info.dtype, error);
        let constant = match info.source {
            ValueSource::Weight(id) => {
                weight(on, pool, id, traced).map_err(|error| failed(Some(id), error))?
            }
            ValueSource::Constant(index) => {
                literal(on, pool, recorded.constants.get(index)?).map_err(|error| failed(None, error))?
            }
            ValueSource::Input(_) | ValueSource::Step => continue,
        };
        found.set(value, Some(constant))?;
    }
    for (id, step) in recorded.steps.iter() {
        if !liveness.is_live(id)? || step.inputs.is_empty() || !worth_folding(recorded, step)? {
            continue;
        }
        let Some(known) = known(&found, step)? else { continue };
        let results = run(on, natives, pool, step, known)
            .map_err(|error| traced.node_of(id).name(&traced.resolved.graph, error))?;
        for (&value, &constant) in step.outputs.iter().zip(&results) {
            found.set(value, Some(constant))?;
        }
    }
    Ok(compact(pool, recorded, &found)?)
}

/// Returns the constants that a step reads; `None` if it reads anything else.
fn known(
    found: &Table<TraceValue, Option<PoolConstant>>,
    step: &Step,
) -> Result<Option<SmallVec<[Option<PoolConstant>; 3]>>, Error> {
    let mut known = SmallVec::new();
    for input in &step.inputs {
        let constant = input.map(|value| found.get(value).copied()).transpose()?;
        if constant == Some(None) {
            return Ok(None);
        }
        known.push(constant.flatten());
    }
    Ok(Some(known))
}

/// A fold must not trade a little computing for much memory, nor stand for what differs between runs.
///
/// # Errors
///
/// [`Error::Internal`] if the step refers to a value that does not exist.
pub(super) fn worth_folding(recorded: &Trace, step: &Step) -> Result<bool, Error> {
    if matches!(step.operation, Operation::Host(body) if body.random) {
        return Ok(false);
    }
    let bytes = |all: Result<usize, Error>, value: TraceValue| {
        let info = recorded.values.get(value)?;
        let elements = bb_ir::element_count(&info.shape).unwrap_or(usize::MAX);
        Ok(all?.saturating_add(info.dtype.bytes_for(elements).unwrap_or(elements)))
    };
    let made = step.outputs.iter().copied().fold(Ok(0), bytes)?;
    let read = step.reads().fold(Ok(0), bytes)?;
    Ok(made <= read.saturating_mul(2).max(GROWN))
}

fn weight<B: Backend + ?Sized>(
    on: &B,
    pool: &mut Pool<B::Tensor>,
    id: WeightId,
    traced: &SegmentTrace,
) -> Result<PoolConstant, B::Error> {
    let data = traced.weights().get(id)?;
    // Where the bytes lie in the model, whether they have to move for their alignment or not.
    let key = (data.dtype(), data.shape().into(), data.unaligned_bytes().as_ptr().addr(), data.byte_len());
    if let Some(&number) = pool.weights.get(&key) {
        return Ok(number);
    }
    data.prepare().map_err(crate::Error::from)?;
    let number = pool.tensors.push(on.constant(data)?);
    pool.weights.insert(key, number);
    Ok(number)
}

fn literal<B: Backend + ?Sized>(
    on: &B,
    pool: &mut Pool<B::Tensor>,
    data: &TensorData,
) -> Result<PoolConstant, B::Error> {
    data.prepare().map_err(crate::Error::from)?;
    let key = (data.dtype(), bb_ir::Shape::from_slice(data.shape()), data.bytes().clone());
    if let Some(&number) = pool.literals.get(&key) {
        return Ok(number);
    }
    let number = pool.tensors.push(on.constant(data)?);
    pool.literals.insert(key, number);
    Ok(number)
}

/// Runs one step on constants, or finds that it has run before.
fn run<B: Backend + ?Sized, N: Natives<B>>(
    on: &B,
    natives: &N,
    pool: &mut Pool<B::Tensor>,
    step: &Step,
    known: SmallVec<[Option<PoolConstant>; 3]>,
) -> Result<SmallVec<[PoolConstant; 1]>, B::Error> {
    let key = (step.operation, known);
    if let Some((_, results)) =
        pool.folds.get(&key).and_then(|folds| folds.iter().find(|(p, _)| *p == step.params))
    {
        return Ok(results.clone());
    }
    let results = {
        let mut operands: SmallVec<[Option<&B::Tensor>; 4]> = SmallVec::new();
        for constant in &key.1 {
            operands.push(constant.map(|constant| pool.tensors.get(constant)).transpose()?);
        }
        call(on, natives, callee(step), &operands, &step.params)?
    };
    let constants: SmallVec<[PoolConstant; 1]> = results.into_iter().map(|t| pool.tensors.push(t)).collect();
    pool.folds.entry(key).or_default().push((step.params.clone(), constants.clone()));
    Ok(constants)
}

/// The operations beyond the primitives that a plan may call.
///
/// Plans hold this rather than tables, so that one without natives does not mention the backend's type.
pub(crate) trait Natives<B: Backend + ?Sized> {
    /// Calls an operation of a family.
    fn call(
        &self,
        on: &B,
        family: Family,
        index: u16,
        operands: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error>;

    /// Returns what is native.
    fn native(&self) -> Vec<(Family, OpSet)>;
}

/// No operations but the primitives.
pub(crate) struct NoNatives;

impl<B: Backend + ?Sized> Natives<B> for NoNatives {
    fn call(
        &self,
        _on: &B,
        family: Family,
        index: u16,
        _operands: &[Option<&B::Tensor>],
        _params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        crate::ext::fail::<B, _>(crate::Error::UnknownIndex { family: family.name(), index })
    }

    fn native(&self) -> Vec<(Family, OpSet)> {
        Vec::new()
    }
}

impl<B: Backend + ?Sized> Natives<B> for &'static [FamilyTable<B>] {
    fn call(
        &self,
        on: &B,
        family: Family,
        index: u16,
        operands: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        match self.iter().find(|t| t.family() == family) {
            Some(table) => table.call(on, index, operands, params),
            None => NoNatives.call(on, family, index, operands, params),
        }
    }

    fn native(&self) -> Vec<(Family, OpSet)> {
        self.iter().map(|t| (t.family(), t.native())).collect()
    }
}

/// Calls a primitive, or an operation of a family that the backend has.
///
/// # Errors
///
/// The operation's own.
#[inline]
pub(crate) fn call<B: Backend + ?Sized, N: Natives<B>>(
    on: &B,
    natives: &N,
    callee: Callee,
    operands: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    match callee {
        Callee::Primitive(op) => crate::call::primitive(on, op, operands, params),
        Callee::Extension(family, index) => natives.call(on, family, index, operands, params),
        Callee::Host(body) => crate::ext::host::run(on, body, operands, params),
    }
}

/// Keeps the constants that steps which will run, or the caller, read.
fn compact<T: Clone>(
    pool: &Pool<T>,
    recorded: &Trace,
    found: &Table<TraceValue, Option<PoolConstant>>,
) -> Result<PlanConstants<T>, Error> {
    // A step all of whose results are constant does not run.
    let is_open = |value: &TraceValue| found.get(*value).is_ok_and(Option::is_none);
    let steps = recorded.steps.iter().rev();
    let steps = steps.map(|(id, step)| (id, step.outputs.iter().copied().filter(is_open), step.reads()));
    let (values, outputs) = (recorded.values.len(), recorded.outputs.iter().copied());
    let liveness = Liveness::backwards(values, recorded.steps.len(), outputs, steps)?;
    let mut kept: HashMap<PoolConstant, PlanConstant> = HashMap::new();
    let mut tensors = Table::default();
    let mut of_value = Table::with(values, || None);
    for (value, constant) in found.iter() {
        let Some(constant) = *constant else { continue };
        if !liveness.is_read(value)? {
            continue;
        }
        let number = match kept.get(&constant) {
            Some(number) => *number,
            None => tensors.push(pool.tensors.get(constant)?.clone()),
        };
        kept.insert(constant, number);
        of_value.set(value, Some(number))?;
    }
    Ok(PlanConstants { of_value, tensors })
}
