//! Implements `Bits`: bitwise functions of integers.

use crate::elem::Kind;
use crate::open::Wgpu;
use crate::ops::arithmetic::map;
use crate::wgsl::map::{Binary, Function, Unary};
use crate::{Result, Tensor};

const INTEGERS: &[Kind] = &[Kind::Signed, Kind::Unsigned];

#[bb::native]
impl bb::ext::Bits for Wgpu {
    fn bitwise_and(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("bitwise_and", Binary::And, INTEGERS, a, b).unwrap_or_else(|| self.body().bitwise_and(a, b))
    }

    fn bitwise_or(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("bitwise_or", Binary::Or, INTEGERS, a, b).unwrap_or_else(|| self.body().bitwise_or(a, b))
    }

    fn bitwise_xor(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.both("bitwise_xor", Binary::Xor, INTEGERS, a, b).unwrap_or_else(|| self.body().bitwise_xor(a, b))
    }

    fn bitwise_not(&self, x: &Tensor) -> Result<Tensor> {
        match x.elem().kind() {
            Kind::Signed | Kind::Unsigned => {
                map(self.gpu(), "bitwise_not", Function::Unary(Unary::BitNot), x.elem(), &[x])
            }
            _ => self.body().bitwise_not(x),
        }
    }
}
