//! `Bits`: bitwise operations on integers. The bodies run on the host, except the body of shifts.

use super::{HostKernel, math, types};
pub use crate::family::bits::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::op::{Param, take};
use bb_ir::pace::{Pace, STRETCH};
use bb_ir::{TensorData, memory};

bb_ir::for_each_bits!(crate::ext::bodies::bodies, Bits, BitsOp, bits);

/// Declares the bodies that combine the bytes of two operands.
macro_rules! joins {
    ($($name:ident $static:ident = $text:literal, $operator:literal, |$a:ident, $b:ident| $join:expr;)*) => {$(
        static $static: HostKernel = HostKernel {
            name: $text,
            random: false,
            run: |inputs, _| joined($text, inputs, |$a, $b| $join),
        };

        #[doc = concat!("The body of [`Bits::", $text, "`].")]
        pub fn $name(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
            integers($operator, a)?;
            let shape = bb_ir::infer::broadcast($text, &[a.shape(), b.shape()]).map_err(Error::from)?;
            only(on, &$static, &[Some(a), Some(b)], shape)
        }
    )*};
}

joins! {
    bitwise_and AND = "bitwise_and", "BitwiseAnd", |a, b| a & b;
    bitwise_or OR = "bitwise_or", "BitwiseOr", |a, b| a | b;
    bitwise_xor XOR = "bitwise_xor", "BitwiseXor", |a, b| a ^ b;
}

static NOT: HostKernel = HostKernel {
    name: "bitwise_not",
    random: false,
    run: |inputs, _| {
        let [x] = super::host::operands("bitwise_not", inputs)?;
        let bytes = memory::collected("bitwise_not", x.bytes()?.iter().map(|b| !b))?;
        Ok(vec![TensorData::adopt(x.dtype(), x.shape(), bytes.into())?])
    },
};

/// The body of [`Bits::bitwise_not`].
pub fn bitwise_not(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    integers("BitwiseNot", x)?;
    only(on, &NOT, &[Some(x)], x.shape().into())
}

/// The body of [`Bits::bit_shift`]. It multiplies with or divides by a power of two from a table. Larger shift counts
/// give 0 or the sign.
pub fn bit_shift(
    on: &Tracer,
    x: &TracedTensor,
    y: &TracedTensor,
    left: bool,
) -> Result<TracedTensor, TraceStop> {
    types::take("BitShift", x, types::INTEGERS)?;
    types::take("BitShift", y, types::INTEGERS)?;
    let signed = x.dtype().is_signed_integer();
    // The highest bit of a signed type is its sign, so division by that power would return only the sign.
    let powers = if signed && !left { x.dtype().bits() - 1 } else { x.dtype().bits() };
    let table: Vec<u64> = (0..powers as u32).map(|i| 1u64 << i).collect();
    let table = math::to(on, &on.host(&[powers], &table)?, x.dtype())?;
    // Negative counts shift out all bits, and so do `u64` counts that become negative as `i64`.
    let count = math::to(on, y, DataType::I64)?;
    let outside = on.host(&[], &[powers as i64])?;
    let negative = on.less(&count, &on.scalar_like(&count, 0.0)?)?;
    let count = on.r#where(&negative, &outside, &count)?;
    let within = on.less(&count, &outside)?;
    let index = on.r#where(&within, &count, &on.host(&[], &[powers as i64 - 1])?)?;
    let power = on.gather(&table, &index, 0)?;
    let zero = on.scalar_like(x, 0.0)?;
    let (shifted, beyond) = if left {
        (on.mul(x, &power)?, zero)
    } else if signed {
        let whole = on.sub(x, &on.modulo(x, &power, false)?)?;
        let sign = on.r#where(&on.less(x, &zero)?, &on.scalar_like(x, -1.0)?, &zero)?;
        (on.div(&whole, &power)?, sign)
    } else {
        (on.div(x, &power)?, zero)
    };
    on.r#where(&within, &shifted, &beyond)
}

static CAST: HostKernel = HostKernel {
    name: "bit_cast",
    random: false,
    run: |inputs, params| {
        let to = take::Type("bit_cast", params.first())?;
        let casts =
            inputs.iter().flatten().map(|x| Ok(TensorData::adopt(to, x.shape(), x.bytes()?.clone())?));
        casts.collect()
    },
};

