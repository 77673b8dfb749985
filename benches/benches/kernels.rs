//! The CPU backend's kernels beside ndarray's, for two sizes: one that fits a cache, one that does not.
#![expect(clippy::expect_used, reason = "a benchmark stops where it cannot go on")]

use bb::{Backend, TensorData};
use bb_benches::{compare, subject};
use bb_cpu::{Array, Cpu};
use ndarray::{Array2, Axis};

fn main() {
    let cpu = Cpu::new();
    for side in [256, 1024] {
        elements(&cpu, side);
    }
    for side in [64, 256, 1024] {
        let (a, x) = square(&cpu, side);
        compare(
            &format!("matmul {side}x{side}"),
            vec![subject("cpu", || cpu.matmul(&a, &a)), subject("ndarray", || x.dot(&x))],
        );
    }
}

/// Returns the same numbers, between -1 and 1, as both kinds of array.
fn square(cpu: &Cpu, side: usize) -> (Array, Array2<f32>) {
    let numbers: Vec<f32> = (0..side * side).map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0).collect();
    let host = TensorData::new(&[side, side], &numbers).expect("a square");
    let array = Array2::from_shape_vec((side, side), numbers).expect("a square");
    (cpu.constant(&host).expect("constant"), array)
}

fn elements(cpu: &Cpu, side: usize) {
    let (a, x) = square(cpu, side);
    let (b, y) = square(cpu, side);
    let row = cpu.slice(&b, &[0], &[1], &[0], &[1]).expect("a row");
    let column = cpu.slice(&b, &[0], &[1], &[1], &[1]).expect("a column");
    let n = side * side;
    let title = |op: &str| format!("{op}, {n} elements");
    compare(&title("add"), vec![subject("cpu", || cpu.add(&a, &b)), subject("ndarray", || &x + &y)]);
    compare(&title("mul"), vec![subject("cpu", || cpu.mul(&a, &b)), subject("ndarray", || &x * &y)]);
    compare(
        &title("add a row"),
        vec![subject("cpu", || cpu.add(&a, &row)), subject("ndarray", || &x + &y.row(0))],
    );
    compare(
        &title("add a column"),
        vec![
            subject("cpu", || cpu.add(&a, &column)),
            subject("ndarray", || &x + &y.column(0).insert_axis(Axis(1))),
        ],
    );
    compare(&title("exp"), vec![subject("cpu", || cpu.exp(&a)), subject("ndarray", || x.mapv(f32::exp))]);
    compare(
        &title("sum of all"),
        vec![subject("cpu", || cpu.reduce_sum(&a, &[], false)), subject("ndarray", || x.sum())],
    );
    for (axis, name) in [(1, "sum of rows"), (0, "sum of columns")] {
        compare(
            &title(name),
            vec![
                subject("cpu", || cpu.reduce_sum(&a, &[axis], false)),
                subject("ndarray", || x.sum_axis(Axis(axis as usize))),
            ],
        );
    }
    // A reshape to one dimension is where a transposed view has to be copied.
    compare(
        &title("transpose"),
        vec![
            subject("cpu", || cpu.reshape(&cpu.transpose(&a, &[]).expect("a view"), &[n])),
            subject("ndarray", || x.t().as_standard_layout().into_owned()),
        ],
    );
    compare(
        &title("greater"),
        vec![
            subject("cpu", || cpu.greater(&a, &b)),
            subject("ndarray", || ndarray::Zip::from(&x).and(&y).map_collect(|a, b| a > b)),
        ],
    );
}
