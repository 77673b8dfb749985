//! Tests that prepared convolutions equal their definition.

mod points;

use super::*;
use crate::level::{at, levels};
use crate::threads::as_if;
use bb::ext::{Nn, NnOp};
use bb::{KernelOperand, PrepareOperand, RoundMode};

fn array(cpu: &Cpu, shape: &[usize], dtype: DataType) -> Array {
    shifted(cpu, shape, dtype, 3)
}

fn shifted(cpu: &Cpu, shape: &[usize], dtype: DataType, by: usize) -> Array {
    let n: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| ((i * 7919 + by) % 2003) as f32 / 1001.5 - 1.0).collect();
    let x = cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap();
    cpu.cast(&x, dtype, true, RoundMode::Up).unwrap()
}

/// Prepares a convolution and runs it on an operand. Returns the results of the prepared kernel and of the operation itself.
fn both(
    dtype: DataType,
    [x, w]: [&[usize]; 2],
    bias: bool,
    [stride, group]: [i64; 2],
) -> Option<[Result<TensorData>; 2]> {
    let cpu = Cpu::new();
    let (x, w) = (array(&cpu, x, dtype), array(&cpu, w, dtype));
    let bias = bias.then(|| array(&cpu, &w.shape()[..1], dtype));
    let strides = vec![stride; x.shape().len() - 2];
    let params = [
        Param::Ints(strides.clone().into()),
        Param::Ints([][..].into()),
        Param::Ints([][..].into()),
        Param::Int(group),
    ];
    let varying = PrepareOperand::varying(dtype, x.shape().iter().map(|_| None), false);
    let constants = [Some(PrepareOperand::of_constant(&w)), bias.as_ref().map(PrepareOperand::of_constant)];
    let operands = std::iter::once(Some(varying)).chain(constants);
    let kernel = cpu.prepare(&PrepareStep::new(NnOp::Conv.spec(), &params, operands)).unwrap()?;
    assert!(!kernel.reads(1) && kernel.bytes() >= 4 * w.len());
    let given = [KernelOperand::Shared(&x), KernelOperand::Absent, KernelOperand::Absent];
    let options = ConvOptions { strides: &strides, group, ..ConvOptions::default() };
    let alone = cpu.conv(&x, &w, bias.as_ref(), options);
    let prepared = kernel.run(&cpu, &mut given.into_iter().collect()).map(|mut y| y.remove(0));
    Some([prepared, alone].map(|y| y.map(|y| cpu.to_host(&y).unwrap())))
}

#[test]
fn prepared_convolutions_have_the_bits_of_the_operation() {
    for dtype in [DataType::F16, DataType::BF16] {
        for (x, w, bias, group) in [
            (&[2usize, 6, 9, 10][..], &[8usize, 6, 3, 3][..], true, 1),
            (&[1, 6, 9, 10], &[8, 6, 1, 1], false, 1),
            (&[1, 6, 9, 10], &[6, 1, 3, 3], true, 6),
            (&[3, 4, 20], &[6, 2, 5], true, 2),
            (&[1, 2, 4, 5, 6], &[3, 2, 2, 2, 2], true, 1),
            (&[0, 6, 9, 10], &[8, 6, 3, 3], true, 1),
        ] {
            for stride in [1, 2] {
                let [prepared, alone] = both(dtype, [x, w], bias, [stride, group]).unwrap();
                assert_eq!(prepared.unwrap(), alone.unwrap(), "{dtype} {x:?} {w:?}");
            }
        }
    }
}

#[test]
fn what_the_operation_refuses_is_refused() {
    // A wrong number of channels, and a window that does not fit.
    for (x, w) in [(&[1usize, 5, 9, 10][..], &[8usize, 6, 3, 3][..]), (&[1, 6, 2, 2], &[8, 6, 3, 3])] {
        let [prepared, alone] = both(DataType::F16, [x, w], true, [1, 1]).unwrap();
        assert_eq!(prepared.unwrap_err().to_string(), alone.unwrap_err().to_string());
    }
}

