//! The contents of small tensors, as far as they are known before inputs arrive.

use super::Constant;
use super::arithmetic::{self, numeric, zip};
use super::entry::{self, Entry, binary};
use super::number::Of;
use crate::convert::Rounding;
use crate::infer::{Extent, Reduction, range_count};
use crate::op::{Param, Primitive};
use crate::{DataType, Error, Shape, TensorData, element_count};

/// The maximum number of entries that are evaluated.
pub const MOST: usize = 256;

/// The maximum number of float entries that are evaluated. Extents are computed from few floats.
const MOST_REALS: usize = 16;

/// The contents of a tensor with known extents, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents<E> {
    /// The element type.
    pub dtype: DataType,
    /// The extents.
    pub shape: Shape,
    /// The elements, which may be unknown.
    pub entries: Vec<Entry<E>>,
}

impl<E: Extent> Contents<E> {
    /// Creates the contents of a tensor of this shape; `None` if the number of entries does not match the shape, or exceeds
    /// [`MOST`].
    pub fn new(dtype: DataType, shape: Shape, entries: Vec<Entry<E>>) -> Option<Contents<E>> {
        let fits = entries.len() <= MOST && element_count(&shape) == Some(entries.len());
        fits.then_some(Contents { dtype, shape, entries })
    }

    /// Creates the contents of a vector; `None` if there are more than [`MOST`] entries.
    pub fn list(dtype: DataType, entries: Vec<Entry<E>>) -> Option<Contents<E>> {
        Contents::new(dtype, Shape::from_slice(&[entries.len()]), entries)
    }

    /// Creates the contents of a tensor of rank 0.
    pub fn scalar(dtype: DataType, entry: Entry<E>) -> Contents<E> {
        Contents { dtype, shape: Shape::new(), entries: vec![entry] }
    }

    /// Returns the contents of a constant; `None` if it has too many elements, or if they are not numbers.
    pub fn of(data: &TensorData) -> Option<Contents<E>> {
        let most = match data.dtype() {
            DataType::I64 | DataType::I32 | DataType::Bool => MOST,
            DataType::F32 | DataType::F64 => MOST_REALS,
            _ => return None,
        };
        if data.len() > most {
            return None;
        }
        let entries = match data.dtype() {
            DataType::I64 => data.as_slice::<i64>().ok()?.iter().map(|&v| v.into()).collect(),
            DataType::I32 => data.as_slice::<i32>().ok()?.iter().map(|&v| i64::from(v).into()).collect(),
            DataType::F32 => data.as_slice::<f32>().ok()?.iter().map(|&v| Entry::real(v.into())).collect(),
            DataType::F64 => data.as_slice::<f64>().ok()?.iter().map(|&v| Entry::real(v)).collect(),
            _ => data.to_bools().ok()?.into_iter().map(Entry::truth).collect(),
        };
        Contents::new(data.dtype(), Shape::from_slice(data.shape()), entries)
    }

    /// Returns the elements as integers; `None` if an element is not a known integer.
    pub fn ints(&self) -> Option<Vec<i64>> {
        self.entries.iter().map(Entry::int).collect()
    }

    /// Returns the only entry; `None` if there are none or several.
    pub fn only(&self) -> Option<&Entry<E>> {
        match self.entries.as_slice() {
            [entry] => Some(entry),
            _ => None,
        }
    }

    /// Returns the integers from `start` to before `limit` in steps of `step`; `None` if their number is unknown or exceeds
    /// [`MOST`].
    pub fn range(dtype: DataType, start: &E, limit: &E, step: i64) -> Option<Contents<E>> {
        let count = range_count(start, limit, step)?.number()?;
        let at = |i: i64| start.plus(&E::of(i.checked_mul(step)?)?).map(Entry::Whole);
        // One entry more than allowed is computed, so that `list` detects that the range is too long.
        let entries = (0..count).take(MOST + 1).map(at);
        Contents::list(dtype, entries.collect::<Option<_>>()?)
    }

