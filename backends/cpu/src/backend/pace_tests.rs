//! Tests that every kernel checks often enough whether its run must end, and that it leaves nothing behind if it ends
//! early.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::pace::LOOKS;
use crate::threads;
use bb::ext::{
    AttentionOptions, ConvOptions, Index, LayerNormalizationOptions, Llm, MaxPoolOptions, Nn, Scalar,
    ScatterReduction,
};
use bb::{Backend, CancelToken, DataType, Element, Error, RoundMode, RunOptions, Tensor, TensorData};

/// The number of elements of a large operand.
const LARGE: usize = 1 << 23;
/// The maximum work of a kernel between two checks, in elements of a cheap operation or in multiplications of floats.
const BETWEEN: usize = 1 << 24;

type Run = Box<dyn Fn(&Cpu) -> Result<Array>>;

/// A call and its cost.
struct PacedCall {
    name: &'static str,
    work: usize,
    call: Run,
}

fn call(name: &'static str, work: usize, call: impl Fn(&Cpu) -> Result<Array> + 'static) -> PacedCall {
    PacedCall { name, work, call: Box::new(call) }
}

/// Returns a tensor whose elements all equal `value`.
fn full<T: Element>(cpu: &Cpu, shape: &[usize], value: T) -> Array {
    let elements = vec![value; shape.iter().product()];
    TensorData::new(shape, &elements)
        .map_err(CpuError::from)
        .and_then(|x| cpu.constant(&x))
        .expect("a tensor")
}

/// Returns a tensor of floats whose sums need rounding.
fn varied(cpu: &Cpu, shape: &[usize]) -> Array {
    let count: usize = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|i| (i.wrapping_mul(7919) % 1009) as f32 / 333.0 - 1.0).collect();
    TensorData::new(shape, &elements)
        .map_err(CpuError::from)
        .and_then(|x| cpu.constant(&x))
        .expect("a tensor")
}

fn cast(cpu: &Cpu, x: &Array, to: DataType) -> Result<Array> {
    cpu.cast(x, to, true, RoundMode::Up)
}

fn elementwise(cpu: &Cpu) -> Vec<PacedCall> {
    let x = varied(cpu, &[LARGE * 2]);
    let [halves, doubles] = [DataType::F16, DataType::F64].map(|to| cast(cpu, &x, to).expect("a cast"));
    let column = varied(cpu, &[LARGE / 4, 1]);
    let planes = varied(cpu, &[LARGE / 64, 1, 4, 1, 4]);
    let row = varied(cpu, &[1, 4, 1, 4, 1]);
    let ints = full(cpu, &[LARGE], 3i64);
    let [a, b, c, d] = std::array::from_fn(|_| x.clone());
    vec![
        call("add", LARGE * 2, move |cpu| cpu.add(&a, &a)),
        call("add with broadcasting", LARGE * 2, move |cpu| cpu.add(&column, &varied(cpu, &[8]))),
        call("add of small planes", LARGE * 2, move |cpu| cpu.add(&planes, &row)),
        call("exp", LARGE * 2, move |cpu| cpu.exp(&b)),
        call("floor", LARGE * 2, move |cpu| cpu.floor(&c)),
        call("sin of halves", LARGE * 2, move |cpu| cpu.sin(&halves)),
        call("sin", LARGE * 2, move |cpu| cpu.sin(&doubles)),
        call("cast", LARGE * 2, move |cpu| cast(cpu, &d, DataType::I32)),
        call("pow of integers", LARGE, move |cpu| cpu.pow(&ints, &full(cpu, &[1], 3i64))),
    ]
}

