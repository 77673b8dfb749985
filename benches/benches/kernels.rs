//! Compares the CPU backend's kernels with ndarray's, candle's and NumPy's, for a size that fits a cache and
//! for one that does not.
//!
//! Each operation is called as users call it, and allocates its result. Everything is measured with one thread and then with all threads,
//! each time in a new process, because `RAYON_NUM_THREADS` sets the number of threads of `bb` and candle. ndarray and NumPy always use one
//! thread here. In all four libraries, a transposition is a view that copies nothing, so the measured operation also makes the elements
//! contiguous.
#![expect(clippy::expect_used, reason = "a benchmark stops where it cannot go on")]

use bb::{Backend, TensorData};
use bb_benches::{NumPy, asked, compare, subject, timed};
use bb_cpu::{Array, Cpu};
use candle_core::{Device, Tensor};
use ndarray::{Array2, Axis};
use std::process::Command;

/// The variable that sets the number of threads of `bb` and candle.
const THREADS: &str = "RAYON_NUM_THREADS";

fn main() {
    if std::env::var_os(THREADS).is_some() {
        return measure();
    }
    let this = std::env::current_exe().expect("this program");
    for threads in [1, rayon::current_num_threads()] {
        let run =
            Command::new(&this).args(std::env::args_os().skip(1)).env(THREADS, threads.to_string()).status();
        assert!(run.is_ok_and(|status| status.success()), "the measurement failed");
    }
}

fn measure() {
    let cpu = Cpu::new();
    let numpy = NumPy::start();
    let mut rows = Vec::new();
    for side in [256, 1024] {
        let squares = Squares::new(&cpu, side);
        for operation in OPERATIONS {
            let title = format!("{}, {} elements", operation.name, side * side);
            if asked(&title) {
                let times = squares.compare(&title, operation, numpy.as_ref());
                rows.push((title, times));
            }
        }
        broadcasts(&squares);
    }
    table(&rows, numpy.as_ref());
}

/// Prints the times of the other libraries relative to the time of `bb`.
fn table(rows: &[(String, Vec<f64>)], numpy: Option<&NumPy>) {
    println!("\n{} thread(s): time over that of bb (1 or more: bb is as fast)", rayon::current_num_threads());
    println!("{:32} {:>9} {:>8} {:>8} {:>8}", "", "bb", "ndarray", "candle", "NumPy");
    for (title, times) in rows {
        let [bb, others @ ..] = times.as_slice() else { continue };
        print!("{title:32} {:>7.1}µs", bb * 1e6);
        others.iter().for_each(|time| print!(" {:>8.2}", time / bb));
        println!();
    }
    match numpy {
        Some(numpy) => println!("NumPy {}\n", numpy.version()),
        None => {
            println!("NumPy is left out: the environment variable BB_PYTHON names no Python that has it\n")
        }
    }
}

/// The same numbers between -1 and 1 as arrays of each library.
struct Squares<'a> {
    side: usize,
    cpu: &'a Cpu,
    a: Array,
    b: Array,
    x: Array2<f32>,
    y: Array2<f32>,
    t: Tensor,
    u: Tensor,
}

