//! The evaluator of small constants that models compute extents from.
//!
//! It evaluates primitives for [`TensorData`](crate::TensorData), whose elements are numbers, and for [`Contents`], whose
//! elements may also be expressions of symbolic dimensions, or unknown. Both implement [`Constant`], so each primitive is
//! implemented only once. The evaluator is simple and slow, because it runs once per graph or plan, for tensors of at most
//! a few thousand elements.

mod arithmetic;
mod contents;
mod entry;
mod number;
mod positions;
mod tensor;
#[cfg(test)]
mod tests;

pub use contents::{Contents, MOST};
pub use entry::Entry;
pub(crate) use entry::unary;
pub use positions::{spread, strides, walk};

use crate::convert::Rounding;
use crate::op::{Param, Primitive, take};
use crate::{Axis, DataType, Error, Shape, element_count, infer};

/// A small tensor with elements that are known, at least in part.
pub trait Constant: Clone {
    /// The type of the expressions in symbolic elements.
    type Expr;

    /// The maximum number of elements of a computation.
    const MOST: usize;

    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the shape.
    fn shape(&self) -> &[usize];

    /// Returns the same elements as a tensor of another shape with the same number of elements.
    ///
    /// # Errors
    ///
    /// [`Error::Shapes`] if the number of elements differs.
    fn reshaped(&self, shape: &[usize]) -> Result<Self, Error>;

    /// Returns the elements at `positions`. Positions index the concatenated elements of all tensors in `from`. If a
    /// position is unknown, the element is unknown. Returns `None` if elements of this type cannot be moved.
    ///
    /// # Errors
    ///
    /// The errors of creating a tensor of the elements.
    fn picked(from: &[&Self], shape: &[usize], positions: &[Option<usize>]) -> Result<Option<Self>, Error>;

    /// Returns whether an element of `a` and an element of `b` are known to be equal.
    fn alike(a: (&Self, usize), b: (&Self, usize)) -> bool;

    /// Returns the elements as integers; booleans are 0 and 1. An unknown element is `None`. Returns `None` if the elements
    /// are not integers.
    fn ints(&self) -> Option<Vec<Option<i64>>>;

    /// Casts the elements.
    ///
    /// # Errors
    ///
    /// The errors of casting a tensor.
    fn cast(&self, to: DataType, rounding: Rounding) -> Result<Self, Error>;

