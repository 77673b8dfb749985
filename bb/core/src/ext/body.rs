//! Runs bodies of operations on a type-erased backend.
//!
//! A body is a function over the [`Tracer`]. It is traced for the element types, the extents and the parameters of a
//! call. The trace is cached, so that the next call with the same types only runs the steps.

use crate::contract::OpSet;
use crate::erased::{ErasedBackend, ErasedError, ErasedTensor, Kernels};
use crate::trace::{
    InputIndex, LiveStep, Operation, TableIndex, Trace, TraceStop, TracedTensor, Tracer, Varies, host,
};
use crate::{Error, Outputs, RunOptions, Tensor};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, DataTypes, Shape, TensorData};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The operands of a call.
type Operands<'a> = &'a [Option<&'a ErasedTensor>];

/// A call of an operation whose body runs.
struct Call<'a> {
    op: &'static OpSpec,
    /// The operations that the backend has kernels for. The body calls them.
    natives: Vec<(Family, OpSet)>,
    /// The element types of the backend. Bodies choose their types from them.
    types: DataTypes,
    operands: Operands<'a>,
    params: &'a [Param<'a>],
}

/// A traced body.
struct Body {
    op: &'static OpSpec,
    natives: Vec<(Family, OpSet)>,
    types: DataTypes,
    operands: SmallVec<[Option<(DataType, Shape)>; 4]>,
    params: Box<[Param<'static>]>,
    recorded: Trace,
    /// The steps to run.
    steps: Vec<LiveStep>,
}

/// Runs the body of an operation. Inside the body, operations that the backend declares native call its kernels.
///
/// # Errors
///
/// The errors of the body and of the backend.
pub(crate) fn run(
    on: &dyn Kernels,
    op: &'static OpSpec,
    operands: Operands<'_>,
    params: &[Param<'_>],
) -> Result<Outputs<ErasedTensor>, ErasedError> {
    let call = Call { op, natives: on.natives(), types: on.types(), operands, params };
    let hash = call.hash();
    if let Some(body) = kept().find(hash, &call) {
        return body.run(on, operands);
    }
    let nothing: SmallVec<[Option<TensorData>; 4]> = operands.iter().map(|_| None).collect();
    match Body::trace(&call, &nothing) {
        Ok(body) => {
            let body = Arc::new(body);
            kept().keep(hash, body.clone());
            body.run(on, operands)
        }
        // The body of a vendor's operation may read its operands. The trace is then valid only for these elements, so
        // it is not cached.
        Err(TraceStop::Needs(_)) => {
            let read = |x: &Option<&ErasedTensor>| x.map(|x| on.to_host(x)).transpose();
            let known = operands.iter().map(read).collect::<Result<SmallVec<[_; 4]>, _>>()?;
            Body::trace(&call, &known).map_err(Error::from)?.run(on, operands)
        }
        Err(TraceStop::Error(error)) => Err(error.into()),
    }
}

impl Call<'_> {
    /// Returns a hash for looking up the body.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.op.family, self.op.index, self.types, &self.natives).hash(&mut hasher);
        for x in self.operands {
            x.map(|x| (x.dtype(), x.shape())).hash(&mut hasher);
        }
        self.params.iter().for_each(|param| hash_param(param, &mut hasher));
        hasher.finish()
    }
}

/// Hashes the value of a parameter. The elements of a tensor are not hashed, because there may be many.
fn hash_param(param: &Param<'_>, hasher: &mut impl Hasher) {
    match param {
        Param::Int(v) => v.hash(hasher),
        Param::OptInt(v) => v.hash(hasher),
        Param::Float(v) => v.to_bits().hash(hasher),
        Param::OptFloat(v) => v.map(f64::to_bits).hash(hasher),
        Param::Bool(v) => v.hash(hasher),
        Param::Ints(v) => v.hash(hasher),
        Param::Floats(v) => v.iter().for_each(|v| v.to_bits().hash(hasher)),
        Param::Extents(v) => v.hash(hasher),
        Param::Type(v) => v.hash(hasher),
        Param::OptType(v) => v.hash(hasher),
        Param::Text(v) => v.hash(hasher),
        other => other.kind().hash(hasher),
    }
}

