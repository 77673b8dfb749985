//! Prepared programs of element-wise functions, which are decoded once.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::fused::{self, Program};
use bb::ir::op::Param;
use bb::{DataType, Kernel, KernelOperands, Outputs, PrepareStep};
use smallvec::SmallVec;

/// Prepares a program, if the backend has loops for all of its lines.
pub(super) fn programs(step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let types: Option<SmallVec<[DataType; 8]>> = step.operands().map(|x| Some(x?.dtype())).collect();
    let (Some(types), [Param::Ints(program)]) = (types, step.params()) else { return Ok(None) };
    Ok(fused::prepared(&types, program)?.map(|program| -> CpuKernel { Box::new(Fused(program)) }))
}

/// A decoded program whose lines all have loops.
struct Fused(Program);

impl Kernel<Cpu> for Fused {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        Ok(Outputs::from_buf([self.0.compute(on.pool(), operands)?]))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use bb::ext::ScalarOp;
    use bb::{Backend, KernelOperand, PrepareOperand, RoundMode, Tensor, TensorData};

    /// `relu(x * a + b) * x`.
    const PROGRAM: [i64; 11] = [2, 0, 1, 0, 3, 2, 14, 4, 2, 5, 0];

    fn array(cpu: &Cpu, shape: &[usize], dtype: DataType, seed: usize) -> Array {
        let n: usize = shape.iter().product();
        let numbers: Vec<f32> = (0..n).map(|i| ((i * 7919 + seed) % 2003) as f32 / 1001.5 - 1.0).collect();
        let x = cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap();
        // A result of this backend is in a block of the pool, a constant may be the host's bytes.
        let x = cpu.neg(&x).unwrap();
        cpu.cast(&x, dtype, true, RoundMode::Up).unwrap()
    }

    /// Runs the prepared kernel of the program, and compares its result with the operation's.
    fn check(cpu: &Cpu, xs: [KernelOperand<'_, Array>; 3]) -> Array {
        let mut operands: KernelOperands<'_, Array> = xs.into_iter().collect();
        let all: Vec<Array> = (0..3).map(|at| operands.required("fused", at).unwrap().clone()).collect();
        let host = |x: &Array| cpu.to_host(x).unwrap();
        let want = host(
            &bb::ext::Scalar::fused(
                &bb::ext::Extended::declining(cpu),
                &all.iter().collect::<Vec<_>>(),
                &PROGRAM,
            )
            .unwrap(),
        );
        let params = [Param::Ints((&PROGRAM).into())];
        let varying = |x: &Array| {
            PrepareOperand::varying(x.dtype(), x.shape().iter().map(|&extent| Some(extent)), false)
        };
        let step = PrepareStep::new(ScalarOp::Fused.spec(), &params, all.iter().map(|x| Some(varying(x))));
        let kernel = cpu.prepare(&step).unwrap().unwrap();
        drop((step, all));
        let result = kernel.run(cpu, &mut operands).unwrap().remove(0);
        assert_eq!(host(&result), want);
        result
    }

    #[test]
    fn results_take_the_place_of_an_operand_that_nobody_else_holds() {
        use KernelOperand::{Owned, Shared};
        let cpu = Cpu::new();
        for dtype in [DataType::F32, DataType::F16] {
            let of = |shape: &[usize], seed| array(&cpu, shape, dtype, seed);
            let (channels, one) = (of(&[5, 1], 2), of(&[], 3));
            let x = of(&[3, 5, 700], 1);
            let place = x.ptr();
            let y = check(&cpu, [Owned(x), Shared(&channels), Owned(one.clone())]);
            assert_eq!(y.ptr(), place);
            // The result overwrites a later operand here, because the first operand has another
            // shape.
            let x = of(&[3, 5, 700], 4);
            let place = x.ptr();
            let y = check(&cpu, [Owned(of(&[700], 9)), Owned(x), Shared(&one)]);
            assert_eq!(y.ptr(), place);
        }
    }

    #[test]
    fn what_others_hold_stays_as_it_was() {
        use KernelOperand::{Owned, Shared};
        let cpu = Cpu::new();
        let other = array(&cpu, &[], DataType::F32, 3);
        let x = array(&cpu, &[40, 50], DataType::F32, 1);
        let before = cpu.to_host(&x).unwrap();
        // The plan passes its handle, but another handle to the array or a view of its elements
        // exists.
        check(&cpu, [Owned(x.clone()), Shared(&other), Shared(&other)]);
        check(&cpu, [Owned(cpu.reshape(&x, &[2000]).unwrap()), Shared(&other), Shared(&other)]);
        check(&cpu, [Owned(cpu.transpose(&x, &[1, 0]).unwrap()), Shared(&other), Shared(&other)]);
        check(&cpu, [Shared(&x), Shared(&other), Shared(&other)]);
        assert_eq!(cpu.to_host(&x).unwrap(), before);
        let view = cpu.slice(&x, &[10], &[20], &[0], &[]).unwrap();
        drop(x);
        // The view's elements are in the middle of a block that has no other owner any more.
        check(&cpu, [Owned(view), Shared(&other), Shared(&other)]);
        check(&cpu, [Owned(array(&cpu, &[0, 8], DataType::F32, 1)), Shared(&other), Shared(&other)]);
        check(&cpu, [Owned(array(&cpu, &[3], DataType::F32, 1)), Shared(&other), Shared(&other)]);
    }
}
