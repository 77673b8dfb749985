//! Compares programs of element-wise functions with the separate functions, computed in `f64` on the
//! host.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ext::Scalar;
use bb::ext::scalar::{Function, lines};
use bb::ir::convert::{bf16_from_f64, f16_from_f64};
use bb::{Backend, DataType, Tensor, TensorData, bf16, f16};
use bb_cpu::{Array, Cpu};

fn array(cpu: &Cpu, shape: &[usize], seed: usize) -> Array {
    let n = shape.iter().product();
    let numbers: Vec<f32> =
        (0..n).map(|i| (((i + seed) * 7919 + 13 * seed) % 2003) as f32 / 1001.5 + 0.01).collect();
    cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap()
}

fn value(function: Function, a: f64, b: f64) -> f64 {
    match function {
        Function::Add => a + b,
        Function::Sub => a - b,
        Function::Mul => a * b,
        Function::Div => a / b,
        Function::Maximum => a.max(b),
        Function::Minimum => a.min(b),
        Function::Neg => -a,
        Function::Abs => a.abs(),
        Function::Sqrt => a.sqrt(),
        Function::Exp => a.exp(),
        Function::Log => a.ln(),
        Function::Tanh => a.tanh(),
        Function::Sigmoid => 1.0 / (1.0 + (-a).exp()),
        Function::Erf => libm::erf(a),
        Function::Relu => a.max(0.0),
        Function::F32 | Function::F16 | Function::Bf16 => a,
        other => panic!("{other:?} has no definition here"),
    }
}

/// Rounds a number to an element type.
fn rounded(dtype: DataType, v: f64) -> f64 {
    match dtype {
        DataType::F16 => f16_from_f64(v).to_f64(),
        DataType::BF16 => bf16_from_f64(v).to_f64(),
        _ => f64::from(v as f32),
    }
}

fn numbers(x: &TensorData) -> Vec<f64> {
    match x.dtype() {
        DataType::F16 => x.as_slice::<f16>().unwrap().iter().map(|v| v.to_f64()).collect(),
        DataType::BF16 => x.as_slice::<bf16>().unwrap().iter().map(|v| v.to_f64()).collect(),
        _ => x.as_slice::<f32>().unwrap().iter().map(|&v| f64::from(v)).collect(),
    }
}

/// Computes a program for tensors that broadcast to this shape, element by element. Each line rounds
/// to its type.
fn expected(cpu: &Cpu, xs: &[&Array], program: &[i64], shape: &[usize]) -> Vec<f64> {
    let hosts: Vec<(TensorData, Vec<f64>)> = xs
        .iter()
        .map(|x| cpu.to_host(x).unwrap())
        .map(|host| {
            let numbers = numbers(&host);
            (host, numbers)
        })
        .collect();
    let lines = lines(program, xs.len()).unwrap();
    let count: usize = shape.iter().product();
    let index = |at: usize| -> Vec<usize> {
        let mut left = at;
        let mut index: Vec<usize> = shape.iter().rev().map(|&e| (left % e, left /= e).0).collect();
        index.reverse();
        index
    };
    let element = |(x, numbers): &(TensorData, Vec<f64>), index: &[usize]| {
        let own = &index[index.len() - x.shape().len()..];
        let at = x.shape().iter().zip(own).fold(0, |at, (&e, &i)| at * e + if e == 1 { 0 } else { i });
        numbers[at]
    };
    (0..count)
        .map(|at| {
            let mut known: Vec<f64> = hosts.iter().map(|x| element(x, &index(at))).collect();
            let mut types: Vec<DataType> = xs.iter().map(|x| x.dtype()).collect();
            for line in &lines {
                let [a, b] = line.operands;
                types.push(line.function.converts_to().unwrap_or(types[a]));
                known.push(rounded(*types.last().unwrap(), value(line.function, known[a], known[b])));
            }
            *known.last().unwrap()
        })
        .collect()
}

fn check(cpu: &Cpu, xs: &[&Array], program: &[i64], shape: &[usize]) {
    let got = cpu.fused(xs, program).unwrap();
    assert_eq!(got.shape(), shape);
    let got = cpu.to_host(&got).unwrap();
    // A plan may contain the separate functions or the program, so both must give the same bits.
    let apart = cpu.to_host(&bb::ext::Extended::declining(cpu).fused(xs, program).unwrap()).unwrap();
    assert_eq!(got, apart, "{program:?} of {shape:?}");
    let want = expected(cpu, xs, program, shape);
    for (i, (&g, &w)) in numbers(&got).iter().zip(&want).enumerate() {
        let same = g == w || (g.is_nan() && w.is_nan());
        let near = same || (g - w).abs() <= 2e-6 * w.abs().max(1.0);
        assert!(near, "{program:?} of {shape:?}: element {i} is {g}, expected {w}");
    }
}

