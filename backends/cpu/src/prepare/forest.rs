//! Prepared decision-tree ensembles, whose nodes are checked and packed once.

use super::CpuKernel;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ext::ml::{PackedTables, Tables};
use bb::ext::{Ml, TreeEnsembleOptions};
use bb::ir::op::Param;
use bb::{Kernel, KernelOperands, Outputs, PrepareStep};

const OP: &str = "tree_ensemble";

/// Prepares an ensemble whose tables are constants.
pub(super) fn trees(cpu: &Cpu, step: &PrepareStep<'_, Array>) -> Result<Option<CpuKernel>> {
    let [Param::Int(depth), Param::Ints(modes), Param::Bool(missing), Param::Text(aggregate)] = step.params()
    else {
        return Ok(None);
    };
    let (Some(x), Some(nodes), Some(thresholds), Some(roots), Some(weights)) =
        (step.operand(0), step.constant(1), step.constant(2), step.constant(3), step.constant(4))
    else {
        return Ok(None);
    };
    if step.operand(5).is_some() {
        // Set membership tests do not compare by order, which the packed form requires.
        return Ok(None);
    }
    let tables = Tables::new(cpu.pool(), [nodes, thresholds, roots, weights], None)?;
    let options = TreeEnsembleOptions { modes, missing: *missing, aggregate };
    let packed = tables.packed(x.dtype(), *depth, options)?;
    let (modes, missing, aggregate) = (modes.to_vec(), *missing, aggregate.to_string());
    Ok(packed
        .map(|packed| -> CpuKernel { Box::new(Forest { packed, depth: *depth, modes, missing, aggregate }) }))
}

/// A packed ensemble with its parameters. Each run still reads the tables to add up weights of several targets, and to report errors
/// through the operation's body.
struct Forest {
    packed: PackedTables,
    depth: i64,
    modes: Vec<i64>,
    missing: bool,
    aggregate: String,
}

impl Kernel<Cpu> for Forest {
    fn run(&self, on: &Cpu, operands: &mut KernelOperands<'_, Array>) -> Result<Outputs<Array>> {
        let x = operands.required(OP, 0)?;
        let [nodes, thresholds, roots, weights] = [
            operands.required(OP, 1)?,
            operands.required(OP, 2)?,
            operands.required(OP, 3)?,
            operands.required(OP, 4)?,
        ];
        let Forest { packed, depth, modes, missing, aggregate } = self;
        let options = TreeEnsembleOptions { modes, missing: *missing, aggregate };
        let tables = Tables::new(on.pool(), [nodes, thresholds, roots, weights], None)?;
        let y = match tables.run(on, x, *depth, options, Some(packed))? {
            Some(y) => y,
            None => on.body().tree_ensemble(x, nodes, thresholds, roots, weights, None, *depth, options)?,
        };
        Ok(Outputs::from_buf([y]))
    }

    fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    fn reads(&self, _operand: usize) -> bool {
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb::ext::MlOp;
    use bb::{Backend, DataType, Element, KernelOperand, PrepareOperand, RoundMode, Tensor, TensorData};

    fn array<T: Element>(cpu: &Cpu, shape: &[usize], elements: &[T]) -> Array {
        cpu.constant(&TensorData::new(shape, elements).unwrap()).unwrap()
    }

    /// Returns two trees that test columns 3 and 1; the second tree is a leaf. The leaves have two targets.
    fn tables(cpu: &Cpu, dtype: DataType) -> [Array; 4] {
        let floats = |shape: &[usize], x: &[f32]| {
            cpu.cast(&array(cpu, shape, x), dtype, true, RoundMode::default()).unwrap()
        };
        [
            array(cpu, &[2, 4], &[3i32, 0, 1, 4, 1, 8, 2, 3]),
            floats(&[2], &[0.5, -1.0]),
            array(cpu, &[2], &[0i32, 5]),
            floats(&[4, 2], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 100.0, 0.0]),
        ]
    }