impl Body {
    /// Traces the body of a call. `known` has the elements of the operands that the body may read.
    fn trace(call: &Call<'_>, known: &[Option<TensorData>]) -> Result<Body, TraceStop> {
        let on = Tracer::new(call.natives.clone(), usize::MAX).with_types(call.types);
        let input = |(at, (x, known)): (usize, (&Option<&ErasedTensor>, &Option<TensorData>))| {
            let at = InputIndex::at(at);
            x.map(|x| on.input(at, "", x.dtype(), x.shape(), &Varies::Nothing, known.clone()))
        };
        let traced: SmallVec<[Option<TracedTensor>; 4]> =
            call.operands.iter().zip(known).enumerate().map(input).collect();
        let traced: SmallVec<[Option<&TracedTensor>; 4]> = traced.iter().map(Option::as_ref).collect();
        let results = super::call_body(&on, call.op, &traced, call.params)?;
        let recorded = on.finish(results.iter().map(TracedTensor::read).collect());
        let steps = recorded.live_steps()?;
        Ok(Body {
            op: call.op,
            natives: call.natives.clone(),
            types: call.types,
            operands: call
                .operands
                .iter()
                .map(|x| x.map(|x| (x.dtype(), Shape::from_slice(x.shape()))))
                .collect(),
            params: call.params.iter().map(|param| param.clone().into_owned()).collect(),
            recorded,
            steps,
        })
    }

    /// Returns whether the traced body can be reused for a call.
    fn serves(&self, call: &Call<'_>) -> bool {
        let same = |(own, x): (&Option<(DataType, Shape)>, &Option<&ErasedTensor>)| match (own, x) {
            (Some((dtype, shape)), Some(x)) => *dtype == x.dtype() && shape.as_slice() == x.shape(),
            (own, x) => own.is_none() && x.is_none(),
        };
        (self.op.family, self.op.index, self.types) == (call.op.family, call.op.index, call.types)
            && self.operands.len() == call.operands.len()
            && self.operands.iter().zip(call.operands).all(same)
            && self.params.len() == call.params.len()
            && self.params.iter().zip(call.params).all(|(own, param)| own.is_same(param))
            && self.natives == call.natives
    }

    /// Estimates the size in bytes: the constants, the steps and the values. A recurrent body may have a million steps.
    fn bytes(&self) -> usize {
        let Trace { steps, values, constants, .. } = &self.recorded;
        let constants: usize = constants.entries().map(TensorData::byte_len).sum();
        constants + BYTES_OF_STEP * (steps.len() + values.len())
    }

    /// Runs the steps.
    fn run(&self, on: &dyn Kernels, operands: Operands<'_>) -> Result<Outputs<ErasedTensor>, ErasedError> {
        self.recorded.run(&self.steps, operands, &|x| on.constant(x), &|operation, operands, params| {
            RunOptions::check_current()?;
            on.operation(operation, operands, params)
        })
    }
}

impl dyn Kernels + '_ {
    /// Calls an operation: the backend's kernel if there is one, otherwise the body.
    ///
    /// # Errors
    ///
    /// The operation's own errors.
    pub(crate) fn operation(
        &self,
        operation: Operation,
        operands: Operands<'_>,
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        match operation {
            Operation::Row(op) => self.row(op, operands, params),
            Operation::Host(kernel) => host::run(&ErasedBackend(self), kernel, operands, params),
        }
    }

    /// Calls the operation of a table row: the backend's kernel if there is one, otherwise the body.
    ///
    /// # Errors
    ///
    /// The operation's own errors.
    pub(crate) fn row(
        &self,
        op: &'static OpSpec,
        operands: Operands<'_>,
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        if op.family == Family::Primitive
            && let Some(primitive) = Primitive::from_index(op.index)
        {
            return self.primitive(primitive, operands, params);
        }
        match self.native(op, operands, params) {
            Some(results) => results,
            None => run(self, op, operands, params),
        }
    }
}

/// The maximum number of cached bodies. If there are more, the cache is cleared.
const MOST: usize = 1 << 10;

/// An estimate of the bytes of a step or of a value, including their allocations.
const BYTES_OF_STEP: usize = 256;

/// The maximum total size in bytes of all cached bodies.
const MOST_BYTES: usize = 1 << 26;

/// The cache of traced bodies.
#[derive(Default)]
struct Kept(RwLock<Bodies>);

#[derive(Default)]
struct Bodies {
    by_hash: HashMap<u64, Vec<Arc<Body>>>,
    count: usize,
    bytes: usize,
}

fn kept() -> &'static Kept {
    static KEPT: OnceLock<Kept> = OnceLock::new();
    KEPT.get_or_init(Kept::default)
}

impl Kept {
    fn find(&self, hash: u64, call: &Call<'_>) -> Option<Arc<Body>> {
        let bodies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        bodies.by_hash.get(&hash)?.iter().find(|body| body.serves(call)).cloned()
    }

    fn keep(&self, hash: u64, body: Arc<Body>) {
        let bytes = body.bytes();
        if bytes > MOST_BYTES {
            return;
        }
        let mut bodies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if bodies.count >= MOST || bodies.bytes.saturating_add(bytes) > MOST_BYTES {
            *bodies = Bodies::default();
        }
        bodies.count += 1;
        bodies.bytes += bytes;
        bodies.by_hash.entry(hash).or_default().push(body);
    }
}