/// A measured operation; NumPy's script has it under the same name.
struct Operation {
    name: &'static str,
    bb: fn(&Squares<'_>) -> Array,
    ndarray: fn(&Squares<'_>) -> Array2<f32>,
    candle: fn(&Squares<'_>) -> candle_core::Result<Tensor>,
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "add",
        bb: |s| s.cpu.add(&s.a, &s.b).expect("one shape"),
        ndarray: |s| &s.x + &s.y,
        candle: |s| &s.t + &s.u,
    },
    Operation {
        name: "mul",
        bb: |s| s.cpu.mul(&s.a, &s.b).expect("one shape"),
        ndarray: |s| &s.x * &s.y,
        candle: |s| &s.t * &s.u,
    },
    Operation {
        name: "exp",
        bb: |s| s.cpu.exp(&s.a).expect("numbers"),
        ndarray: |s| s.x.mapv(f32::exp),
        candle: |s| s.t.exp(),
    },
    Operation {
        name: "sum of all",
        bb: |s| s.cpu.reduce_sum(&s.a, &[], false).expect("numbers"),
        ndarray: |s| Array2::from_elem((1, 1), s.x.sum()),
        candle: |s| s.t.sum_all(),
    },
    Operation {
        name: "sum of rows",
        bb: |s| s.cpu.reduce_sum(&s.a, &[1], false).expect("an axis"),
        ndarray: |s| s.x.sum_axis(Axis(1)).insert_axis(Axis(1)),
        candle: |s| s.t.sum(1),
    },
    Operation {
        name: "sum of columns",
        bb: |s| s.cpu.reduce_sum(&s.a, &[0], false).expect("an axis"),
        ndarray: |s| s.x.sum_axis(Axis(0)).insert_axis(Axis(0)),
        candle: |s| s.t.sum(0),
    },
    Operation {
        name: "transpose",
        // Reshaping a transposed view to one dimension copies it.
        bb: |s| {
            let view = s.cpu.transpose(&s.a, &[]).expect("a view");
            s.cpu.reshape(&view, &[s.side * s.side]).expect("as many elements")
        },
        ndarray: |s| s.x.t().as_standard_layout().into_owned(),
        candle: |s| s.t.t()?.contiguous(),
    },
];

impl<'a> Squares<'a> {
    fn new(cpu: &'a Cpu, side: usize) -> Self {
        let numbers: Vec<f32> = (0..side * side).map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0).collect();
        // The operands are results of an operation, as most operands are, so that they are in memory that the
        // backend allocated.
        let bb = || {
            let negative: Vec<f32> = numbers.iter().map(|x| -x).collect();
            let host = TensorData::new(&[side, side], &negative).expect("a square");
            cpu.neg(&cpu.constant(&host).expect("memory")).expect("numbers")
        };
        let ndarray = || Array2::from_shape_vec((side, side), numbers.clone()).expect("a square");
        let candle = || Tensor::from_vec(numbers.clone(), (side, side), &Device::Cpu).expect("a square");
        let (a, x, t) = (bb(), ndarray(), candle());
        Squares { side, cpu, a, b: bb(), x, y: ndarray(), t, u: candle() }
    }

    fn compare(&self, title: &str, operation: &Operation, numpy: Option<&NumPy>) -> Vec<f64> {
        let mut subjects = vec![
            subject("bb", || (operation.bb)(self)),
            subject("ndarray", || (operation.ndarray)(self)),
            subject("candle", || (operation.candle)(self)),
        ];
        if let Some(numpy) = numpy {
            subjects.push(timed("NumPy", |runs| numpy.time(operation.name, self.side, runs)));
        }
        compare(title, subjects)
    }
}

/// Compares operations on operands of two shapes, and operations whose result has another type, with
/// ndarray's.
fn broadcasts(Squares { side, cpu, a, b, x, y, .. }: &Squares<'_>) {
    let row = cpu.slice(b, &[0], &[1], &[0], &[1]).expect("a row");
    let column = cpu.slice(b, &[0], &[1], &[1], &[1]).expect("a column");
    let title = |op: &str| format!("{op}, {} elements", side * side);
    let measure = |op: &str, subjects| {
        if asked(&title(op)) {
            compare(&title(op), subjects);
        }
    };
    measure("add a row", vec![subject("bb", || cpu.add(a, &row)), subject("ndarray", || x + &y.row(0))]);
    measure(
        "add a column",
        vec![
            subject("bb", || cpu.add(a, &column)),
            subject("ndarray", || x + &y.column(0).insert_axis(Axis(1))),
        ],
    );
    measure(
        "greater",
        vec![
            subject("bb", || cpu.greater(a, b)),
            subject("ndarray", || ndarray::Zip::from(x).and(y).map_collect(|a, b| a > b)),
        ],
    );
}