    /// Returns the result of reducing by ONNX's operator `op`, for example `Mul`. `identity` is the result of reducing no
    /// elements.
    pub(crate) fn reduced(
        &self,
        op: &str,
        identity: Entry<E>,
        reduction: &Reduction,
        signless: &dyn Fn(&E) -> bool,
    ) -> Option<Contents<E>> {
        let step =
            |a: &Entry<E>, b: &Entry<E>| binary(op, self.dtype, a, b, signless).unwrap_or(Entry::Unknown);
        if element_count(&reduction.kept).is_none_or(|n| n > MOST) {
            return None;
        }
        let entries = arithmetic::reduced(&self.entries, &self.shape, reduction, &Some(identity), step)?;
        Contents::new(self.dtype, reduction.shape.clone(), entries)
    }

    /// Returns the result of ONNX's operator `op`, which is not a primitive, for operands that broadcast; `None` if the operator
    /// is not supported.
    pub(crate) fn joined(
        op: &str,
        [a, b]: [&Self; 2],
        dtype: DataType,
        shape: &Shape,
        signless: &dyn Fn(&E) -> bool,
    ) -> Option<Contents<E>> {
        if element_count(shape).is_none_or(|n| n > MOST) {
            return None;
        }
        // The type of the operands is passed, because the result of a comparison has another type.
        let entries = zip((&a.entries, &a.shape), (&b.entries, &b.shape), shape, |x, y| {
            binary(op, a.dtype, x, y, signless)
        });
        Contents::new(dtype, shape.clone(), entries.into_iter().collect::<Option<_>>()?)
    }
}

impl<E: Extent> Constant for Contents<E> {
    type Expr = E;

    const MOST: usize = MOST;

    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn reshaped(&self, shape: &[usize]) -> Result<Self, Error> {
        let wrong =
            || Error::Shapes { op: "reshape", left: self.shape.as_slice().into(), right: shape.into() };
        Contents::new(self.dtype, Shape::from_slice(shape), self.entries.clone()).ok_or_else(wrong)
    }

    fn picked(from: &[&Self], shape: &[usize], positions: &[Option<usize>]) -> Result<Option<Self>, Error> {
        let Some(dtype) = from.first().map(|x| x.dtype) else { return Ok(None) };
        let all: Vec<&Entry<E>> = from.iter().flat_map(|x| &x.entries).collect();
        let entry = |at: &Option<usize>| all.get((*at)?).map(|e| (*e).clone());
        let entries = positions.iter().map(|at| entry(at).unwrap_or(Entry::Unknown)).collect();
        Ok(Contents::new(dtype, Shape::from_slice(shape), entries))
    }

    fn alike((x, i): (&Self, usize), (y, j): (&Self, usize)) -> bool {
        match (x.entries.get(i), y.entries.get(j)) {
            (Some(Entry::Whole(a)), Some(Entry::Whole(b))) => a.same(b),
            (Some(Entry::Real(a)), Some(Entry::Real(b))) => a == b,
            _ => false,
        }
    }

    fn ints(&self) -> Option<Vec<Option<i64>>> {
        Some(self.entries.iter().map(Entry::int).collect())
    }

    fn cast(&self, to: DataType, _: Rounding) -> Result<Self, Error> {
        let entries = self.entries.iter().map(|e| entry::cast(e, to)).collect();
        Ok(Contents { dtype: to, shape: self.shape.clone(), entries })
    }

    fn compute(
        op: Primitive,
        inputs: &[&Self],
        shape: &[usize],
        params: &[Param<'_>],
        signless: &dyn Fn(&Self::Expr) -> bool,
    ) -> Result<Option<Self>, Error> {
        let Some(dtype) = inputs.first().map(|x| x.dtype) else { return Ok(None) };
        let out = Shape::from_slice(shape);
        if let (Primitive::Equal | Primitive::Greater | Primitive::Less, [a, b]) = (op, inputs) {
            return Ok(Contents::joined(op.spec().name, [a, b], DataType::Bool, &out, signless));
        }
        let operands: Vec<_> = inputs.iter().map(|x| (x.entries.as_slice(), x.shape.as_slice())).collect();
        let (operands, exponents) = match (op, operands.as_slice()) {
            (Primitive::Pow, [a, (b, extents)]) => (vec![*a], Some((b.to_vec(), *extents))),
            _ => (operands, None),
        };
        let entries = numeric(op, &operands, exponents, shape, params, Of { dtype, signless })?;
        Ok(entries.and_then(|entries| Contents::new(dtype, out, entries)))
    }
}
