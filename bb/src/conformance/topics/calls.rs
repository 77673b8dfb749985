//! A valid call of every primitive, on any element type.

use crate::conformance::{Subject, sample};
use crate::{Backend, DataType, Outputs, RoundMode, TensorData};
use bb_ir::infer;
use bb_ir::op::{Param, Primitive};
use std::borrow::Cow;

/// An operation with its operands and parameters.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) op: Primitive,
    pub(super) inputs: Vec<TensorData>,
    pub(super) params: Vec<Param<'static>>,
}

fn ints(values: &[i64]) -> Param<'static> {
    Param::Ints(Cow::Owned(values.to_vec()))
}

fn extents(values: &[usize]) -> Param<'static> {
    Param::Extents(Cow::Owned(values.to_vec()))
}

/// Makes a tensor that no operation refuses for its values: small, and nowhere zero where that divides.
fn operand(dtype: DataType, shape: &[usize]) -> TensorData {
    if !dtype.is_compute() {
        return sample(dtype, shape);
    }
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| (1 + i % 3) as f64).collect();
    crate::conformance::host_numbers(dtype, shape, &values)
}

/// Makes a valid call of `op` whose main operands have the element type and the shape; the shape's last
/// extent serves where an axis is needed.
pub(super) fn call(op: Primitive, dtype: DataType, shape: &[usize]) -> Call {
    use Primitive as P;
    let x = || operand(dtype, shape);
    let rank = shape.len();
    let last = shape.last().copied().unwrap_or(1);
    let whole = || {
        // An operation along an axis needs one.
        if rank == 0 { operand(dtype, &[1]) } else { x() }
    };
    let (inputs, params) = match op {
        P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less => {
            (vec![x(), x()], vec![])
        }
        P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity => (vec![x()], vec![]),
        P::MatMul => {
            let right = operand(dtype, &[last, 2]);
            (vec![whole(), right], vec![])
        }
        P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
            // Along an extent that is not zero, if there is one: the mean of no integers is an error.
            let axis = shape.iter().position(|&d| d != 0);
            let axes: Vec<i64> = axis.into_iter().map(|axis| axis as i64).collect();
            (vec![x()], vec![ints(&axes), Param::Bool(true)])
        }
        P::Reshape => {
            let reversed: Vec<usize> = shape.iter().rev().copied().collect();
            (vec![x()], vec![extents(&reversed)])
        }
        P::Transpose => (vec![x()], vec![ints(&[])]),
        P::Concat => (vec![whole(), whole()], vec![Param::Int(-1)]),
        P::Slice if rank == 0 => (vec![x()], vec![ints(&[]), ints(&[]), ints(&[]), ints(&[])]),
        P::Slice => (vec![x()], vec![ints(&[-1]), ints(&[i64::MIN]), ints(&[-1]), ints(&[-1])]),
        P::Split => (vec![whole()], vec![Param::Int(-1), extents(&[last / 2, last - last / 2])]),
        P::Squeeze => (vec![x()], vec![ints(&[])]),
        P::Unsqueeze => (vec![x()], vec![ints(&[0])]),
        P::Cast => (vec![x()], vec![Param::Type(dtype), Param::Bool(true), Param::Round(RoundMode::Up)]),
        P::Where => (vec![operand(DataType::Bool, shape), x(), x()], vec![]),
        P::Constant => (vec![], vec![Param::Data(Cow::Owned(x()))]),
        P::Gather => {
            let indices = TensorData::new(&[0], &[0i64; 0]).expect("no elements");
            let index = TensorData::new(&[2], &[0i64, -1]).expect("two elements");
            (vec![whole(), if last == 0 { indices } else { index }], vec![Param::Int(-1)])
        }
    };
    Call { op, inputs, params }
}

impl Call {
    /// Brings the operands to the backend and calls.
    pub(super) fn run<B: Backend>(&self, on: &Subject<'_, B>) -> Result<Outputs<B::Tensor>, B::Error> {
        let inputs = self.inputs.iter().map(|x| on.constant(x)).collect::<Result<Vec<_>, _>>()?;
        self.run_on(on, &inputs)
    }

    /// Calls with operands of the backend in place of the call's own.
    pub(super) fn run_on<B: Backend>(
        &self,
        on: &Subject<'_, B>,
        inputs: &[B::Tensor],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        let inputs: Vec<Option<&B::Tensor>> = inputs.iter().map(Some).collect();
        crate::call::primitive(on.backend(), self.op, &inputs, &self.params)
    }

    /// Infers the element types and extents of the results.
    pub(super) fn inferred(&self) -> Result<infer::Outputs, bb_ir::Error> {
        let inputs: Vec<_> = self.inputs.iter().map(|x| (x.dtype(), x.shape())).collect();
        infer::primitive(self.op, &inputs, &self.params)
    }

    /// Lists the element types of operands and results.
    pub(super) fn types(&self) -> Vec<DataType> {
        let results = self.inferred().into_iter().flatten().map(|result| result.0);
        self.inputs.iter().map(TensorData::dtype).chain(results).collect()
    }

    /// Runs the call, checks types and extents of the results, and takes them to the host.
    #[track_caller]
    pub(super) fn expect<B: Backend>(&self, on: &Subject<'_, B>) -> Vec<TensorData> {
        let outputs = self.run(on).unwrap_or_else(|error| panic!("{self:?} failed: {error}"));
        self.fetch(on, outputs)
    }

    /// Checks types and extents of results, and takes them to the host.
    #[track_caller]
    pub(super) fn fetch<B: Backend>(
        &self,
        on: &Subject<'_, B>,
        outputs: Outputs<B::Tensor>,
    ) -> Vec<TensorData> {
        let want = self.inferred().unwrap_or_else(|error| panic!("{self:?} is no valid call: {error}"));
        assert_eq!(outputs.len(), want.len(), "{self:?}: the number of results");
        let pairs = outputs.iter().zip(&want);
        pairs
            .map(|(got, (dtype, shape))| {
                let claimed = (crate::Tensor::dtype(got), crate::Tensor::shape(got));
                assert_eq!(claimed, (*dtype, &shape[..]), "{self:?}: what the result claims");
                let host = on.fetch(got);
                assert_eq!(
                    (host.dtype(), host.shape()),
                    (*dtype, &shape[..]),
                    "{self:?}: what `to_host` gives"
                );
                host
            })
            .collect()
    }
}
