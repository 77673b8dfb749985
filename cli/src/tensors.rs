//! Tensors from files, and random ones.

use crate::error::{Error, Result};
use bb::onnx::Item;
use bb::{DataType, TensorData};
use bb_ir::convert::Rounding;
use bb_ir::graph::{Dim, ValueType};
use std::path::Path;

/// Reads a `.npy` file, or a serialized message of the kind that an input's type asks for.
pub(crate) fn read(path: &Path, ty: &ValueType) -> Result<Item<TensorData>> {
    if path.extension().is_none_or(|e| e != "npy") {
        return Ok(bb::conformance::onnx::read_item(path, ty)?);
    }
    let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let tensor = TensorData::from_npy(bytes.into());
    tensor.map(Item::Tensor).map_err(|e| Error::Tensor { path: path.to_owned(), source: e.into() })
}

/// Writes a `.npy` file.
pub(crate) fn write(path: &Path, x: &TensorData) -> Result<()> {
    let bytes = x.to_npy()?;
    std::fs::write(path, bytes).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Makes random elements for an input: floats in [0, 1), integers and truth values 0 or 1, which are valid as
/// indices and tokens almost everywhere. Extents that are not known are 1.
pub(crate) fn random(name: &str, ty: &ValueType, seed: u64) -> Result<TensorData> {
    let not_random = || Error::NotRandom { name: name.to_owned(), ty: crate::render::ty(ty) };
    let ValueType::Tensor { dtype, shape } = ty else { return Err(not_random()) };
    if *dtype == DataType::String {
        return Err(not_random());
    }
    let extent = |dim: &Dim| if let Dim::Known(extent) = dim { *extent } else { 1 };
    let shape: Vec<usize> = shape.iter().flatten().map(extent).collect();
    let elements = bb_ir::element_count(&shape).filter(|n| *n <= 1 << 30).ok_or_else(not_random)?;
    let mut state = seed;
    let whole = !dtype.is_float();
    let values: Vec<f32> = (0..elements)
        .map(|_| {
            let unit = unit(&mut state);
            if whole { unit.round() } else { unit }
        })
        .collect();
    Ok(bb_ir::convert::cast(&TensorData::new(&shape, &values)?, *dtype, Rounding::default())?)
}

/// Draws from [0, 1) with SplitMix64 (Steele, Lea, Flood 2014).
fn unit(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
}
