//! Casts between element types.

use super::arithmetic::map;
use crate::device::Gpu;
use crate::elem::Elem;
use crate::wgsl::map::Function;
use crate::{Result, Tensor};
use bb::DataType;
use std::sync::Arc;

pub(crate) fn cast(gpu: &Arc<Gpu>, x: &Tensor, to: DataType) -> Result<Tensor> {
    let elem = Elem::of("cast", to)?;
    if x.elem() == elem {
        return Ok(x.clone());
    }
    map(gpu, "cast", Function::Cast, elem, &[x])
}