/// `x * min(max(x + a, b), c) / c`, a hard swish.
const HARD_SWISH: [i64; 15] = [0, 0, 1, 4, 4, 2, 5, 5, 3, 2, 0, 6, 3, 7, 3];

#[test]
fn layouts() {
    let cpu = Cpu::new();
    let one = |seed| array(&cpu, &[], seed);
    for shape in
        [&[1usize][..], &[7], &[8], &[511], &[513], &[3, 200], &[2, 3, 40], &[2, 3, 5, 4], &[0, 8], &[]]
    {
        let x = array(&cpu, shape, 1);
        check(&cpu, &[&x, &one(2), &one(3), &one(4)], &HARD_SWISH, shape);
    }
    // Operands that broadcast along rows, columns and channels.
    let x = array(&cpu, &[2, 3, 40, 9], 1);
    for others in [&[9usize][..], &[40, 1], &[3, 1, 1], &[2, 1, 1, 9], &[1, 1, 1, 1]] {
        let y = array(&cpu, others, 2);
        check(&cpu, &[&x, &y, &one(3), &one(4)], &HARD_SWISH, &[2, 3, 40, 9]);
    }
    // A transposed and a sliced operand, and operands that are all smaller than the result.
    let t = cpu.transpose(&array(&cpu, &[30, 20], 5), &[1, 0]).unwrap();
    check(&cpu, &[&t, &array(&cpu, &[20, 30], 6), &one(3), &one(4)], &HARD_SWISH, &[20, 30]);
    let s = cpu.slice(&array(&cpu, &[64], 5), &[1], &[64], &[0], &[2]).unwrap();
    check(&cpu, &[&s, &one(2), &one(3), &one(4)], &HARD_SWISH, &[32]);
    check(&cpu, &[&array(&cpu, &[20, 1], 1), &array(&cpu, &[1, 30], 2)], &[0, 0, 1, 9, 2], &[20, 30]);
}

/// `relu(x * a + b)`.
const SCALED: [i64; 8] = [2, 0, 1, 0, 3, 2, 14, 4];

#[test]
fn blocks_begin_and_end_within_rows() {
    let cpu = Cpu::new();
    for (shape, channels) in [
        (&[2usize, 7, 7, 7][..], &[7usize, 1, 1][..]),
        (&[1, 300, 2], &[300, 1]),
        (&[3, 5, 700], &[5, 1]),
        (&[9, 130, 3], &[3]),
        (&[700, 6], &[6]),
        (&[5, 511], &[511]),
        (&[4, 513], &[513]),
        (&[2, 64, 3, 5], &[2, 1, 3, 1]),
    ] {
        let (a, b) = (array(&cpu, channels, 2), array(&cpu, channels, 3));
        check(&cpu, &[&array(&cpu, shape, 1), &a, &b], &SCALED, shape);
        // The first operand has another memory order.
        let mut backwards: Vec<usize> = shape.to_vec();
        backwards.reverse();
        let perm: Vec<i64> = (0..shape.len() as i64).rev().collect();
        let turned = cpu.transpose(&array(&cpu, &backwards, 1), &perm).unwrap();
        check(&cpu, &[&turned, &a, &b], &SCALED, shape);
    }
}

