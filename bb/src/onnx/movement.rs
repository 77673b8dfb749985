//! Operators that move elements and change none.

use super::call::{Call, OpResult, one};
use super::rows::operators;
use crate::ext::Ops;
use crate::{Error, Tensor};
use bb_ir::{Axis, infer};

operators! {
    "" {
        Concat => Primitives(concat), infer: Primitive;
        Gather => Primitives(gather), infer: Primitive;
        Reshape => Primitives(reshape), infer: Primitive;
        Slice => Primitives(slice), infer: Primitive;
        Split => Primitives(split), infer: Primitive;
        Squeeze => Primitives(squeeze), infer: Primitive;
        Transpose => Primitives(transpose), infer: Primitive;
        Unsqueeze => Primitives(unsqueeze), infer: Primitive;
    }
}

/// `Reshape`: 0 copies an extent unless `allowzero`, -1 stands for what is left.
pub(super) fn reshape<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let to = call.list(on, "shape", 1)?.ok_or_else(|| call.wrong("shape", "is missing"))?;
    let allow_zero = call.flag("allowzero", false)?;
    // Extents that are all given do not depend on the operand's.
    let given: Option<Vec<usize>> =
        to.iter().map(|&d| usize::try_from(d).ok().filter(|&d| d != 0 || allow_zero)).collect();
    match given {
        Some(shape) => Ok(one(on.reshape(x, &shape)?)),
        None => {
            let shape = infer::resolve_reshape(x.shape(), &to, allow_zero).map_err(Error::from)?;
            Ok(one(on.reshape(x, &shape)?))
        }
    }
}

/// `Transpose`: without `perm`, the dimensions are reversed.
pub(super) fn transpose<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(on.transpose(call.input(0)?, call.ints("perm")?.unwrap_or_default())?))
}

/// `Concat`: opset 1 has a default axis, 1.
pub(super) fn concat<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let axis = if call.opset() < 4 { call.int_or("axis", 1)? } else { call.int("axis")? };
    Ok(one(on.concat(&call.all()?, axis)?))
}

/// `Gather`.
pub(super) fn gather<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(on.gather(call.input(0)?, call.input(1)?, call.int_or("axis", 0)?)?))
}

/// `Slice`: attributes before opset 10, operands since.
pub(super) fn slice<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let missing = |name| call.wrong(name, "is missing; the operator needs it");
    let starts = call.list(on, "starts", 1)?.ok_or_else(|| missing("starts"))?;
    let ends = call.list(on, "ends", 2)?.ok_or_else(|| missing("ends"))?;
    let axes = call.list(on, "axes", 3)?.unwrap_or_default();
    let steps = call.list(on, "steps", 4)?.unwrap_or_default();
    Ok(one(on.slice(call.input(0)?, &starts, &ends, &axes, &steps)?))
}

/// `Split`: sizes as an attribute, an operand, a number of parts, or by the number of results.
pub(super) fn split<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let axis = call.int_or("axis", 0)?;
    let sizes: Vec<usize> = match call.list(on, "split", 1)? {
        Some(sizes) => sizes
            .iter()
            .map(|&s| {
                usize::try_from(s).map_err(|_| call.wrong("split", format!("has a part of extent {s}")))
            })
            .collect::<Result<_, _>>()?,
        None => even_parts(call, x, axis)?,
    };
    Ok(on.split(x, axis, &sizes)?.into_iter().map(Some).collect())
}

/// Cuts an extent into parts that are equal but for the last.
fn even_parts<T: Tensor>(call: &Call<'_, T>, x: &T, axis: i64) -> Result<Vec<usize>, Error> {
    let count = call.int_or("num_outputs", call.results() as i64)?;
    let parts = usize::try_from(count).ok().filter(|&n| n > 0 && n <= call.results().max(1));
    let parts = parts.ok_or_else(|| {
        call.wrong("num_outputs", format!("is {count}; the node names {} results", call.results()))
    })?;
    let axis = Axis::new(axis, x.rank())?.get();
    let extent = x.shape().get(axis).copied().unwrap_or_default();
    if !call.has("num_outputs") && call.opset() < 18 && !extent.is_multiple_of(parts) {
        return Err(call.wrong("split", format!("is left out, and {extent} is no multiple of {parts}")));
    }
    Ok(infer::split_evenly(&extent, parts)?.into_vec())
}

/// `Squeeze`: axes as an attribute before opset 13, an operand since.
pub(super) fn squeeze<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    match call.list(on, "axes", 1)? {
        // An empty list squeezes nothing, whereas the primitive's empty list squeezes all.
        Some(axes) if axes.is_empty() => Ok(one(on.identity(x)?)),
        Some(axes) => Ok(one(on.squeeze(x, &axes)?)),
        None => {
            // Which axes are 1 depends on the extents, and so does the result's rank.
            let axes: Vec<i64> = (0i64..).zip(x.shape()).filter(|(_, d)| **d == 1).map(|(i, _)| i).collect();
            Ok(one(if axes.is_empty() { on.identity(x)? } else { on.squeeze(x, &axes)? }))
        }
    }
}

/// `Unsqueeze`: axes as an attribute before opset 13, an operand since.
pub(super) fn unsqueeze<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let axes =
        call.list(on, "axes", 1)?.ok_or_else(|| call.wrong("axes", "is missing; the operator needs it"))?;
    Ok(one(on.unsqueeze(call.input(0)?, &axes)?))
}
