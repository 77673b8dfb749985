//! Constants on the backend: weights, literals, and what is computed from them alone.
//!
//! One pool serves all plans of a program, so that a graph which is planned anew for other extents neither
//! uploads its weights again nor computes again what follows from them.

use super::lir::{Callee, Plan, PlanConstant, callee};
use super::segment::SegmentTrace;
use crate::ext::{FamilyTable, OpSet};
use crate::trace::{
    Liveness, Operation, Phase, Step, Table, TraceValue, ValueSource, WeightId, held, indices,
};
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

/// Puts the constants of a plan on the backend, and runs the steps that run once.
///
/// # Errors
///
/// The backend's own.
pub(crate) fn materialize<B: Backend + ?Sized, N: Natives<B>>(
    on: &B,
    natives: &N,
    pool: &mut Pool<B::Tensor>,
    traced: &SegmentTrace,
    plan: &Plan,
) -> Result<Table<PlanConstant, B::Tensor>, B::Error> {
    let recorded = &traced.recorded;
    if pool.tensors.len() > KEPT + pool.weights.len() {
        *pool = Pool::default();
    }
    let liveness = Liveness::of(recorded)?;
    let mut found: Found = Table::with(recorded.values.len(), || None);
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
    for (id, step) in recorded.steps.iter().filter(|(_, step)| step.phase == Phase::Once) {
        if !liveness.is_live(id)? {
            continue;
        }
        let results = run(on, natives, pool, step, known(&found, step)?)
            .map_err(|error| traced.node_of(id).name(&traced.resolved.graph, error))?;
        for (&value, &constant) in step.outputs.iter().zip(&results) {
            found.set(value, Some(constant))?;
        }
    }
    let mut tensors = Table::default();
    for &value in plan.constants.entries() {
        tensors.push(pool.tensors.get(held(*found.get(value)?, value)?)?.clone());
    }
    Ok(tensors)
}

/// Where the constants of a trace are in the pool.
type Found = Table<TraceValue, Option<PoolConstant>>;

/// Returns the constants that a step reads.
fn known(found: &Found, step: &Step) -> Result<SmallVec<[Option<PoolConstant>; 3]>, Error> {
    let mut known = SmallVec::new();
    for input in &step.inputs {
        known.push(input.map(|value| held(*found.get(value)?, value)).transpose()?);
    }
    Ok(known)
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

impl<B: Backend + ?Sized> Natives<B> for &[FamilyTable<B>] {
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
            None => crate::ext::fail::<B, _>(crate::Error::UnknownIndex { family: family.name(), index }),
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
        Callee::Primitive(op) => crate::call::call_primitive(on, op, operands, params),
        Callee::Extension(family, index) => natives.call(on, family, index, operands, params),
        Callee::Host(body) => crate::ext::host::run(on, body, operands, params),
    }
}