#[test]
fn halves_are_rounded_line_by_line() {
    let cpu = Cpu::new();
    let [f32s, f16s, bf16s] = [15, 16, 17];
    for (dtype, own) in [(DataType::F16, f16s), (DataType::BF16, bf16s)] {
        let of = |x: Array| cpu.cast(&x, dtype, true, bb::RoundMode::Up).unwrap();
        let x = of(array(&cpu, &[2, 6, 7, 11], 1));
        let others = [of(array(&cpu, &[6, 1, 1], 2)), of(array(&cpu, &[], 3))];
        // All operands have 16 bits and different shapes.
        check(&cpu, &[&x, &others[0], &others[1]], &SCALED, &[2, 6, 7, 11]);
        let turned = cpu.transpose(&of(array(&cpu, &[11, 7, 6, 2], 1)), &[3, 2, 1, 0]).unwrap();
        check(&cpu, &[&turned, &others[0], &others[1]], &SCALED, &[2, 6, 7, 11]);
        // Two operands repeat a number for a row of several blocks.
        let rows = of(array(&cpu, &[2, 3, 1300], 1));
        let numbers = [of(array(&cpu, &[3, 1], 2)), of(array(&cpu, &[3, 1], 9))];
        check(&cpu, &[&rows, &numbers[0], &numbers[1]], &SCALED, &[2, 3, 1300]);
        // Operands that are widened, scaled by 32-bit numbers, and rounded once at the end; or
        // rounded in the middle.
        let wide = [array(&cpu, &[6, 1, 1], 2), array(&cpu, &[], 3)];
        let ends = [f32s, 0, 2, 3, 1, 0, 4, 2, own, 5];
        check(&cpu, &[&x, &wide[0], &wide[1]], &ends, &[2, 6, 7, 11]);
        let middle = [f32s, 0, 2, 3, 1, own, 4, 6, 5, f32s, 6, 0, 7, 2];
        check(&cpu, &[&x, &wide[0], &wide[1]], &middle, &[2, 6, 7, 11]);
        // Only conversions. The last conversion changes nothing.
        check(&cpu, &[&x], &[f32s, 0], &[2, 6, 7, 11]);
        check(&cpu, &[&x], &[own, 0], &[2, 6, 7, 11]);
        check(&cpu, &[&x], &[own, 0, f32s, 1], &[2, 6, 7, 11]);
        check(&cpu, &[&array(&cpu, &[1000], 7)], &[own, 0, f32s, 1, f16s, 2, bf16s, 3], &[1000]);
        // The operands of a line must have the same type, as for the separate function.
        assert!(cpu.fused(&[&x, &wide[1]], &[0, 0, 1]).is_err());
    }
}

#[test]
fn every_function() {
    let cpu = Cpu::new();
    let (a, b) = (array(&cpu, &[5, 117], 1), array(&cpu, &[5, 117], 9));
    for code in 0..18 {
        let arity = if code < 6 { 2 } else { 1 };
        // Put the function between two other lines, so that it reads and writes registers.
        let mut program = vec![7, 0, code, 2];
        program.extend((arity == 2).then_some(1));
        program.extend([7, 3]);
        check(&cpu, &[&a, &b], &program, &[5, 117]);
    }
    assert!(matches!(lines(&[18, 0], 1), Err(bb::Error::Operator { .. })));
}

#[test]
fn pairs_of_functions() {
    let cpu = Cpu::new();
    let x = |seed| cpu.sub(&array(&cpu, &[3, 211], seed), &array(&cpu, &[], 4)).unwrap();
    let (a, b, c) = (x(1), x(9), x(23));
    for (first, second) in (0..36).map(|i| (i / 6, i % 6)) {
        // The second line reads the result of the first as its first operand, as its second operand,
        // and twice; and a later line reads it again.
        for (program, tensors) in [
            (vec![first, 0, 1, second, 3, 2], 3),
            (vec![first, 0, 1, second, 2, 3], 3),
            (vec![first, 0, 1, second, 2, 2], 2),
            (vec![first, 0, 1, second, 3, 2, 0, 4, 3], 3),
            (vec![first, 0, 1, second, 3, 0, second, 4, 2, first, 5, 1], 3),
        ] {
            check(&cpu, &[&a, &b, &c][..tensors], &program, &[3, 211]);
        }
    }
}

#[test]
fn long_programs_reuse_registers() {
    let cpu = Cpu::new();
    let x = array(&cpu, &[1000], 1);
    // A chain, whose results are read once, and a tree, whose results are read at the end.
    let chain: Vec<i64> = (0..40).flat_map(|i| [6, i]).collect();
    check(&cpu, &[&x], &chain, &[1000]);
    let mut tree: Vec<i64> = (0..20).flat_map(|_| [12, 0]).collect();
    for i in 0..19 {
        tree.extend([0, if i == 0 { 1 } else { 20 + i }, i + 2]);
    }
    check(&cpu, &[&x], &tree, &[1000]);
}

#[test]
fn what_is_no_program_is_refused() {
    let cpu = Cpu::new();
    let x = array(&cpu, &[4], 1);
    for program in [&[][..], &[99, 0], &[0, 0], &[6, 1], &[6, -1], &[6]] {
        assert!(cpu.fused(&[&x], program).is_err(), "{program:?}");
    }
    assert!(cpu.fused(&[], &[6, 0]).is_err());
    let wide = cpu.cast(&x, DataType::F64, true, bb::RoundMode::Up).unwrap();
    assert_eq!(cpu.fused(&[&wide], &[6, 0]).unwrap().dtype(), DataType::F64);
    assert!(cpu.fused(&[&x, &wide], &[0, 0, 1]).is_err());
    assert!(cpu.fused(&[&x, &array(&cpu, &[3], 1)], &[0, 0, 1]).is_err());
    // The result has the shape of the tensors that it depends on.
    assert_eq!(cpu.fused(&[&x, &array(&cpu, &[9, 4], 1)], &[6, 0]).unwrap().shape(), [4]);
}