/// Computes the convolution by its definition, with sums in `f64` over the windows.
fn defined(
    x: &TensorData,
    w: &TensorData,
    bias: &[f32],
    [top, left, bottom, right]: [i64; 4],
    stride: i64,
    groups: usize,
) -> Vec<f64> {
    let (&[n, c, height, width], &[m, depth, high, wide]) = (x.shape(), w.shape()) else { unreachable!() };
    let (x, w) = (x.as_slice::<f32>().unwrap(), w.as_slice::<f32>().unwrap());
    let rows = (height as i64 + top + bottom - high as i64) / stride + 1;
    let cols = (width as i64 + left + right - wide as i64) / stride + 1;
    let places = |high: i64, wide: i64| (0..high).flat_map(move |row| (0..wide).map(move |col| (row, col)));
    let mut results = Vec::new();
    for sample in 0..n {
        for filter in 0..m {
            for (row, col) in places(rows, cols) {
                let mut sum = bias.get(filter).copied().map_or(0.0, f64::from);
                for channel in 0..depth {
                    for (ky, kx) in places(high as i64, wide as i64) {
                        let (y, x_at) = (row * stride + ky - top, col * stride + kx - left);
                        if (0..height as i64).contains(&y) && (0..width as i64).contains(&x_at) {
                            let plane = sample * c + filter / (m / groups) * depth + channel;
                            let at = (plane * height + y as usize) * width + x_at as usize;
                            let of = ((filter * depth + channel) * high + ky as usize) * wide + kx as usize;
                            sum += f64::from(x[at]) * f64::from(w[of]);
                        }
                    }
                }
                results.push(sum);
            }
        }
    }
    results
}

#[test]
fn floats_are_not_prepared() {
    assert!(both(DataType::F32, [&[1, 6, 9, 10], &[8, 6, 3, 3]], true, [1, 1]).is_none());
}

#[test]
fn convolutions_of_few_windows_are_those_of_the_definition() {
    let cpu = Cpu::new();
    for ([n, c, height, width], [m, high, wide], stride, pads) in [
        ([1usize, 16, 7, 7], [32usize, 1, 1], 1i64, [0i64; 4]),
        ([3, 40, 7, 7], [70, 1, 1], 1, [0; 4]),
        ([1, 33, 16, 16], [96, 1, 1], 2, [0; 4]),
        ([1, 600, 1, 1], [130, 1, 1], 1, [0; 4]),
        ([2, 5, 9, 11], [100, 3, 2], 2, [1, 0, 2, 1]),
        ([1, 130, 5, 5], [97, 5, 5], 1, [2, 2, 2, 2]),
        ([2, 12, 16, 16], [96, 2, 2], 1, [0, 0, 1, 1]),
        ([0, 16, 7, 7], [32, 1, 1], 1, [0; 4]),
    ] {
        for with_bias in [false, true] {
            let (x_shape, w_shape) = ([n, c, height, width], [m, c, high, wide]);
            let (x, w) = (array(&cpu, &x_shape, DataType::F32), array(&cpu, &w_shape, DataType::F32));
            let bias = with_bias.then(|| array(&cpu, &[m], DataType::F32));
            let params =
                [[stride; 2].to_vec(), pads.to_vec(), Vec::new()].map(|list| Param::Ints(list.into()));
            let params: Vec<Param<'static>> = params.into_iter().chain([Param::Int(1)]).collect();
            let host = |x: &Array| cpu.to_host(x).unwrap();
            let plus = bias.as_ref().map(|bias| host(bias).as_slice::<f32>().unwrap().to_vec());
            // Inputs with the extents that the filters were packed for, and larger inputs.
            let given = [0, 20].map(|grown| {
                let x = match grown {
                    0 => x.clone(),
                    _ => array(&cpu, &[n, c, height + grown, width + grown], DataType::F32),
                };
                let plus = plus.as_deref().unwrap_or_default();
                let expected = defined(&host(&x), &host(&w), plus, pads, stride, 1);
                (x, expected)
            });
            for level in levels() {
                // The number of samples may be unknown.
                let extents = [None, Some(c), Some(height), Some(width)];
                let varying = PrepareOperand::varying(DataType::F32, extents, false);
                let constants =
                    [Some(PrepareOperand::of_constant(&w)), bias.as_ref().map(PrepareOperand::of_constant)];
                let operands = std::iter::once(Some(varying)).chain(constants);
                let step = PrepareStep::new(NnOp::Conv.spec(), &params, operands);
                let kernel = at(level, || cpu.prepare(&step)).unwrap().unwrap();
                assert!(!kernel.reads(1));
                for (x, expected) in &given {
                    let greatest = expected.iter().fold(0f64, |most, y| most.max(y.abs()));
                    let terms = (high * wide * c) as f64;
                    let bound = 2.0 * terms.sqrt() * f64::from(f32::EPSILON) * greatest;
                    let given = [KernelOperand::Shared(x), KernelOperand::Absent, KernelOperand::Absent];
                    let y = at(level, || kernel.run(&cpu, &mut given.into_iter().collect()));
                    let y = host(&y.unwrap().remove(0));
                    let y = y.as_slice::<f32>().unwrap();
                    assert_eq!(y.len(), expected.len());
                    for (place, (y, want)) in y.iter().zip(expected).enumerate() {
                        let error = (f64::from(*y) - want).abs();
                        assert!(error <= bound, "{y} at {place}, expected {want}: {error:e} > {bound:e}");
                    }
                }
            }
        }
    }
}