fn movement(cpu: &Cpu) -> Vec<PacedCall> {
    let x = varied(cpu, &[2, LARGE]);
    let [a, b, c] = std::array::from_fn(|_| x.clone());
    let indices = full(cpu, &[LARGE], 1i64);
    let words = TensorData::strings(&[LARGE / 8], &vec!["1.5"; LARGE / 8]).expect("strings");
    let words = cpu.constant(&words).expect("strings");
    let same = words.clone();
    let copied = |cpu: &Cpu, x: &Array, perm: &[i64]| {
        let turned = cpu.transpose(x, perm)?;
        cpu.concat(&[&turned, &turned], 0)
    };
    vec![
        call("concat", LARGE * 2, move |cpu| cpu.concat(&[&a, &a], 1)),
        call("transpose of long rows", LARGE * 2, move |cpu| copied(cpu, &b, &[1, 0])),
        call("transpose of a square", LARGE, move |cpu| copied(cpu, &varied(cpu, &[2048, 4096]), &[1, 0])),
        call("gather of elements", LARGE, move |cpu| cpu.gather(&c, &indices, 1)),
        call("gather of rows", LARGE, |cpu| {
            cpu.gather(&varied(cpu, &[4, 4096]), &full(cpu, &[LARGE / 4096], 3i64), 0)
        }),
        call("gather of slices", LARGE * 2, |cpu| {
            cpu.gather_nd(&varied(cpu, &[4, LARGE / 256]), &full(cpu, &[512, 1], 3i64), 0)
        }),
        call("scatter of slices", LARGE * 2, |cpu| {
            let updates = varied(cpu, &[512, LARGE / 256]);
            cpu.scatter_nd(
                &varied(cpu, &[4, LARGE / 256]),
                &full(cpu, &[512, 1], 3i64),
                &updates,
                ScatterReduction::Add,
            )
        }),
        call("gather_elements", LARGE, |cpu| {
            cpu.gather_elements(&varied(cpu, &[8, LARGE / 8]), &full(cpu, &[8, LARGE / 8], 1i64), 1)
        }),
        call("equal of strings", LARGE * 2, move |cpu| cpu.equal(&words, &words)),
        call("numbers of strings", LARGE * 2, move |cpu| cast(cpu, &same, DataType::F32)),
    ]
}

fn reductions(cpu: &Cpu) -> Vec<PacedCall> {
    let x = varied(cpu, &[LARGE * 2]);
    let halves = cast(cpu, &x, DataType::F16).expect("a cast");
    let ints = full(cpu, &[LARGE * 2], 3i32);
    let sum = |name, shape: &'static [usize], axes: &'static [i64]| {
        let x = x.clone();
        call(name, LARGE * 2, move |cpu| cpu.reduce_sum(&cpu.reshape(&x, shape)?, axes, false))
    };
    let (narrow, whole) = (halves.clone(), ints.clone());
    vec![
        sum("sum of all", &[LARGE * 2], &[0]),
        sum("sums of rows", &[LARGE / 32, 64], &[1]),
        sum("sums of few columns", &[LARGE / 2, 4], &[0]),
        sum("sums of columns", &[2048, LARGE / 1024], &[0]),
        sum("sums over two dimensions", &[16, 64, LARGE / 512], &[0, 2]),
        call("sum of every second", LARGE, {
            let x = x.clone();
            move |cpu| cpu.reduce_sum(&cpu.slice(&x, &[0], &[i64::MAX], &[0], &[2])?, &[0], false)
        }),
        call("sum of halves", LARGE * 2, move |cpu| cpu.reduce_sum(&narrow, &[0], false)),
        call("maximum of integers", LARGE * 2, move |cpu| cpu.reduce_max(&whole, &[0], false)),
    ]
}

fn products(_: &Cpu) -> Vec<PacedCall> {
    type Make = fn(&Cpu, &[usize]) -> Array;
    fn product(name: &'static str, [m, k, n]: [usize; 3], make: Make) -> PacedCall {
        call(name, m * k * n, move |cpu| cpu.matmul(&make(cpu, &[m, k]), &make(cpu, &[k, n])))
    }
    let halves: Make = |cpu, shape| cast(cpu, &varied(cpu, shape), DataType::F16).expect("a cast");
    let ints: Make = |cpu, shape| full(cpu, shape, 3i64);
    vec![
        product("a square product", [512; 3], varied),
        product("a square product of integers", [256; 3], ints),
        product("a square product of halves", [256; 3], halves),
        product("a row times a matrix", [1, 2048, 8192], varied),
        product("a matrix times a column", [8192, 2048, 1], varied),
        product("a long inner dimension", [4, LARGE / 8, 4], varied),
        product("a short inner dimension", [2048, 2, 4096], varied),
        call("many small products", LARGE * 4, |cpu| {
            cpu.matmul(&varied(cpu, &[LARGE / 128, 8, 8]), &varied(cpu, &[8, 8]))
        }),
    ]
}

