//! Evaluates primitives for tensors: arithmetic in `i64`, `i32`, `u64`, `bool` and `f32`, comparison of strings, and data movement
//! and casts for every element type.

use super::Constant;
use super::arithmetic::{numeric, reduced, zip};
use super::number::{Exponent, Held, Of};
use crate::convert::{self, Rounding};
use crate::op::{Param, Primitive, take};
use crate::{DataType, Error, TensorData, infer};

impl Constant for TensorData {
    type Expr = i64;

    const MOST: usize = 4096;

    fn dtype(&self) -> DataType {
        TensorData::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        TensorData::shape(self)
    }

    fn reshaped(&self, shape: &[usize]) -> Result<Self, Error> {
        TensorData::reshaped(self, shape)
    }

    fn picked(from: &[&Self], shape: &[usize], positions: &[Option<usize>]) -> Result<Option<Self>, Error> {
        let Some(dtype) = from.first().map(|x| x.dtype()) else { return Ok(None) };
        if dtype == DataType::String {
            let all: Vec<&[u8]> = from.iter().flat_map(|x| x.iter_bytes()).collect();
            let chosen: Vec<&[u8]> = positions.iter().filter_map(|p| all.get((*p)?).copied()).collect();
            return Ok(Some(TensorData::strings(shape, &chosen)?));
        }
        if !dtype.bits().is_multiple_of(8) {
            let all: Vec<u8> = from.iter().map(|x| x.unpacked()).collect::<Result<Vec<_>, Error>>()?.concat();
            let chosen: Vec<u8> = positions.iter().filter_map(|p| all.get((*p)?).copied()).collect();
            return Ok(Some(TensorData::pack(dtype, shape, &chosen)?));
        }
        let size = dtype.bits() / 8;
        let from: Vec<&[u8]> =
            from.iter().map(|x| Ok(&x.unaligned_bytes()?[..])).collect::<Result<_, Error>>()?;
        let element = |position: usize| {
            let mut at = position.checked_mul(size)?;
            for bytes in &from {
                match at.checked_sub(bytes.len()) {
                    Some(rest) => at = rest,
                    None => return bytes.get(at..at.checked_add(size)?),
                }
            }
            None
        };
        let bytes: Vec<u8> = positions.iter().filter_map(|p| element((*p)?)).flatten().copied().collect();
        Ok(Some(TensorData::adopt(dtype, shape, bytes.into())?))
    }

    fn alike(_: (&Self, usize), _: (&Self, usize)) -> bool {
        false
    }

    fn ints(&self) -> Option<Vec<Option<i64>>> {
        Some(match self.dtype() {
            DataType::I64 => self.as_slice::<i64>().ok()?.iter().map(|&v| Some(v)).collect(),
            DataType::I32 => self.as_slice::<i32>().ok()?.iter().map(|&v| Some(v.into())).collect(),
            DataType::Bool => self.to_bools().ok()?.into_iter().map(|v| Some(v.into())).collect(),
            _ => return None,
        })
    }

    fn cast(&self, to: DataType, rounding: Rounding) -> Result<Self, Error> {
        convert::cast(self, to, rounding)
    }