/// A convolution with a program: the shapes of input and filters, the stride, the padding of each end, the number of groups, and the
/// shapes of the program's other tensors.
struct Fused<'a> {
    x: &'a [usize],
    w: &'a [usize],
    stride: i64,
    pad: i64,
    group: i64,
    xs: &'a [&'a [usize]],
    program: &'a [i64],
}

/// `relu(y * a + b) + r`, with the tensors `y`, `a`, `b` and `r`.
const RESIDUAL: &[i64] = &[2, 0, 1, 0, 4, 2, 14, 5, 0, 6, 3];
/// `y * sigmoid(y + a)`, with the tensors `y` and `a`.
const GATED: &[i64] = &[0, 0, 1, 12, 2, 2, 0, 3];
/// The operation codes of `max` and `min`.
const MAX: i64 = 4;
const MIN: i64 = 5;
/// `sigmoid(y)`.
const SIGMOID: &[i64] = &[12, 0];

/// Cases for every algorithm that computes convolutions, with small and large planes.
const FUSED: [Fused<'_>; 12] = {
    const ONE: Fused<'_> = Fused {
        x: &[2, 6, 40, 57],
        w: &[70, 6, 1, 1],
        stride: 1,
        pad: 0,
        group: 1,
        xs: &[&[70, 1, 1], &[70, 1, 1], &[2, 70, 40, 57]],
        program: RESIDUAL,
    };
    [
        // Pointwise convolutions, whose windows are the input's elements.
        ONE,
        Fused { xs: &[&[]], program: GATED, ..ONE },
        // Program operands with the shape of a plane, or of a sample.
        Fused { xs: &[&[40, 57], &[2, 1, 1, 1], &[1, 70, 1, 57]], ..ONE },
        // Depthwise convolutions, with large planes, and with small planes that are computed several at a time.
        Fused {
            x: &[1, 30, 101, 99],
            w: &[30, 1, 3, 3],
            pad: 1,
            group: 30,
            xs: &[&[30, 1, 1], &[1], &[30, 101, 99]],
            ..ONE
        },
        Fused {
            x: &[3, 130, 27, 29],
            w: &[130, 1, 3, 3],
            pad: 1,
            group: 130,
            xs: &[&[130, 1, 1], &[3, 130, 1, 1], &[27, 29]],
            ..ONE
        },
        Fused {
            x: &[4, 260, 17, 19],
            w: &[260, 1, 5, 5],
            pad: 2,
            group: 260,
            xs: &[],
            program: SIGMOID,
            ..ONE
        },
        // Unrolled windows in two groups.
        Fused {
            x: &[2, 24, 60, 64],
            w: &[80, 12, 3, 3],
            stride: 1,
            pad: 1,
            group: 2,
            xs: &[&[80, 1, 1], &[80, 60, 1], &[1, 80, 60, 64]],
            program: RESIDUAL,
        },
        // Winograd points.
        Fused {
            x: &[1, 32, 66, 65],
            w: &[66, 32, 3, 3],
            pad: 1,
            xs: &[&[66, 1, 1], &[66, 1, 1], &[66, 66, 65]],
            ..ONE
        },
        // Few windows, and a single one.
        Fused {
            x: &[90, 20, 11, 11],
            w: &[100, 20, 3, 3],
            stride: 2,
            pad: 1,
            xs: &[&[100, 1, 1]],
            program: GATED,
            ..ONE
        },
        Fused { x: &[300, 70, 1, 1], w: &[900, 70, 1, 1], xs: &[&[900, 1, 1]], program: GATED, ..ONE },
        // Three spatial dimensions, and one.
        Fused {
            x: &[1, 4, 20, 30, 31],
            w: &[15, 4, 3, 3, 3],
            pad: 1,
            xs: &[&[15, 1, 1, 1]],
            program: GATED,
            ..ONE
        },
        Fused { x: &[2, 20, 4100], w: &[40, 20, 5], pad: 2, xs: &[&[40, 1]], program: GATED, ..ONE },
    ]
};

