//! Constants on the backend: weights, literals, and what is computed from them alone.
//!
//! One pool serves all plans of a program, so that a graph which is planned anew for other extents neither
//! uploads its weights again nor computes again what follows from them.

use super::lir::{Callee, callee};
use super::segment::SegmentTrace;
use crate::ext::{FamilyTable, OpSet};
use crate::trace::{Operation, Source, Step, Trace, ValueNo};
use crate::{Backend, Outputs};
use bb_ir::op::{Family, Param};
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;
use std::collections::HashMap;

/// A literal's element type, extents and bytes.
type LiteralKey = (DataType, bb_ir::Shape, bytes::Bytes);

/// A weight's element type, extents, and the address and number of its bytes.
type WeightKey = (DataType, bb_ir::Shape, usize, usize);

/// An operation and the constants that it reads.
type FoldKey = (Operation, SmallVec<[Option<u32>; 3]>);

/// What a fold was called with beyond its operands, and the constants that it gave.
type Folded = (Box<[Param<'static>]>, SmallVec<[u32; 1]>);

/// The constants of a program on one backend.
pub(crate) struct Pool<T> {
    tensors: Vec<T>,
    /// Weights by where their bytes are, which is the same in every graph that a program's graph was taken apart into.
    weights: HashMap<WeightKey, u32>,
    literals: HashMap<LiteralKey, u32>,
    folds: HashMap<FoldKey, Vec<Folded>>,
}

/// The most constants kept beyond the weights; plans hold their own, so forgetting them is safe.
const KEPT: usize = 1 << 14;

/// The most bytes that a fold may make out of smaller operands.
const GROWN: usize = 1 << 20;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { tensors: Vec::new(), weights: HashMap::new(), literals: HashMap::new(), folds: HashMap::new() }
    }
}

impl<T> Pool<T> {
    fn add(&mut self, tensor: T) -> u32 {
        self.tensors.push(tensor);
        (self.tensors.len() - 1) as u32
    }
}

/// The constants of one plan: for each value of the trace its number, and the tensors by number.
pub(crate) struct PlanConstants<T> {
    pub(crate) of_value: Vec<Option<u32>>,
    pub(crate) tensors: Vec<T>,
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
    let (recorded, outputs) = (&traced.recorded, &traced.outputs);
    if pool.tensors.len() > KEPT + pool.weights.len() {
        *pool = Pool::default();
    }
    let read = read_values(recorded, outputs);
    let mut numbers: Vec<Option<u32>> = vec![None; recorded.values.len()];
    for (no, (value, number)) in recorded.values.iter().zip(&mut numbers).enumerate() {
        if read.get(no) != Some(&true) {
            continue;
        }
        let failed = |index, error| traced.constant(no as ValueNo, index, value.dtype, error);
        *number = match value.source {
            Source::Weight(index) => {
                Some(weight(on, pool, index, traced).map_err(|error| failed(Some(index), error))?)
            }
            Source::Constant(index) => match recorded.constants.get(index as usize) {
                Some(data) => Some(literal(on, pool, data).map_err(|error| failed(None, error))?),
                None => None,
            },
            Source::Input(_) | Source::Step => None,
        };
    }
    for (at, step) in recorded.steps.iter().enumerate() {
        let known: Option<SmallVec<[Option<u32>; 3]>> = step
            .inputs
            .iter()
            .map(|input| match input {
                None => Some(None),
                Some(v) => numbers.get(*v as usize).copied().flatten().map(Some),
            })
            .collect();
        let wanted = step.outputs.iter().any(|v| read.get(*v as usize) == Some(&true));
        let Some(known) = known.filter(|k| wanted && !k.is_empty() && worth_folding(recorded, step)) else {
            continue;
        };
        let results = run(on, natives, pool, step, known)
            .map_err(|error| traced.node_of(at).name(&traced.resolved.graph, error))?;
        for (&v, &number) in step.outputs.iter().zip(&results) {
            if let Some(place) = numbers.get_mut(v as usize) {
                *place = Some(number);
            }
        }
    }
    Ok(compact(pool, recorded, outputs, numbers))
}

/// Marks the values that a step or the caller reads.
fn read_values(recorded: &Trace, outputs: &[ValueNo]) -> Vec<bool> {
    let mut read = vec![false; recorded.values.len()];
    let mut mark = |v: ValueNo| {
        if let Some(place) = read.get_mut(v as usize) {
            *place = true;
        }
    };
    outputs.iter().copied().for_each(&mut mark);
    recorded.steps.iter().flat_map(|s| s.inputs.iter().flatten().copied()).for_each(&mut mark);
    read
}

