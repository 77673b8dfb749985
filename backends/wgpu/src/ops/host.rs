//! Operations that involve the host: constants, results, and powers that need an element type that devices lack.

use super::arithmetic::dense;
use super::{own, storage};
use crate::device::Gpu;
use crate::elem::Elem;
use crate::tensor::View;
use crate::{Result, Tensor};
use bb::ir::convert::{self, Rounding};
use bb::ir::{infer, memory};
use bb::{DataType, Shape, Tensor as _, TensorData};
use std::sync::Arc;

/// Constants of at most this many elements are also kept on the host, so that decisions that depend on their values need no read from the
/// device.
const KNOWN: usize = 1024;

/// Copies a host tensor to the device.
pub(crate) fn constant(gpu: &Arc<Gpu>, x: &TensorData) -> Result<Tensor> {
    let elem = Elem::of("constant", x.dtype())?;
    let known = x.len() <= KNOWN;
    // Four-byte elements already have the format of words.
    let made = match elem.host_size() {
        4 => upload(gpu, "constant", elem, x.shape().into(), x.bytes()?)?,
        _ => upload(gpu, "constant", elem, x.shape().into(), bytemuck::cast_slice(&elem.words(x)?))?,
    };
    if !known {
        return Ok(made);
    }
    let View { shape, strides, storage, gpu, .. } = &*made.0;
    let (shape, strides, storage, gpu) = (shape.clone(), strides.clone(), storage.clone(), gpu.clone());
    Ok(Tensor(Arc::new(View { elem, shape, strides, offset: 0, storage, gpu, host: Some(x.clone()) })))
}

/// Copies words to the device.
pub(crate) fn words(
    gpu: &Arc<Gpu>,
    op: &'static str,
    elem: Elem,
    shape: Shape,
    words: &[u32],
) -> Result<Tensor> {
    upload(gpu, op, elem, shape, bytemuck::cast_slice(words))
}

fn upload(gpu: &Arc<Gpu>, op: &'static str, elem: Elem, shape: Shape, bytes: &[u8]) -> Result<Tensor> {
    let storage = storage(gpu, op, &shape, Some(gpu.stream.batch()))?;
    if let Some(storage) = &storage {
        gpu.write(storage, bytes)?;
    }
    Ok(Tensor::dense(gpu, elem, shape, storage))
}

/// Copies a tensor to the host, and blocks until it is copied.
pub(crate) fn to_host(gpu: &Arc<Gpu>, x: &Tensor) -> Result<TensorData> {
    own(gpu, "to_host", &[x])?;
    gpu.check()?;
    if let Some(host) = x.host() {
        return Ok(host.clone());
    }
    let mut bytes = memory::filled("to_host", 0u8, x.len() * x.elem().host_size())?;
    read_into(gpu, x, &mut bytes)?;
    Ok(TensorData::adopt(x.dtype(), x.shape(), bytes.into())?)
}

/// Copies a tensor into host memory, which must have its size in bytes.
pub(crate) fn read_into(gpu: &Arc<Gpu>, x: &Tensor, into: &mut [u8]) -> Result<()> {
    let expected = x.len() * x.elem().host_size();
    if into.len() != expected {
        let (dtype, shape, got) = (x.dtype(), x.shape().into(), into.len());
        return Err(bb::ir::Error::ByteLength { dtype, shape, expected, got }.into());
    }
    let x = dense(gpu, "to_host", x)?;
    let Some(storage) = &x.0.storage else { return gpu.check() };
    let copied = gpu.begin_read(storage, x.0.offset as u64 * 4, x.len() as u64 * 4)?;
    gpu.finish_read(copied, |words| {
        x.elem().read(words, into);
        Ok(())
    })
}

/// Copies a tensor to the host asynchronously.
pub(crate) async fn read(gpu: &Arc<Gpu>, x: &Tensor) -> Result<TensorData> {
    own(gpu, "to_host", &[x])?;
    gpu.check()?;
    if let Some(host) = x.host() {
        return Ok(host.clone());
    }
    let mut bytes = memory::filled("to_host", 0u8, x.len() * x.elem().host_size())?;
    let x = dense(gpu, "to_host", x)?;
    if let Some(storage) = &x.0.storage {
        let copied = gpu.begin_read(storage, x.0.offset as u64 * 4, x.len() as u64 * 4)?;
        let elem = x.elem();
        let into = &mut bytes;
        let finished = gpu.finish_read_async(copied, move |words| {
            elem.read(words, into);
            Ok(())
        });
        finished.await?;
    }
    Ok(TensorData::adopt(x.dtype(), x.shape(), bytes.into())?)
}

/// Raises integers to float powers on the host. The powers are computed in `f64` and then converted to the base's type like a cast.
pub(crate) fn pow(gpu: &Arc<Gpu>, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = infer::broadcast("pow", &[a.shape(), b.shape()])?;
    let wide = |x: &Tensor| -> Result<Vec<f64>> {
        let strides = crate::layout::broadcast(x.shape(), &x.0.strides, &shape);
        let x = to_host(gpu, &x.view(shape.clone(), strides, x.0.offset))?;
        let x = convert::cast(&x, DataType::F64, Rounding::default())?;
        Ok(memory::copied("pow", x.as_slice::<f64>()?)?)
    };
    let (base, exponent) = (wide(a)?, wide(b)?);
    let powers = base.iter().zip(&exponent).map(|(base, exponent)| base.powf(*exponent));
    let powers = TensorData::new(&shape, &memory::collected("pow", powers)?)?;
    constant(gpu, &convert::cast(&powers, a.dtype(), Rounding::default())?)
}

/// Returns the elements of an integer tensor if the host knows them.
pub(crate) fn known(x: &Tensor) -> Option<Vec<i64>> {
    let host = x.host()?;
    let wide = convert::cast(host, DataType::I64, Rounding::default()).ok()?;
    Some(wide.as_slice::<i64>().ok()?.to_vec())
}