/// Asserts that a fused convolution equals, bit for bit, the convolution followed by its program as separate steps.
fn assert_same_bits(cpu: &Cpu, case: &Fused<'_>, dtype: DataType, what: &str) {
    let (x, w) = (array(cpu, case.x, dtype), array(cpu, case.w, dtype));
    let bias = array(cpu, &case.w[..1], dtype);
    let spatial = case.x.len() - 2;
    let params = [
        Param::Ints(vec![case.stride; spatial].into()),
        Param::Ints(vec![case.pad; 2 * spatial].into()),
        Param::Ints([][..].into()),
        Param::Int(case.group),
    ];
    let xs: Vec<Array> =
        case.xs.iter().enumerate().map(|(i, shape)| shifted(cpu, shape, dtype, 3 + 400 * i)).collect();
    let varying = |x: &Array| PrepareOperand::varying(x.dtype(), x.shape().iter().map(|&n| Some(n)), false);
    let constant = |x| Some(PrepareOperand::of_constant(x));
    let operands = || [Some(varying(&x)), constant(&w), constant(&bias)];
    let step = PrepareStep::new(NnOp::Conv.spec(), &params, operands());
    let options = ConvOptions {
        strides: &vec![case.stride; spatial],
        pads: &vec![case.pad; 2 * spatial],
        dilations: &[],
        group: case.group,
    };
    // Use the operation itself if it is not prepared.
    let first = match cpu.prepare(&step).unwrap() {
        Some(kernel) => {
            let mut given = [KernelOperand::Shared(&x), KernelOperand::Absent, KernelOperand::Shared(&bias)]
                .into_iter()
                .collect();
            kernel.run(cpu, &mut given).unwrap().remove(0)
        }
        None => cpu.conv(&x, &w, Some(&bias), options).unwrap(),
    };
    let all: Vec<&Array> = std::iter::once(&first).chain(&xs).collect();
    let want = cpu
        .to_host(&bb::ext::Scalar::fused(&bb::ext::Extended::declining(cpu), &all, case.program).unwrap())
        .unwrap();
    let with_program: Vec<Param<'static>> =
        std::iter::once(Param::Ints(case.program.to_vec().into())).chain(params.iter().cloned()).collect();
    let operands = operands().into_iter().chain(xs.iter().map(|x| Some(varying(x))));
    let step = PrepareStep::new(NnOp::FusedConv.spec(), &with_program, operands);
    let kernel = cpu.prepare(&step).unwrap().unwrap();
    for threads in [1, 3] {
        let given = [&x, &w, &bias].into_iter().chain(&xs).map(KernelOperand::Shared);
        let y = as_if(threads, || kernel.run(cpu, &mut given.collect()).unwrap().remove(0));
        assert!(cpu.to_host(&y).unwrap() == want, "{what} of {dtype} on {threads} threads");
    }
}

#[test]
fn programs_over_results_have_the_bits_of_one_step_after_the_other() {
    let cpu = Cpu::new();
    for dtype in [DataType::F32, DataType::F16, DataType::BF16] {
        for (at_case, case) in FUSED.iter().enumerate() {
            assert_same_bits(&cpu, case, dtype, &format!("case {at_case}"));
        }
    }
}

