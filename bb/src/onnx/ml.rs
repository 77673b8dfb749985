//! Operators of the domain `ai.onnx.ml`.

use super::call::{Answer, Call, one};
use crate::ext::{Ops, math};
use crate::{DataType, Tensor};

/// Numbers that an attribute lists, of which one serves all features.
fn features<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    name: &str,
) -> Result<Option<B::Tensor>, B::Error> {
    Ok(match call.floats(name)? {
        None | Some([]) => None,
        Some([only]) => Some(on.host(&[], &[*only])?),
        Some(all) => Some(on.host(&[all.len()], all)?),
    })
}

/// `Scaler`: `(x - offset) * scale`, in `f32`.
pub(super) fn scaler<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let mut y = math::to(on, call.input(0)?, DataType::F32)?;
    if let Some(offset) = features(on, call, "offset")? {
        y = on.sub(&y, &offset)?;
    }
    if let Some(scale) = features(on, call, "scale")? {
        y = on.mul(&y, &scale)?;
    }
    Ok(one(y))
}

/// `Normalizer`: divides rows by their greatest size, their sum of sizes, or their length.
pub(super) fn normalizer<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let x = math::to(on, call.input(0)?, DataType::F32)?;
    let axes = [x.rank() as i64 - 1];
    let norm = match call.text_or("norm", "MAX")? {
        "MAX" => on.reduce_max(&on.abs(&x)?, &axes, true)?,
        "L1" => on.reduce_sum(&on.abs(&x)?, &axes, true)?,
        "L2" => on.sqrt(&on.reduce_sum(&on.mul(&x, &x)?, &axes, true)?)?,
        other => {
            return Err(call.wrong("norm", format!("is `{other}`, expected `MAX`, `L1` or `L2`")).into());
        }
    };
    let zero = on.equal(&norm, &on.scalar_like(&x, 0.0)?)?;
    Ok(one(on.r#where(&zero, &x, &on.div(&x, &norm)?)?))
}

/// `Binarizer`: 1 above a threshold, 0 elsewhere.
pub(super) fn binarizer<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let x = call.input(0)?;
    let above = on.greater(x, &on.scalar_like(x, call.float_or("threshold", 0.0)?)?)?;
    Ok(one(math::to(on, &above, x.dtype())?))
}

/// `ArrayFeatureExtractor`: columns by number.
pub(super) fn array_feature_extractor<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let (x, columns) = (call.input(0)?, call.input(1)?);
    let count: usize = columns.shape().iter().product();
    let x = if x.rank() == 1 { on.unsqueeze(x, &[0])? } else { x.clone() };
    Ok(one(on.gather(&x, &on.reshape(columns, &[count])?, -1)?))
}
