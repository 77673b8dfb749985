//! Computes primitives on the host, because no type of the backend can store their results.

use super::backend::NarrowedOn;
use super::{NarrowTensor, Range};
use crate::error::NarrowError;
use crate::ext::ErasedError;
use crate::{Error, Outputs, Tensor};
use bb_ir::convert::{self, Rounding};
use bb_ir::infer::{self, eval, eval::Constant as _};
use bb_ir::op::{Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};

impl NarrowedOn<'_> {
    /// Computes a primitive on the host, and copies the results to the backend where this is exact.
    ///
    /// Integers of up to 32 bits are computed in `i64`. The cast back to their own type wraps them.
    ///
    /// # Errors
    ///
    /// [`NarrowError`] if the host cannot compute the primitive either, because it has too many elements or an unsupported
    /// type.
    pub(super) fn by_host(
        &self,
        op: Primitive,
        inputs: &[Option<&NarrowTensor>],
        params: &[Param<'_>],
        refused: NarrowError,
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        use Primitive as P;
        let refuse = || ErasedError::from(Error::from(refused.clone()));
        let mut operands = Vec::with_capacity(inputs.len());
        for x in inputs.iter().flatten() {
            operands.push(self.read(x)?);
        }
        let given: Vec<(DataType, &[usize])> = operands.iter().map(|x| (x.dtype(), x.shape())).collect();
        let results = infer::primitive(op, &given, params).map_err(Error::from)?;
        if op == P::Cast {
            let (Some(x), Some((to, _))) = (operands.first(), results.first()) else { return Err(refuse()) };
            let rounding = super::cast::rounding(params)?;
            let cast = convert::cast(x, *to, rounding).map_err(Error::from)?;
            return Ok(Outputs::from_buf([self.bring(&cast)?]));
        }
        let computes = !crate::erased::range::only_moves(op);
        let wide = |x: &TensorData| -> Result<TensorData, Error> {
            let own = matches!(x.dtype(), DataType::I32 | DataType::I64 | DataType::U64);
            let small = x.dtype().is_integer() && !own;
            match computes && small {
                true => Ok(convert::cast(x, DataType::I64, Rounding::default())?),
                false => Ok(x.clone()),
            }
        };
        let wide: Vec<TensorData> = operands.iter().map(wide).collect::<Result<_, _>>()?;
        let widened: Vec<(DataType, Shape)> = match results.first() {
            Some((dtype, shape))
                if computes && dtype.is_integer() && !matches!(dtype, DataType::I32 | DataType::U64) =>
            {
                vec![(DataType::I64, shape.clone())]
            }
            _ => results.iter().cloned().collect(),
        };
        let refs: Vec<&TensorData> = wide.iter().collect();
        // There is no limit for moving elements, because this takes no longer than copying them from the backend.
        let most = if computes { TensorData::MOST } else { usize::MAX };
        let computed = eval::primitive_within(most, op, &refs, &widened, params, &|_| false);
        let computed = computed.map_err(Error::from)?;
        let Some(computed) = computed else { return Err(refuse()) };
        let mut outputs = Outputs::with_capacity(computed.len());
        for (y, (dtype, _)) in computed.iter().zip(&results) {
            outputs.push(match y.dtype() == *dtype {
                true => self.bring(y)?,
                false => self.bring(&own_type(op, y, *dtype)?)?,
            });
        }
        Ok(outputs)
    }

    /// Returns the error for an operation with an element type that the backend cannot store.
    pub(super) fn lacks(
        &self,
        op: Primitive,
        inputs: &[Option<&NarrowTensor>],
        result: Option<DataType>,
    ) -> NarrowError {
        let types = inputs.iter().flatten().map(|x| x.dtype()).chain(result);
        let lacking = types.clone().find(|&dtype| self.holding().of(dtype).is_none());
        let dtype = lacking.or_else(|| types.into_iter().find(|&dtype| self.holding().narrows(dtype)));
        let dtype = dtype.unwrap_or(DataType::F32);
        match self.holding().of(dtype) {
            None => NarrowError::Lacks { op: op.spec().method, dtype },
            Some(held) => NarrowError::Exceeds { op: op.spec().method, dtype, held },
        }
    }
}

/// Casts a result that was computed in `i64` to its own type; the cast wraps.
///
/// An extremum of no elements is the limit of `i64`, and is clamped to the limit of the type.
fn own_type(op: Primitive, y: &TensorData, dtype: DataType) -> Result<TensorData, Error> {
    let Some(range) = Range::of(dtype).filter(|_| matches!(op, Primitive::ReduceMax | Primitive::ReduceMin))
    else {
        return Ok(convert::cast(y, dtype, Rounding::default())?);
    };
    let end = |end: i128| i64::try_from(end).unwrap_or(i64::MAX);
    let ends = y.as_slice::<i64>()?.iter().map(|&v| v.clamp(end(range.least), end(range.greatest)));
    let bounded = TensorData::new(y.shape(), &bb_ir::memory::collected(op.spec().method, ends)?)?;
    Ok(convert::cast(&bounded, dtype, Rounding::default())?)
}