/// The body of [`Bits::bit_cast`].
pub fn bit_cast(on: &Tracer, x: &TracedTensor, to: DataType) -> Result<TracedTensor, TraceStop> {
    let from = x.dtype();
    if from == DataType::String || to == DataType::String || from.bits() != to.bits() {
        return crate::ext::fail(bb_ir::Error::DataType { expected: to, got: from });
    }
    if from == to {
        return on.identity(x);
    }
    let y = on.on_host(&CAST, &[Some(x)], &[Param::Type(to)], &[(to, x.shape().into())])?;
    Ok(crate::call::only(CAST.name, y)?)
}

/// Returns an error unless the element type is an integer of one or more whole bytes.
fn integers(op: &'static str, x: &TracedTensor) -> Result<(), TraceStop> {
    let dtype = x.dtype();
    if dtype.is_integer() && !dtype.is_sub_byte() {
        return Ok(());
    }
    crate::ext::fail(bb_ir::Error::Unsupported { op, dtype })
}

/// Runs a host kernel that has one result, which has the element type of the first operand.
fn only(
    on: &Tracer,
    body: &'static HostKernel,
    inputs: &[Option<&TracedTensor>],
    shape: bb_ir::Shape,
) -> Result<TracedTensor, TraceStop> {
    let missing = || Error::Results { op: body.name.to_owned(), expected: 1, got: 0 };
    let Some(Some(first)) = inputs.first() else { return Err(missing().into()) };
    let outputs = on.on_host(body, inputs, &[], &[(first.dtype(), shape)])?;
    Ok(outputs.into_iter().next().ok_or_else(missing)?)
}

/// Broadcasts two operands and combines their elements byte by byte.
fn joined(
    op: &'static str,
    inputs: &[Option<&TensorData>],
    join: impl Fn(u8, u8) -> u8,
) -> Result<Vec<TensorData>, Error> {
    let [a, b] = super::host::operands(op, inputs)?;
    if a.dtype() != b.dtype() {
        return Err(bb_ir::Error::DataType { expected: a.dtype(), got: b.dtype() }.into());
    }
    let shape = bb_ir::infer::broadcast(op, &[a.shape(), b.shape()])?;
    let width = a.dtype().bits() / 8;
    let spread = |x: &TensorData| -> Result<Vec<u8>, bb_ir::Error> {
        if x.shape() == shape.as_slice() {
            return memory::copied(op, x.bytes()?);
        }
        let at = positions(op, x.shape(), &shape)?;
        let elements = x.bytes()?;
        let mut bytes = memory::room(op, at.len().saturating_mul(width))?;
        let mut pace = Pace::new();
        for at in at.chunks(STRETCH) {
            pace.step(at.len());
            bytes.extend(at.iter().filter_map(|at| elements.get(at * width..(at + 1) * width)).flatten());
        }
        Ok(bytes)
    };
    let (left, right) = (spread(a)?, spread(b)?);
    let bytes = memory::collected(op, left.iter().zip(&right).map(|(&a, &b)| join(a, b)))?;
    Ok(vec![TensorData::adopt(a.dtype(), &shape, bytes.into())?])
}

/// Returns, for each element of a broadcast result, the index of the operand's element.
pub fn positions(op: &'static str, shape: &[usize], to: &[usize]) -> Result<Vec<usize>, bb_ir::Error> {
    if to.contains(&0) {
        return Ok(Vec::new());
    }
    let own = super::scatter::strides(shape);
    let steps = shape.iter().zip(&own).map(|(&d, &step)| if d == 1 { 0 } else { step });
    let steps = std::iter::repeat_n(0, to.len() - shape.len()).chain(steps);
    let mut pace = Pace::new();
    to.iter().zip(steps).try_fold(vec![0], |positions, (&extent, step)| {
        let mut longer = memory::room(op, positions.len().saturating_mul(extent))?;
        for p in positions {
            pace.step(extent);
            longer.extend((0..extent).map(|i| p + i * step));
        }
        Ok(longer)
    })
}
