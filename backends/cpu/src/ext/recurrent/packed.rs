//! Recurrent weights, packed once for all steps of a layer.

use super::CellKind;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::quant::Weights;
use crate::gemm::Strided;
use crate::gemm::panels::Panels;
use bb::{DataType, Tensor};
use smallvec::SmallVec;

/// Packed weights of one direction.
pub(crate) enum Packed {
    /// The columns that are multiplied with the state, and separately the columns that are multiplied with the state
    /// scaled by a reset gate, if the cell does so.
    Floats(SmallVec<[Panels; 2]>),
    Bytes(Box<Weights>),
}

impl Packed {
    /// Packs weights. Returns `None` if packing does not make products faster, and for weights that the operation's body
    /// handles.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`].
    pub(crate) fn new(
        cpu: &Cpu,
        kind: CellKind,
        weights: &Array,
        scale: Option<&Array>,
        zero: Option<&Array>,
    ) -> Result<Option<Packed>> {
        if let Some(scale) = scale {
            let packed = cpu.pool().run(|| Weights::new(cpu, weights, scale, zero))??;
            return Ok(packed.map(|packed| Packed::Bytes(Box::new(packed))));
        }
        let &[h, wide] = weights.shape() else { return Ok(None) };
        let size = match weights.dtype() {
            DataType::F32 => 4,
            DataType::F64 => 8,
            _ => return Ok(None),
        };
        if h.checked_mul(kind.gates()) != Some(wide) {
            return Ok(None);
        }
        let [row, col] = weights.strides()[..] else { return Ok(None) };
        let late = if kind == (CellKind::Gru { linear: false }) { h } else { 0 };
        let mut panels = SmallVec::new();
        for (first, n) in [(0, wide - late), (wide - late, late)] {
            if n == 0 {
                continue;
            }
            let ptr = weights.ptr().wrapping_offset(first.cast_signed() * col * size);
            // SAFETY: the columns from `first` on are columns of the array.
            let made =
                unsafe { Panels::new(cpu.pool(), weights.dtype(), [h, n], Strided { ptr, row, col })? };
            match made {
                Some(made) => panels.push(made),
                None => return Ok(None),
            }
        }
        Ok(Some(Packed::Floats(panels)))
    }

    /// Returns whether these weights can multiply states of this type.
    pub(super) fn serves(&self, dtype: DataType) -> bool {
        match self {
            Packed::Floats(panels) => panels.iter().all(|panels| panels.dtype() == dtype),
            Packed::Bytes(_) => dtype == DataType::F32,
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Packed::Floats(panels) => panels.iter().map(Panels::bytes).sum(),
            Packed::Bytes(weights) => weights.bytes(),
        }
    }
}
