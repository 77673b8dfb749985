//! Checks of operands, which block until the device has computed them. If the host knows the operands, no read is
//! needed.

use super::host::{known, words};
use super::launch::{Dims, Side, Walk, params};
use super::own;
use crate::device::Gpu;
use crate::device::pipelines::Key;
use crate::elem::Elem;
use crate::layout::{Strides, broadcast, collapsed};
use crate::wgsl::scan::ScanKey;
use crate::{Result, Tensor};
use bb::Shape;
use bb::ir::infer;
use smallvec::SmallVec;
use std::sync::Arc;

/// Returns whether any element meets the condition of a key.
pub(crate) fn any(
    gpu: &Arc<Gpu>,
    op: &'static str,
    key: ScanKey,
    k: usize,
    operands: &[&Tensor],
) -> Result<bool> {
    own(gpu, op, operands)?;
    let shapes: SmallVec<[&[usize]; 2]> = operands.iter().map(|x| x.shape()).collect();
    let shape: Shape = infer::broadcast(op, &shapes)?;
    if shape.contains(&0) {
        return Ok(false);
    }
    if let Some(answer) = from_host(key, k, operands) {
        return Ok(answer);
    }
    let flag = words(gpu, op, Elem::U32, Shape::new(), &[0])?;
    let mut sides: SmallVec<[Side; 4]> = SmallVec::new();
    sides.extend(Side::of(&flag));
    sides.extend(operands.iter().filter_map(|x| Side::of(x)));
    let strides: SmallVec<[Strides; 2]> =
        operands.iter().map(|x| broadcast(x.shape(), &x.0.strides, &shape)).collect();
    let of = |i: usize| strides.get(i).map_or(&[][..], |strides| &strides[..]);
    let dims: Dims = collapsed(&shape, [&[], of(0), of(1), &[], &[], &[], &[]]);
    let mut params = params();
    params[3] = u32::try_from(k).unwrap_or(u32::MAX).min(i32::MAX as u32);
    Walk { op, key: Key::Scan(key), sides: &sides, params, strided: true, anywhere: true }.run(gpu, &dims)?;
    let mut answer = [0u8; 4];
    super::host::read_into(gpu, &flag, &mut answer)?;
    Ok(answer != [0; 4])
}

fn from_host(key: ScanKey, k: usize, operands: &[&Tensor]) -> Option<bool> {
    let first = known(operands.first()?);
    match key {
        ScanKey::Zero => Some(first?.contains(&0)),
        ScanKey::Index => {
            let k = i64::try_from(k).ok()?;
            Some(first?.iter().any(|&i| i < -k || i >= k))
        }
        // Each operand by itself may show that there is no error.
        ScanKey::ZeroToNegative => {
            let bases = first.is_some_and(|bases| !bases.contains(&0));
            let exponents = known(operands.get(1)?);
            let exponents = exponents.is_some_and(|exponents| exponents.iter().all(|&e| e >= 0));
            (bases || exponents).then_some(false)
        }
    }
}
