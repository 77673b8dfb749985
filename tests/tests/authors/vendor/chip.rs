//! The operations of a vendor's chip, and backends that compute some of them.

use bb::ext::Scalar as _;
use bb::ext::{Extent, Ops, PatternOperand, VendorType};
use bb::ir::op::Param;
use bb::trace::{TraceStop, TracedTensor, Tracer};
use bb::{Backend, DataType, DataTypes, Error, Outputs, Primitive, Tensor, TensorData};
use bb_reference::Reference;
use std::cell::Cell;

/// `x * sigmoid(beta * gate)`.
pub(crate) fn gated<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    gate: &B::Tensor,
    beta: f64,
) -> Result<B::Tensor, B::Error> {
    let scaled = on.mul(gate, &on.scalar_like(gate, beta)?)?;
    on.mul(x, &on.sigmoid(&scaled)?)
}

/// `x * sigmoid(gate)`, as it is written where `beta` is 1.
pub(crate) fn gated_by_one(
    on: &Tracer,
    x: &TracedTensor,
    gate: &TracedTensor,
    _beta: f64,
) -> Result<TracedTensor, TraceStop> {
    on.mul(x, &on.sigmoid(gate)?)
}

/// The gate of a sum, through another operation of the same vendor.
pub(crate) fn gated_sum<B: Ops + Chip + ?Sized>(on: &B, xs: &[&B::Tensor]) -> Result<B::Tensor, B::Error> {
    let (Some(first), rest) = (xs.first(), xs.get(1..).unwrap_or_default()) else {
        return Err(Error::Operand { op: "gated_sum", index: 0, expected: "a tensor" }.into());
    };
    let mut sum = on.identity(first)?;
    for x in rest {
        sum = on.add(&sum, x)?;
    }
    on.gated(&sum, first, 1.0)
}

/// `weight * x + (1 - weight) * y`, or only `x`, between bounds.
pub(crate) fn blend<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    y: Option<&B::Tensor>,
    options: BlendOptions<'_>,
) -> Result<B::Tensor, B::Error> {
    let part = |x: &B::Tensor, weight: f64| on.mul(x, &on.scalar_like(x, weight)?);
    let blended = match y {
        Some(y) => on.add(&part(x, options.weight)?, &part(y, 1.0 - options.weight)?)?,
        None => on.identity(x)?,
    };
    match options.bounds {
        [low, high] => on.clip(&blended, Some(&on.scalar_like(x, *low)?), Some(&on.scalar_like(x, *high)?)),
        _ => Ok(blended),
    }
}

/// The first and the other rows.
pub(crate) fn head_and_tail<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, B::Error> {
    let rows = on.extent(x, 0);
    let one = Extent::from(1i64);
    on.split_to(x, 0, &[one.clone(), rows.minus(&one)])
}