/// A fold must not trade a little computing for much memory, nor stand for what differs between runs.
pub(super) fn worth_folding(recorded: &Trace, step: &Step) -> bool {
    if matches!(step.operation, Operation::Host(body) if body.random) {
        return false;
    }
    let bytes = |v: &ValueNo| {
        recorded.values.get(*v as usize).map_or(0, |value| {
            let elements = bb_ir::element_count(&value.shape).unwrap_or(usize::MAX);
            value.dtype.bytes_for(elements).unwrap_or(elements)
        })
    };
    let made: usize = step.outputs.iter().map(bytes).fold(0, usize::saturating_add);
    let read: usize = step.inputs.iter().flatten().map(bytes).fold(0, usize::saturating_add);
    made <= read.saturating_mul(2).max(GROWN)
}

fn weight<B: Backend + ?Sized>(
    on: &B,
    pool: &mut Pool<B::Tensor>,
    index: u32,
    traced: &SegmentTrace,
) -> Result<u32, B::Error> {
    let Some(data) = traced.weights().get(index) else {
        return crate::ext::fail::<B, _>(crate::Error::UnknownIndex {
            family: "weights",
            index: index as u16,
        });
    };
    // Where the bytes lie in the model, whether they have to move for their alignment or not.
    let key = (data.dtype(), data.shape().into(), data.unaligned_bytes().as_ptr().addr(), data.byte_len());
    if let Some(&number) = pool.weights.get(&key) {
        return Ok(number);
    }
    data.prepare().map_err(crate::Error::from)?;
    let number = pool.add(on.constant(data)?);
    pool.weights.insert(key, number);
    Ok(number)
}

fn literal<B: Backend + ?Sized>(
    on: &B,
    pool: &mut Pool<B::Tensor>,
    data: &TensorData,
) -> Result<u32, B::Error> {
    data.prepare().map_err(crate::Error::from)?;
    let key = (data.dtype(), bb_ir::Shape::from_slice(data.shape()), data.bytes().clone());
    if let Some(&number) = pool.literals.get(&key) {
        return Ok(number);
    }
    let number = pool.add(on.constant(data)?);
    pool.literals.insert(key, number);
    Ok(number)
}

/// Runs one step on constants, or finds that it has run before.
fn run<B: Backend + ?Sized, N: Natives<B>>(
    on: &B,
    natives: &N,
    pool: &mut Pool<B::Tensor>,
    step: &Step,
    known: SmallVec<[Option<u32>; 3]>,
) -> Result<SmallVec<[u32; 1]>, B::Error> {
    let key = (step.operation, known);
    if let Some((_, results)) =
        pool.folds.get(&key).and_then(|folds| folds.iter().find(|(p, _)| *p == step.params))
    {
        return Ok(results.clone());
    }
    let results = {
        let operands: SmallVec<[Option<&B::Tensor>; 4]> =
            key.1.iter().map(|number| number.and_then(|n| pool.tensors.get(n as usize))).collect();
        call(on, natives, callee(step), &operands, &step.params)?
    };
    let numbers: SmallVec<[u32; 1]> = results.into_iter().map(|t| pool.add(t)).collect();
    pool.folds.entry(key).or_default().push((step.params.clone(), numbers.clone()));
    Ok(numbers)
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
    outputs: &[ValueNo],
    numbers: Vec<Option<u32>>,
) -> PlanConstants<T> {
    let mut kept: HashMap<u32, u32> = HashMap::new();
    let mut tensors = Vec::new();
    let runs =
        |step: &&Step| step.outputs.iter().any(|v| numbers.get(*v as usize).copied().flatten().is_none());
    let mut used = vec![false; numbers.len()];
    let read = recorded.steps.iter().filter(runs).flat_map(|s| s.inputs.iter().flatten()).chain(outputs);
    for &v in read {
        if let Some(place) = used.get_mut(v as usize) {
            *place = true;
        }
    }
    let of_value = numbers
        .iter()
        .zip(&used)
        .map(|(number, used)| {
            let number = (*number)?;
            if !used {
                // The value is constant, so the step that made it must not run; nobody reads it.
                return Some(u32::MAX);
            }
            let tensor = pool.tensors.get(number as usize)?;
            Some(*kept.entry(number).or_insert_with(|| {
                tensors.push(tensor.clone());
                (tensors.len() - 1) as u32
            }))
        })
        .collect();
    PlanConstants { of_value, tensors }
}
