//! Rules of operators of early opsets that ONNX took away again.

use bb_ir::DataType;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{At, Types, extent, shifted};
use bb_ir::infer::{Bound, slice_by};

/// `Crop`: without the borders, or of the size that is asked for.
pub(crate) fn crop(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([n, c, height, width], [left, top, right, bottom]) = (at.dims(0)?, at.ints("border")?) else {
            return None;
        };
        let [rows, columns] = match at.ints("scale").unwrap_or_default() {
            [] => [
                shifted(height, top.checked_add(*bottom)?.checked_neg()?),
                shifted(width, left.checked_add(*right)?.checked_neg()?),
            ],
            [rows, columns] => [extent(*rows), extent(*columns)],
            _ => return None,
        };
        Some(vec![n.clone(), c.clone(), rows, columns])
    };
    at.one(at.dtype(0), shape())
}

/// `DynamicSlice`: as much of each axis as the bounds tell, if they are known.
pub(crate) fn dynamic_slice(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let lists = (at.list("starts", 1), at.list("ends", 2), at.list("axes", 3));
        let (Some(starts), Some(ends), Some(axes)) = lists else {
            return Some(vec![Dim::Unknown; x.len()]);
        };
        let bounds = |list: Vec<i64>| list.into_iter().map(|n| Some(Bound::of(n))).collect::<Vec<_>>();
        Some(slice_by(x, &bounds(starts), &bounds(ends), &axes, &[]).ok()?.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// The extents that are filled.
fn filled(at: At<'_>) -> Option<Vec<Dim>> {
    let listed = |name| at.ints(name).unwrap_or_default().iter().map(|&n| extent(n));
    let mut shape: Vec<Dim> = match (at.has(0), at.int("input_as_shape", 0)? != 0) {
        (false, _) => listed("shape").collect(),
        (true, false) => at.dims(0)?.to_vec(),
        (true, true) => at.extents(0).or_else(|| at.open_extents(0))?,
    };
    shape.extend(listed("extra_shape"));
    Some(shape)
}

/// `GivenTensorFill`: the graph alone tells whether the elements are other floats than `f32`.
pub(crate) fn given_tensor_fill(at: At<'_>) -> Option<Types> {
    at.one(None, filled(at))
}

/// `ConstantFill`.
pub(crate) fn constant_fill(at: At<'_>) -> Option<Types> {
    at.one(at.type_attribute("dtype", Some(DataType::F32)), filled(at))
}