    fn kernel(cpu: &Cpu, tables: &[Array; 4], aggregate: &str) -> Option<CpuKernel> {
        let params = [
            Param::Int(2),
            Param::Ints((&[0][..]).into()),
            Param::Bool(true),
            Param::Text(aggregate.to_owned().into()),
        ];
        let x = PrepareOperand::varying(tables[1].dtype(), [None, None], false);
        let operands = std::iter::once(Some(x))
            .chain(tables.iter().map(|table| Some(PrepareOperand::of_constant(table))))
            .chain([None]);
        cpu.prepare(&PrepareStep::new(MlOp::TreeEnsemble.spec(), &params, operands)).unwrap()
    }

    fn run(cpu: &Cpu, kernel: &CpuKernel, x: &Array, tables: &[Array; 4]) -> Result<Array> {
        let operands = std::iter::once(x).chain(tables).map(KernelOperand::Shared);
        let mut operands = operands.chain([KernelOperand::Absent]).collect();
        Ok(kernel.run(cpu, &mut operands)?.remove(0))
    }

    #[test]
    fn prepared_forests_walk_as_defined() {
        let cpu = Cpu::new();
        for dtype in [DataType::F32, DataType::F64] {
            let tables = tables(&cpu, dtype);
            // For NaN, the test of column 1 takes the true branch, and the test of column 3 the false branch.
            let rows = [
                [9f32, -1.0, 9.0, 0.5],
                [9.0, 0.0, 9.0, 0.0],
                [9.0, f32::NAN, 9.0, -3.0],
                [0.0, 0.0, 0.0, f32::NAN],
            ];
            let first = [[1f32, 10.0], [2.0, 20.0], [1.0, 10.0], [3.0, 30.0]];
            for (aggregate, with) in [
                ("sum", (|x: f32, y: f32| x + y) as fn(f32, f32) -> f32),
                ("average", |x, y| (x + y) / 2.0),
                ("min", f32::min),
                ("max", f32::max),
            ] {
                let kernel = kernel(&cpu, &tables, aggregate).unwrap();
                assert!(kernel.bytes() > 0 && (0..6).all(|operand| kernel.reads(operand)));
                for count in [1usize, 3, 7, 40, 700] {
                    let x: Vec<f32> = (0..count).flat_map(|row| rows[row % 4]).collect();
                    let x = array(&cpu, &[count, 4], &x);
                    let x = cpu.cast(&x, dtype, true, RoundMode::default()).unwrap();
                    let y = run(&cpu, &kernel, &x, &tables).unwrap();
                    let y = cpu.cast(&y, DataType::F32, true, RoundMode::default()).unwrap();
                    let second = [100.0, 0.0];
                    let want: Vec<f32> = (0..count)
                        .flat_map(|row| [0, 1].map(|target| with(first[row % 4][target], second[target])))
                        .collect();
                    assert_eq!(cpu.to_host(&y).unwrap().as_slice::<f32>().unwrap(), want, "{aggregate}");
                }
            }
        }
    }

    #[test]
    fn rows_without_a_column_are_refused_as_by_the_operation() {
        let cpu = Cpu::new();
        let tables = tables(&cpu, DataType::F32);
        let kernel = kernel(&cpu, &tables, "sum").unwrap();
        let x = array(&cpu, &[1, 2], &[1f32, 2.0]);
        let [nodes, thresholds, roots, weights] = &tables;
        let options = TreeEnsembleOptions { modes: &[0], missing: true, aggregate: "sum" };
        let alone = bb::ext::Extended::declining(&cpu)
            .tree_ensemble(&x, nodes, thresholds, roots, weights, None, 2, options);
        let prepared = run(&cpu, &kernel, &x, &tables);
        assert_eq!(prepared.unwrap_err().to_string(), alone.unwrap_err().to_string());
        // With no rows, the kernel walks no tree.
        let none = run(&cpu, &kernel, &array::<f32>(&cpu, &[0, 4], &[]), &tables).unwrap();
        assert_eq!(none.shape(), [0, 2]);
    }

    #[test]
    fn tests_that_have_no_order_are_not_prepared() {
        let cpu = Cpu::new();
        let mut tables = tables(&cpu, DataType::F32);
        assert!(kernel(&cpu, &tables, "median").is_none());
        tables[0] = array(&cpu, &[2, 4], &[3i32, 0, 1, 4, 1, 8, 2, 9]);
        assert!(kernel(&cpu, &tables, "sum").is_none());
    }
}