/// One integer for each row.
fn parity_types(operands: &[Option<VendorType>], _params: &[Param<'_>]) -> Result<Vec<VendorType>, Error> {
    match operands {
        [Some(x)] if x.extents.len() == 2 => Ok(vec![VendorType {
            dtype: DataType::I64,
            extents: x.extents.iter().take(1).cloned().collect(),
        }]),
        _ => Err(Error::Operand { op: "row_parity", index: 0, expected: "a matrix" }),
    }
}

/// The kernel broadcasts, but operands of several ranks take longer than the steps.
fn of_one_rank(operands: &[Option<PatternOperand>], _params: &[Param<'_>]) -> bool {
    matches!(operands, [Some(x), Some(gate)] if x.extents.len() == gate.extents.len())
}

bb::vendor! {
    /// The operations of a chip.
    pub(crate) trait Chip(ChipOp, ChipCalls) in "com.example.chip" {
        /// Computes `x * sigmoid(beta * gate)`.
        Gated 1 = gated(x: Tensor, gate: Tensor; beta: Float = 1.0) -> Tensor
            => body: gated, pattern: gated, pattern: gated_by_one where of_one_rank;

        /// Sums the operands and gates the sum by the first.
        GatedSum 1 = gated_sum(xs: Tensors) -> Tensor => body: gated_sum;

        /// Blends `x` with `y`.
        Blend 1 = blend(x: Tensor, y: Optional) with options: BlendOptions<'a> {
            /// The weight of `x`.
            weight: Float = 0.5,
            /// The least and the greatest result, or nothing.
            bounds: Floats = &[],
        } -> Tensor => body: blend;

        /// Splits the first row off.
        HeadAndTail 1 = head_and_tail(x: Tensor) -> Tensors => body: head_and_tail;

        /// Returns for each row whether the number of its positive elements is odd.
        RowParity 2 = row_parity(x: Tensor) -> Tensor => types: parity_types;
    }
}

type Array = <Reference as Backend>::Tensor;

thread_local! {
    /// How often the kernels of [`ChipBackend`] ran on this thread, for other tests run them at the same time.
    pub(crate) static KERNELS: Cell<usize> = const { Cell::new(0) };
}

/// A backend with kernels for two of the operations.
#[derive(bb::Backend, Default, Debug)]
#[bb(name = "chip", vendors(Chip))]
pub(crate) struct ChipBackend;

fn computed_gate(x: &Array, gate: &Array, beta: f64) -> Result<Array, bb_reference::Error> {
    KERNELS.set(KERNELS.get() + 1);
    let wide = |x: &Array| Reference.cast(x, DataType::F64, true, bb::RoundMode::Up);
    let curve: Vec<f64> = Reference
        .to_host(&wide(gate)?)?
        .as_slice::<f64>()?
        .iter()
        .map(|gate| 1.0 + (-beta * gate).exp())
        .collect();
    let curve = Reference.constant(&TensorData::new(gate.shape(), &curve)?)?;
    Reference.cast(&Reference.div(&wide(x)?, &curve)?, x.dtype(), true, bb::RoundMode::Up)
}

fn computed_parity(x: &Array) -> Result<Array, bb_reference::Error> {
    KERNELS.set(KERNELS.get() + 1);
    let host = Reference.to_host(x)?;
    let columns = x.shape().last().copied().unwrap_or(1).max(1);
    let odd = |row: &[f32]| (row.iter().filter(|&&v| v > 0.0).count() % 2) as i64;
    let parities: Vec<i64> = host.as_slice::<f32>()?.chunks(columns).map(odd).collect();
    Reference.constant(&TensorData::new(&[parities.len()], &parities)?)
}

impl ChipBackend {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Array>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Array>, bb_reference::Error> {
        bb::call_primitive(&Reference, op, inputs, params)
    }
}

impl Backend for ChipBackend {
    type Tensor = Array;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Array) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }
}

#[bb::native(operations = ChipOp)]
impl Chip for ChipBackend {
    fn gated(&self, x: &Array, gate: &Array, beta: f64) -> Result<Array, bb_reference::Error> {
        computed_gate(x, gate, beta)
    }

    fn row_parity(&self, x: &Array) -> Result<Array, bb_reference::Error> {
        computed_parity(x)
    }
}

/// The same kernel on a backend with three element types.
#[derive(bb::Backend, Debug)]
#[bb(name = "small-chip", new = Self::new, vendors(Chip))]
pub(crate) struct SmallChip(bb_tests::few::Few);

impl SmallChip {
    fn new() -> SmallChip {
        SmallChip(bb_tests::few::Few::least())
    }

    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&Array>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Array>, bb_reference::Error> {
        bb::call_primitive(&self.0, op, inputs, params)
    }
}

impl Backend for SmallChip {
    type Tensor = Array;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Array) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.0.types()
    }
}

#[bb::native(operations = ChipOp)]
impl Chip for SmallChip {
    fn gated(&self, x: &Array, gate: &Array, beta: f64) -> Result<Array, bb_reference::Error> {
        computed_gate(x, gate, beta)
    }
}

/// Two crates that chose the same domain.
pub(crate) mod twice {
    /// Negates.
    pub(crate) fn negated<B: bb::ext::Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
        on.neg(x)
    }

    pub(crate) mod one {
        bb::vendor! {
            /// One of two.
            pub(crate) trait Twice(TwiceOp, TwiceCalls) in "com.example.twice" {
                /// Negates.
                Negated 1 = negated(x: Tensor) -> Tensor => body: super::negated;
            }
        }
    }

    pub(crate) mod two {
        bb::vendor! {
            /// The other.
            pub(crate) trait Twice(TwiceOp, TwiceCalls) in "com.example.twice" {
                /// Negates.
                Negated 1 = negated(x: Tensor) -> Tensor => body: super::negated;
            }
        }
    }
}
