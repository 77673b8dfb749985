//! Implements `Create`: `expand` returns a view, and constants are filled on the device.

use crate::elem::{Elem, Kind};
use crate::layout::broadcast;
use crate::open::Wgpu;
use crate::ops::arithmetic::{counted, filled};
use crate::ops::own;
use crate::{Result, Tensor};
use bb::ir::convert::{Rounding, cast};
use bb::ir::infer;
use bb::{DataType, Shape, TensorData};

/// The maximum number of elements of a tensor that is created on the host. Its elements stay known
/// on the host.
const SMALL: usize = 64;

impl Wgpu {
    /// Converts a number to a word of an element type. Returns `None` if this backend does not
    /// support the type.
    fn word(value: f64, dtype: DataType) -> Result<Option<(Elem, u32)>> {
        let Ok(elem) = Elem::of("full", dtype) else { return Ok(None) };
        let number = cast(&TensorData::scalar(value), dtype, Rounding::default())?;
        Ok(elem.words(&number)?.first().map(|&word| (elem, word)))
    }
}

/// Returns whether all numbers of a range, and the products that give them, are exact in `f32`.
fn exact(start: f64, step: f64, count: i64) -> bool {
    let end = start + step * count as f64;
    let small = |v: f64| v.abs() < f64::from(1 << 24) && v.fract() == 0.0;
    small(start) && small(step) && small(end) && small(end - start) && count < 1 << 24
}

#[bb::native]
impl bb::ext::Create for Wgpu {
    fn full(&self, shape: &[usize], value: f64, dtype: DataType) -> Result<Tensor> {
        let large = bb::ir::element_count(shape).is_some_and(|n| n > SMALL);
        match if large { Wgpu::word(value, dtype)? } else { None } {
            Some((elem, word)) => filled(self.gpu(), "full", elem, shape.into(), word),
            None => self.body().full(shape, value, dtype),
        }
    }

    fn zeros(&self, shape: &[usize], dtype: DataType) -> Result<Tensor> {
        bb::ext::Create::full(self, shape, 0.0, dtype)
    }

    fn ones(&self, shape: &[usize], dtype: DataType) -> Result<Tensor> {
        bb::ext::Create::full(self, shape, 1.0, dtype)
    }

    fn range(&self, start: f64, step: f64, count: i64, dtype: DataType) -> Result<Tensor> {
        let elem = Elem::of("range", dtype).ok().filter(|elem| matches!(elem, Elem::F32 | Elem::I32));
        let n = usize::try_from(count).ok().filter(|&n| n > SMALL);
        match (elem, n) {
            (Some(elem), Some(n)) if exact(start, step, count) => {
                let word = |value: f64| match elem.kind() {
                    Kind::Float => (value as f32).to_bits(),
                    _ => (value as i32).cast_unsigned(),
                };
                counted(self.gpu(), elem, n, word(start), word(step))
            }
            _ => self.body().range(start, step, count, dtype),
        }
    }

    fn expand(&self, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
        own(self.gpu(), "expand", &[x])?;
        let to: Shape = infer::broadcast("expand", &[x.shape(), shape])?;
        if to[..] != *shape {
            return self.body().expand(x, shape);
        }
        let strides = broadcast(x.shape(), &x.0.strides, shape);
        Ok(x.view(to, strides, x.0.offset))
    }
}