    /// Evaluates a primitive that does not only move elements; `None` if its element types are not supported.
    ///
    /// # Errors
    ///
    /// [`Error::DivisionByZero`].
    fn compute(
        op: Primitive,
        inputs: &[&Self],
        shape: &[usize],
        params: &[Param<'_>],
        signless: &dyn Fn(&Self::Expr) -> bool,
    ) -> Result<Option<Self>, Error>;
}

/// Evaluates a primitive; `None` if there are too many elements, or if the element types are not supported.
///
/// `results` contains the inferred types of the results. `signless` returns true for an expression that is known not to be
/// negative, although its form does not show it.
///
/// # Errors
///
/// The errors that the primitive's kernel would report for these elements: a division by zero, or an index out of range.
///
/// # Examples
///
/// ```
/// use bb_ir::infer::eval::{self, Contents, Entry};
/// use bb_ir::graph::DimExpr;
/// use bb_ir::op::{Param, Primitive};
/// use bb_ir::{DataType, Shape};
/// # fn main() -> Result<(), bb_ir::Error> {
/// // The extents `[n, 3]`, of which the first is gathered.
/// let extents = [DimExpr::name("n"), DimExpr::from(3)].map(Entry::Whole).to_vec();
/// let x = Contents::list(DataType::I64, extents).expect("few");
/// let i = Contents::list(DataType::I64, vec![Entry::from(0)]).expect("few");
/// let result = [(DataType::I64, Shape::from_slice(&[1]))];
/// let y = eval::primitive(Primitive::Gather, &[&x, &i], &result, &[Param::Int(0)], &|_| false)?;
/// assert_eq!(y.expect("integers")[0].entries, [Entry::Whole(DimExpr::name("n"))]);
/// # Ok(())
/// # }
/// ```
pub fn primitive<C: Constant>(
    op: Primitive,
    inputs: &[&C],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
    signless: &dyn Fn(&C::Expr) -> bool,
) -> Result<Option<Vec<C>>, Error> {
    primitive_within(C::MOST, op, inputs, results, params, signless)
}

/// Evaluates a primitive like [`primitive`], but with a limit of `most` elements.
///
/// # Errors
///
/// As [`primitive`].
pub fn primitive_within<C: Constant>(
    most: usize,
    op: Primitive,
    inputs: &[&C],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
    signless: &dyn Fn(&C::Expr) -> bool,
) -> Result<Option<Vec<C>>, Error> {
    use Primitive as P;
    let small = |shape: &[usize]| element_count(shape).is_some_and(|n| n <= most);
    let all = results.iter().map(|(_, shape)| shape.as_slice()).chain(inputs.iter().map(|x| x.shape()));
    let (Some((_, shape)), true) = (results.first(), all.into_iter().all(small)) else { return Ok(None) };
    let one = match (op, inputs) {
        (P::Identity, [x]) => Some((*x).clone()),
        (P::Reshape | P::Squeeze | P::Unsqueeze, [x]) => Some(x.reshaped(shape)?),
        (P::Cast, [x]) => {
            let rounding = Rounding {
                saturate: take::Bool("cast", params.get(1))?,
                mode: take::Round("cast", params.get(2))?,
            };
            Some(x.cast(take::Type("cast", params.first())?, rounding)?)
        }
        (P::Transpose, [x]) => {
            let perm = infer::transpose(x.shape(), take::Ints("transpose", params.first())?)?.perm;
            let own = strides(x.shape());
            let strides: Vec<isize> = perm.iter().filter_map(|&p| own.get(p).copied()).collect();
            moved(inputs, shape, walk(shape, &strides, 0))?
        }
        (P::Slice, [x]) => {
            let list = |i| take::Ints("slice", params.get(i));
            let dims = infer::slice(x.shape(), list(0)?, list(1)?, list(2)?, list(3)?)?.dims;
            let own = strides(x.shape());
            let start = dims.iter().zip(&own).map(|(d, s)| d.start as isize * s).sum();
            let strides: Vec<isize> = dims.iter().zip(&own).map(|(d, s)| d.step * s).collect();
            moved(inputs, shape, walk(shape, &strides, start))?
        }
        (P::Split, [x]) => return split(*x, results, params),
        (P::Concat, xs) => concat(xs, shape, take::Int("concat", params.first())?)?,
        (P::Gather, [data, indices]) => gather(*data, *indices, shape, take::Int("gather", params.first())?)?,
        (P::Where, [condition, x, y]) => select(*condition, *x, *y, shape)?,
        _ => C::compute(op, inputs, shape, params, signless)?,
    };
    Ok(one.map(|x| vec![x]))
}

/// Returns the elements at positions that are all known.
fn moved<C: Constant>(from: &[&C], shape: &[usize], positions: Vec<usize>) -> Result<Option<C>, Error> {
    let positions: Vec<Option<usize>> = positions.into_iter().map(Some).collect();
    C::picked(from, shape, &positions)
}

/// Repeats the elements of `x` to a shape that `x` broadcasts to; `None` if the result has too many elements.
///
/// # Errors
///
/// As [`primitive`].
pub fn expand<C: Constant>(x: &C, shape: &[usize]) -> Result<Option<C>, Error> {
    match element_count(shape) {
        Some(n) if n <= C::MOST => moved(&[x], shape, spread(x.shape(), shape)),
        _ => Ok(None),
    }
}

fn split<C: Constant>(
    x: &C,
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Result<Option<Vec<C>>, Error> {
    let sizes = take::Extents("split", params.get(1))?;
    let axis = infer::split(x.shape(), take::Int("split", params.first())?, sizes)?.get();
    let own = strides(x.shape());
    let along = own.get(axis).copied().unwrap_or(0);
    let mut start = 0;
    let mut parts = Vec::new();
    for (&size, (_, shape)) in sizes.iter().zip(results) {
        let Some(part) = moved(&[x], shape, walk(shape, &own, start))? else { return Ok(None) };
        parts.push(part);
        start += size as isize * along;
    }
    Ok(Some(parts))
}

fn concat<C: Constant>(xs: &[&C], shape: &[usize], axis: i64) -> Result<Option<C>, Error> {
    let axis = infer::concat(xs.iter().map(|x| x.shape()), axis)?.axis.get();
    let (before, _) = shape.split_at(axis.min(shape.len()));
    let outer = if shape.contains(&0) { 0 } else { before.iter().product() };
    let mut positions = Vec::new();
    for row in 0..outer {
        let mut first = 0;
        for x in xs {
            let count: usize = x.shape().iter().product();
            let chunk = count / outer;
            positions.extend((first + row * chunk..).take(chunk));
            first += count;
        }
    }
    moved(xs, shape, positions)
}

fn gather<C: Constant>(data: &C, indices: &C, shape: &[usize], axis: i64) -> Result<Option<C>, Error> {
    let axis = Axis::new(axis, data.shape().len())?.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let Some(indices) = indices.ints() else { return Ok(None) };
    let row = |index: i64| {
        let wrong = |_| Error::Index { op: "gather", index, extent };
        Axis::new(index, extent).map(Axis::get).map_err(wrong)
    };
    let rows: Vec<Option<usize>> =
        indices.into_iter().map(|index| index.map(row).transpose()).collect::<Result<_, _>>()?;
    let (before, rest) = data.shape().split_at(axis);
    let inner: usize = rest.iter().skip(1).product();
    let outer: usize = before.iter().product();
    let rows = &rows;
    let at = |o: usize, row: Option<usize>, i: usize| row.map(|row| (o * extent + row) * inner + i);
    let positions: Vec<Option<usize>> = (0..outer)
        .flat_map(|o| rows.iter().flat_map(move |&r| (0..inner).map(move |i| at(o, r, i))))
        .collect();
    C::picked(&[data], shape, &positions)
}

/// Selects elements by the booleans in `condition`. An unknown boolean gives a known element only if both elements are
/// equal.
fn select<C: Constant>(condition: &C, x: &C, y: &C, shape: &[usize]) -> Result<Option<C>, Error> {
    let Some(chosen) = condition.ints() else { return Ok(None) };
    let count: usize = x.shape().iter().product();
    let at = spread(x.shape(), shape).into_iter().zip(spread(y.shape(), shape));
    let choose = |(c, (i, j)): (usize, (usize, usize))| match chosen.get(c).copied().flatten() {
        Some(0) => Some(count + j),
        Some(_) => Some(i),
        None => C::alike((x, i), (y, j)).then_some(i),
    };
    let positions: Vec<Option<usize>> =
        spread(condition.shape(), shape).into_iter().zip(at).map(choose).collect();
    C::picked(&[x, y], shape, &positions)
}
