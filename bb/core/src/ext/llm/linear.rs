//! Matrix products with a transposed weight: row `j` of the weight gives column `j` of the result.

use crate::ext::{Border, MatMulNBitsOptions, QuantizedLinearOptions, fail, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use DataType::{I4, I8, I32, U4, U8};

/// The body of [`Llm::linear`](crate::ext::Llm::linear).
pub fn linear(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "linear";
    if let Some(bias) = bias.filter(|_| math::is_half(x.dtype())) {
        types::alike(w, x)?;
        types::alike(bias, x)?;
        let [wide, w, bias] = [x, w, bias].map(|x| math::to(on, x, DataType::F32));
        return math::to(on, &on.linear(&wide?, &w?, Some(&bias?))?, x.dtype());
    }
    let columns = match (w.rank(), bias) {
        (2, _) => on.transpose(w, &[1, 0])?,
        (1, None) => w.clone(),
        (rank, _) => {
            let problem = format!("has rank {rank}, expected 2, or 1 without a bias");
            return fail(Error::Operator { op: OP.to_owned(), part: "w".into(), problem });
        }
    };
    biased(on, OP, on.matmul(x, &columns)?, bias)
}

/// Adds a bias that broadcasts to `y`.
fn biased(
    on: &Tracer,
    op: &'static str,
    y: TracedTensor,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let Some(bias) = bias else { return Ok(y) };
    types::alike(bias, &y)?;
    types::fits(on, op, bias, &y)?;
    on.add(&y, bias)
}

/// The body of [`Llm::quantized_linear`](crate::ext::Llm::quantized_linear).
///
/// Weights that store one integer per element are converted to unsigned bytes, with shifted zero points. So the same
/// product serves both layouts.
pub fn quantized_linear(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    scales: &TracedTensor,
    zeros: Option<&TracedTensor>,
    bias: Option<&TracedTensor>,
    QuantizedLinearOptions { bits, block }: QuantizedLinearOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "quantized_linear";
    let wrong = |part: &'static str, problem: String| Error::Operator {
        op: OP.to_owned(),
        part: part.into(),
        problem,
    };
    types::take(OP, x, types::FLOATS)?;
    types::take(OP, scales, types::FLOATS)?;
    let Some(last) = x.rank().checked_sub(1) else {
        return fail(wrong("x", "has rank 0, expected 1 or more".to_owned()));
    };
    // The extents of weights are the same in all runs.
    let inner = usize::try_from(on.extent(x, last).number()).unwrap_or(0);
    let packed = w.rank() == 3;
    let of_row = match (block, w.shape()) {
        (0, &[_, _, bytes]) => bytes.saturating_mul(8) / bits.clamp(1, 8) as usize,
        (0, _) => inner.max(1),
        (block, _) => match usize::try_from(block) {
            Ok(block) => block,
            Err(_) => return fail(wrong("block", format!("is {block}, expected 0 or more"))),
        },
    };
    let blocks = inner.div_ceil(of_row.max(1));
    let options = MatMulNBitsOptions { inner: inner as i64, bits, block: of_row as i64, integers: false };
    let product = if packed {
        on.matmul_n_bits(x, w, scales, zeros, None, options)?
    } else {
        types::take(OP, w, &[I4, U4, I8, U8])?;
        let &[columns, own] = w.shape() else {
            return fail(wrong("w", format!("has rank {}, expected 2 or 3", w.rank())));
        };
        if own != inner {
            let (left, right) = (x.shape().into(), w.shape().into());
            return fail(bb_ir::Error::Shapes { op: OP, left, right });
        }
        for (part, given) in [("scales", Some(scales)), ("zeros", zeros)] {
            let fits = |given: &TracedTensor| {
                given.shape() == [columns, blocks] || (blocks == 1 && given.shape() == [columns])
            };
            if let Some(given) = given.filter(|given| !fits(given)) {
                let problem = format!("has the shape {:?}, expected {:?}", given.shape(), [columns, blocks]);
                return fail(wrong(part, problem));
            }
        }
        let zeros = match zeros {
            Some(zeros) => {
                types::alike(zeros, w)?;
                on.reshape(&bytes(on, zeros)?, &[columns, blocks])?
            }
            None => on.full(
                &[columns, blocks],
                if w.dtype().is_signed_integer() || w.dtype() == I4 { 128.0 } else { 0.0 },
                U8,
            )?,
        };
        let whole = blocks * of_row;
        let pads = [0, 0, 0, (whole - inner) as i64];
        let rows = on.pad(&bytes(on, w)?, None, &pads, Border::Constant)?;
        let rows = on.reshape(&rows, &[columns, blocks, of_row])?;
        let scales = on.reshape(scales, &[columns, blocks])?;
        on.matmul_n_bits(
            x,
            &rows,
            &scales,
            Some(&zeros),
            None,
            MatMulNBitsOptions { inner: inner as i64, bits: 8, block: of_row as i64, integers: false },
        )?
    };
    biased(on, OP, product, bias)
}

/// Converts integers of 4 and 8 bits to unsigned bytes. Signed integers are shifted by 128.
fn bytes(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    match x.dtype() {
        U8 => Ok(x.clone()),
        U4 => math::to(on, x, U8),
        _ => {
            let wide = math::to(on, x, I32)?;
            math::to(on, &on.add(&wide, &on.scalar_like(&wide, 128.0)?)?, U8)
        }
    }
}
