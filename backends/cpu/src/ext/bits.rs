//! Implements `Bits`: shifts have a kernel.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::op::Binary;
use crate::ops::elementwise;
use bb::Tensor;

#[bb::native]
impl bb::ext::Bits for Cpu {
    fn bit_shift(&self, x: &Array, y: &Array, left: bool) -> Result<Array> {
        if !x.dtype().is_integer() || y.dtype() != x.dtype() {
            return self.body().bit_shift(x, y, left);
        }
        let op = if left { Binary::ShiftLeft } else { Binary::ShiftRight };
        elementwise::binary(self.pool(), op, x, y)
    }
}