/// Tests programs that the matrix product computes tile by tile, and similar programs that it does not.
#[test]
fn what_follows_a_tile_has_the_bits_of_one_step_after_the_other() {
    const ALL: &[usize] = &[2, 70, 40, 57];
    let programs: [(&[i64], &[&[usize]]); 10] = [
        // `relu(y)`, `y + r`, `r + y` and `relu(y + r)`.
        (&[14, 0], &[]),
        (&[0, 0, 1], &[ALL]),
        (&[0, 1, 0], &[ALL]),
        (&[0, 0, 1, 14, 2], &[ALL]),
        // The added tensor is broadcast.
        (&[0, 0, 1, 14, 2], &[&[70, 40, 57]]),
        (&[0, 0, 1, 14, 2], &[&[70, 1, 1]]),
        // `min(max(y, a), b)`, also with a lower bound that is greater than the upper one.
        (&[MAX, 0, 1, MIN, 3, 2], &[&[], &[1]]),
        (&[MAX, 0, 2, MIN, 3, 1], &[&[], &[]]),
        // `min(max(y * a + b, c), d) * y`, and the same function of `y + r`.
        (&[2, 0, 1, 0, 5, 2, MAX, 6, 3, MIN, 7, 4, 2, 8, 0], &[&[], &[], &[], &[]]),
        (&[0, 0, 1, 2, 6, 2, 0, 7, 3, MAX, 8, 4, MIN, 9, 5, 2, 10, 6], &[ALL, &[], &[], &[], &[]]),
    ];
    let cpu = Cpu::new();
    for level in levels() {
        for (at_program, &(program, xs)) in programs.iter().enumerate() {
            // Products that read all operands in place. Some programs also run with larger products and with unrolled windows in two
            // groups.
            let cases: [(usize, usize, usize); 3] = [(6, 1, 1), (200, 1, 1), (12, 3, 2)];
            for (depth, kernel, group) in cases.into_iter().take(if at_program % 3 == 0 { 3 } else { 1 }) {
                let (x, w) = (&[2, depth * group, 40, 57], &[70, depth, kernel, kernel]);
                let pad = (kernel as i64 - 1) / 2;
                let case = Fused { x, w, stride: 1, pad, group: group as i64, xs, program };
                let what = format!("program {at_program} after {depth} channels at {level:?}");
                at(level, || assert_same_bits(&cpu, &case, DataType::F32, &what));
            }
        }
    }
}

#[test]
fn a_program_may_convert_what_it_goes_over() {
    let cpu = Cpu::new();
    let [f16, f32] = [DataType::F16, DataType::F32];
    for (dtype, other, program) in [
        // `f32(y) * a`, and `f16(y * a)`.
        (f16, f32, &[15, 0, 2, 2, 1][..]),
        (f32, f32, &[2, 0, 1, 16, 2][..]),
    ] {
        let (x, w) = (array(&cpu, &[1, 8, 100, 110], dtype), array(&cpu, &[40, 8, 1, 1], dtype));
        let a = array(&cpu, &[40, 1, 1], other);
        let y = cpu.conv(&x, &w, None, ConvOptions::default()).unwrap();
        let want = cpu
            .to_host(
                &bb::ext::Scalar::fused(&bb::ext::Extended::declining(&cpu), &[&y, &a], program).unwrap(),
            )
            .unwrap();
        let params = [program, &[], &[], &[]].map(|list| Param::Ints(list.into()));
        let params: Vec<Param<'static>> = params.into_iter().chain([Param::Int(1)]).collect();
        let varying = |x: &Array| PrepareOperand::varying(x.dtype(), x.shape().iter().map(|_| None), false);
        let operands = [Some(varying(&x)), Some(PrepareOperand::of_constant(&w)), None, Some(varying(&a))];
        let kernel =
            cpu.prepare(&PrepareStep::new(NnOp::FusedConv.spec(), &params, operands)).unwrap().unwrap();
        let given = [
            KernelOperand::Shared(&x),
            KernelOperand::Shared(&w),
            KernelOperand::Absent,
            KernelOperand::Shared(&a),
        ];
        let got = kernel.run(&cpu, &mut given.into_iter().collect()).unwrap().remove(0);
        assert!(cpu.to_host(&got).unwrap() == want, "{dtype}");
    }
}