fn rows_and_windows(cpu: &Cpu) -> Vec<PacedCall> {
    let row = varied(cpu, &[LARGE * 2]);
    let [a, b, c] = std::array::from_fn(|_| row.clone());
    let image = varied(cpu, &[1, 4, 512, 512]);
    let (pooled, deep) = (image.clone(), image.clone());
    vec![
        call("softmax of one row", LARGE * 2, move |cpu| cpu.softmax(&a, -1)),
        call("softmax of short rows", LARGE * 2, move |cpu| {
            cpu.softmax(&cpu.reshape(&b, &[LARGE / 8, 16])?, -1)
        }),
        call("layer_normalization of one row", LARGE * 2, {
            let row = row.clone();
            move |cpu| cpu.layer_normalization(&row, &row, None, LayerNormalizationOptions::default())
        }),
        call("rms_normalization of one row", LARGE * 2, move |cpu| cpu.rms_normalization(&c, &c, -1, 1e-5)),
        call("attention", 2 * 512 * 512 * 128, |cpu| {
            let of = || varied(cpu, &[1, 2, 512, 64]);
            cpu.attention(&of(), &of(), &of(), None, AttentionOptions::default())
        }),
        call("cum_sum", LARGE * 2, {
            let row = row.clone();
            move |cpu| cpu.cum_sum(&row, 0, false, false)
        }),
        call("arg_max", LARGE * 2, {
            let row = row.clone();
            move |cpu| cpu.arg_max(&row, 0, false)
        }),
        call("max_pool", 4 * 508 * 508 * 25, move |cpu| {
            cpu.max_pool(&pooled, &[5, 5], MaxPoolOptions::default())
        }),
        call("conv", 512 * 512 * 4 * 9 * 8, move |cpu| {
            let options = ConvOptions { pads: &[1; 4], ..ConvOptions::default() };
            cpu.conv(&image, &varied(cpu, &[8, 4, 3, 3]), None, options)
        }),
        call("conv of each channel", 512 * 512 * 4 * 9, move |cpu| {
            let options = ConvOptions { pads: &[1; 4], group: 4, ..ConvOptions::default() };
            cpu.conv(&deep, &varied(cpu, &[4, 1, 3, 3]), None, options)
        }),
    ]
}

/// Calls `check` with every call. The operands of one group of calls are dropped before the next group.
fn each_call(cpu: &Cpu, check: impl Fn(&PacedCall)) {
    for calls in [elementwise, movement, reductions, products, rows_and_windows] {
        calls(cpu).iter().for_each(&check);
    }
}

fn bits(cpu: &Cpu, x: &Array) -> TensorData {
    cpu.to_host(x).expect("a host tensor")
}

#[test]
fn kernels_look_as_often_as_they_promise() {
    let cpu = Cpu::builder().threads(1).build().expect("a thread");
    each_call(&cpu, |PacedCall { name, work, call }| {
        LOOKS.set(0);
        assert!(call(&cpu).is_ok(), "{name}");
        let looks = LOOKS.get();
        assert!((looks + 1).saturating_mul(BETWEEN) >= *work, "{name}: {looks} looks for {work} elements");
    });
}

#[test]
fn a_kernel_that_ended_leaves_nothing_behind() {
    for threads in [1, 3] {
        let cpu = Cpu::builder().threads(threads).build().expect("threads");
        each_call(&cpu, |PacedCall { name, call, .. }| {
            let token = CancelToken::new();
            token.cancel();
            let ended = RunOptions::default().with_cancel(&token).within(|| call(&cpu));
            // The share of each thread may be too small for a check, so the call may also succeed.
            let done = threads > 1 && ended.is_ok();
            assert!(
                done || matches!(ended, Err(CpuError::Bb(Error::Cancelled))),
                "{name} on {threads} threads"
            );
            let (first, second) = (call(&cpu).expect("a result"), call(&cpu).expect("a result"));
            assert_eq!(
                bits(&cpu, &first).bytes().expect("elements"),
                bits(&cpu, &second).bytes().expect("elements"),
                "{name}"
            );
        });
    }
}

#[test]
fn threads_change_no_bit() {
    let cpu = Cpu::builder().threads(1).build().expect("a thread");
    each_call(&cpu, |PacedCall { name, call, .. }| {
        let [one, many] =
            [1, 7].map(|threads| bits(&cpu, &threads::as_if(threads, || call(&cpu)).expect("a result")));
        assert_eq!(one.bytes().expect("elements"), many.bytes().expect("elements"), "{name}");
    });
}

#[test]
fn another_thread_ends_a_product() {
    let cpu = Cpu::builder().threads(2).build().expect("threads");
    let x = full(&cpu, &[768, 768], 1f32);
    let token = CancelToken::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            token.cancel();
        });
        RunOptions::default().with_cancel(&token).within(|| {
            loop {
                match cpu.matmul(&x, &x) {
                    Ok(product) => assert_eq!(product.shape(), [768, 768]),
                    Err(error) => break assert!(matches!(error, CpuError::Bb(Error::Cancelled))),
                }
            }
        });
    });
    let product = bits(&cpu, &cpu.matmul(&x, &x).expect("a product"));
    assert!(product.as_slice::<f32>().expect("floats").iter().all(|&x| x == 768.0));
}

#[test]
fn more_threads_than_a_machine_may_have_are_refused() {
    for threads in [0, bb::most_threads() + 1, usize::MAX] {
        assert!(matches!(
            Cpu::builder().threads(threads).build(),
            Err(CpuError::Bb(bb::Error::ThreadCount { got, .. })) if got == threads
        ));
    }
}