    fn compute(
        op: Primitive,
        inputs: &[&Self],
        shape: &[usize],
        params: &[Param<'_>],
        _: &dyn Fn(&i64) -> bool,
    ) -> Result<Option<Self>, Error> {
        use Primitive as P;
        let Some(first) = inputs.first() else { return Ok(None) };
        match (op, inputs, first.dtype()) {
            (P::Equal | P::Greater | P::Less, [a, b], DataType::Bool) => {
                let (x, y) = (a.to_bools()?, b.to_bools()?);
                let truths = zip((&x, a.shape()), (&y, b.shape()), shape, |a, b| holds(op, a, b));
                Ok(Some(TensorData::bools(shape, &truths)?))
            }
            (P::ReduceMax | P::ReduceMin, [x], DataType::Bool) => {
                let method = op.spec().method;
                let axes = take::Ints(method, params.first())?;
                let reduction = infer::reduce(method, x.shape(), axes, take::Bool(method, params.get(1))?)?;
                // The result of reducing no elements is false for the maximum, and true for the minimum.
                let seek = op == P::ReduceMax;
                let step = |a: &bool, b: &bool| if seek { *a || *b } else { *a && *b };
                let out = reduced(&x.to_bools()?, x.shape(), &reduction, &Some(!seek), step);
                out.map(|truths| TensorData::bools(shape, &truths)).transpose()
            }
            (P::Equal, [a, b], DataType::String) => {
                let (x, y): (Vec<&[u8]>, Vec<&[u8]>) = (a.iter_bytes().collect(), b.iter_bytes().collect());
                let truths = zip((&x, a.shape()), (&y, b.shape()), shape, |a, b| a == b);
                Ok(Some(TensorData::bools(shape, &truths)?))
            }
            (_, _, DataType::U64) => of::<u64>(op, inputs, shape, params),
            (_, _, DataType::I64) => of::<i64>(op, inputs, shape, params),
            (_, _, DataType::I32) => of::<i32>(op, inputs, shape, params),
            (_, _, DataType::F32) => of::<f32>(op, inputs, shape, params),
            _ => Ok(None),
        }
    }
}

/// Returns the result of a comparison.
fn holds<T: PartialOrd>(op: Primitive, a: &T, b: &T) -> bool {
    match op {
        Primitive::Greater => a > b,
        Primitive::Less => a < b,
        _ => a == b,
    }
}

/// Evaluates a primitive for one element type.
fn of<T: Held + PartialOrd>(
    op: Primitive,
    inputs: &[&TensorData],
    shape: &[usize],
    params: &[Param<'_>],
) -> Result<Option<TensorData>, Error> {
    match (op, inputs) {
        (Primitive::Equal | Primitive::Greater | Primitive::Less, [a, b]) => {
            let (x, y) = ((a.as_slice::<T>()?, a.shape()), (b.as_slice::<T>()?, b.shape()));
            let truths = zip(x, y, shape, |a, b| holds(op, a, b));
            Ok(Some(TensorData::bools(shape, &truths)?))
        }
        _ => {
            let (own, exponents) = match (op, inputs) {
                (Primitive::Pow, [a, b]) => (vec![*a], self::exponents(b)?.map(|list| (list, b.shape()))),
                _ => (inputs.to_vec(), None),
            };
            let operands = own.iter().map(|x| Ok((x.as_slice::<T>()?, x.shape())));
            let operands = operands.collect::<Result<Vec<_>, Error>>()?;
            let elements = numeric::<T>(
                op,
                &operands,
                exponents,
                shape,
                params,
                Of { dtype: T::DTYPE, signless: &|_| false },
            )?;
            elements.map(|e| TensorData::new(shape, &e)).transpose()
        }
    }
}

fn exponents(b: &TensorData) -> Result<Option<Vec<Exponent>>, Error> {
    Ok(match b.dtype() {
        DataType::I64 => Some(b.as_slice::<i64>()?.iter().map(|&v| Exponent::Int(v)).collect()),
        DataType::I32 => Some(b.as_slice::<i32>()?.iter().map(|&v| Exponent::Int(v.into())).collect()),
        DataType::U64 => Some(b.as_slice::<u64>()?.iter().map(|&v| Exponent::Int(periodic(v))).collect()),
        DataType::F32 => Some(b.as_slice::<f32>()?.iter().map(|&v| Exponent::Float(v.into())).collect()),
        _ => None,
    })
}

/// Returns an exponent that gives the same power modulo 2^64 and fits in an `i64`. The powers of an odd number repeat after at
/// most 2^62 exponents. The powers of an even number are 0 from the exponent 64 on.
fn periodic(exponent: u64) -> i64 {
    const PERIOD: u64 = 1 << 62;
    (if exponent < PERIOD { exponent } else { exponent % PERIOD + PERIOD }) as i64
}
