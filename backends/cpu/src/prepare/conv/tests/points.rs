//! Tests that Winograd convolutions equal their definition, and that unsupported operands are refused or computed by
//! other kernels.

use super::*;
use crate::caches::simulated;

#[test]
fn convolutions_by_points_are_those_of_the_definition() {
    let cpu = Cpu::new();
    for ([n, c, height, width], m, groups, pads) in [
        ([1usize, 16, 12, 12], 16usize, 1usize, [1i64, 1, 1, 1]),
        ([2, 20, 13, 15], 17, 1, [1, 1, 1, 1]),
        ([1, 16, 14, 37], 24, 1, [0, 0, 0, 0]),
        ([1, 40, 17, 70], 19, 1, [2, 0, 1, 2]),
        ([2, 48, 24, 9], 66, 3, [0, 1, 2, 0]),
        ([1, 130, 40, 41], 16, 1, [1, 1, 1, 1]),
        ([1, 96, 14, 13], 160, 1, [1, 1, 1, 1]),
    ] {
        for with_bias in [false, true] {
            let x = array(&cpu, &[n, c, height, width], DataType::F32);
            let w = array(&cpu, &[m, c / groups, 3, 3], DataType::F32);
            let bias = with_bias.then(|| array(&cpu, &[m], DataType::F32));
            let group = groups as i64;
            let params = [
                Param::Ints([1, 1][..].into()),
                Param::Ints(pads.to_vec().into()),
                Param::Ints([][..].into()),
                Param::Int(group),
            ];
            let varying = PrepareOperand::varying(DataType::F32, x.shape().iter().map(|_| None), false);
            let constants =
                [Some(PrepareOperand::of_constant(&w)), bias.as_ref().map(PrepareOperand::of_constant)];
            let operands = std::iter::once(Some(varying)).chain(constants);
            let kernel =
                cpu.prepare(&PrepareStep::new(NnOp::Conv.spec(), &params, operands)).unwrap().unwrap();
            // The kernel keeps only the transformed filters, not the original ones.
            assert_eq!(kernel.bytes() / 4, w.len() * 16 / 9 + bias.as_ref().map_or(0, |bias| bias.len()));
            let host = |x: &Array| cpu.to_host(x).unwrap();
            let bias = bias.as_ref().map(|bias| host(bias).as_slice::<f32>().unwrap().to_vec());
            let expected = defined(&host(&x), &host(&w), &bias.unwrap_or_default(), pads, 1, groups);
            // The factor 2 allows for the transforms, which add four numbers before and after each product.
            let greatest = expected.iter().fold(0f64, |most, y| most.max(y.abs()));
            let bound = 2.0 * (9.0 * (c / groups) as f64).sqrt() * f64::from(f32::EPSILON) * greatest;
            for level in levels() {
                let run = |threads, cache| {
                    let given = [KernelOperand::Shared(&x), KernelOperand::Absent, KernelOperand::Absent];
                    let run = || kernel.run(&cpu, &mut given.into_iter().collect());
                    let y = at(level, || as_if(threads, || simulated(cache, run)));
                    host(&y.unwrap().remove(0))
                };
                let y = run(1, 1 << 22);
                // Whether threads share tiles or points depends on the number of threads and on the cache size.
                for (threads, cache) in [(2, 1 << 22), (1, 1 << 18), (3, 1 << 18), (40, 1 << 18)] {
                    assert!(run(threads, cache) == y, "{threads} threads, {cache} bytes at {level:?}");
                }
                let y = y.as_slice::<f32>().unwrap();
                assert_eq!(y.len(), expected.len());
                for (place, (y, want)) in y.iter().zip(&expected).enumerate() {
                    let error = (f64::from(*y) - want).abs();
                    assert!(error <= bound, "{y} at {place}, expected {want}: {error:e} > {bound:e}");
                }
            }
        }
    }
}

#[test]
fn results_that_no_memory_holds_are_refused() {
    let cpu = Cpu::new();
    for (c, m) in [(16usize, 16usize), (128, 64)] {
        let (x, w) = (array(&cpu, &[1, c, 12, 12], DataType::F32), array(&cpu, &[m, c, 3, 3], DataType::F32));
        let params = [vec![1, 1], vec![1 << 27; 4], Vec::new()].map(|list| Param::Ints(list.into()));
        let params: Vec<Param<'static>> = params.into_iter().chain([Param::Int(1)]).collect();
        let varying = PrepareOperand::varying(DataType::F32, [None; 4], false);
        let operands = [Some(varying), Some(PrepareOperand::of_constant(&w)), None];
        let kernel = cpu.prepare(&PrepareStep::new(NnOp::Conv.spec(), &params, operands)).unwrap().unwrap();
        for (threads, cache) in [(1, 1 << 18), (40, 1 << 18), (2, 1 << 22)] {
            let given = [KernelOperand::Shared(&x), KernelOperand::Absent, KernelOperand::Absent];
            let run = || kernel.run(&cpu, &mut given.into_iter().collect());
            let refused = as_if(threads, || simulated(cache, run)).unwrap_err();
            assert!(refused.to_string().contains("memory"), "{refused}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_windows() {
    let cpu = Cpu::new();
    let w = array(&cpu, &[16, 16, 3, 3], DataType::F32);
    let params = [[1, 1].to_vec(), [1; 4].to_vec(), Vec::new()].map(|list| Param::Ints(list.into()));
    let params: Vec<Param<'static>> = params.into_iter().chain([Param::Int(1)]).collect();
    let varying = PrepareOperand::varying(DataType::F32, [None; 4], false);
    let operands = [Some(varying), Some(PrepareOperand::of_constant(&w)), None];
    let kernel = cpu.prepare(&PrepareStep::new(NnOp::Conv.spec(), &params, operands)).unwrap().unwrap();
    for special in [f32::NAN, f32::INFINITY, f32::MAX] {
        let mut numbers = vec![0.5f32; 16 * 14 * 14];
        numbers[5 * 14 + 5] = special;
        let x = cpu.constant(&TensorData::new(&[1, 16, 14, 14], &numbers).unwrap()).unwrap();
        let given = [KernelOperand::Shared(&x), KernelOperand::Absent, KernelOperand::Absent];
        let y = kernel.run(&cpu, &mut given.into_iter().collect()).unwrap().remove(0);
        let y = cpu.to_host(&y).unwrap();
        for (at, y) in y.as_slice::<f32>().unwrap().iter().enumerate() {
            let (row, column) = (at / 14 % 14, at % 14);
            let near = (4..=6).contains(&row) && (4..=6).contains(&column);
            assert!(near || y.abs() < 1e3, "{y} at {row}, {column}, beside {special}");
        }
    }
}

#[test]
fn few_tiles_are_computed_with_restored_filters() {
    let cpu = Cpu::new();
    for (c, m, groups) in [(16usize, 16usize, 1usize), (34, 51, 1), (48, 66, 3)] {
        let (x_shape, w_shape) = ([1, c, 7, 7], [m, c / groups, 3, 3]);
        let host = |shape: &[usize]| cpu.to_host(&array(&cpu, shape, DataType::F32)).unwrap();
        let expected = defined(&host(&x_shape), &host(&w_shape), &[], [0; 4], 1, groups);
        let greatest = expected.iter().fold(0f64, |most, y| most.max(y.abs()));
        let bound = 2.0 * (9.0 * (c / groups) as f64).sqrt() * f64::from(f32::EPSILON) * greatest;
        for level in levels() {
            let group = groups as i64;
            let [prepared, alone] =
                at(level, || both(DataType::F32, [&x_shape, &w_shape], false, [1, group])).unwrap();
            for y in [prepared.unwrap(), alone.unwrap()] {
                for (y, want) in y.as_slice::<f32>().unwrap().iter().zip(&expected) {
                    assert!((f64::from(*y) - want).abs() <= bound, "{y}, expected {want}");
                }
            }
        }
    }
}

#[test]
fn points_have_their_filters() {
    // A restored weight is the difference of two sums of nine weights, each rounded once.
    let shape = [32, 17, 3, 3];
    let w: Vec<f32> = (0..32 * 17 * 9).map(|i| ((i * 7919 + 3) % 2003) as f32 / 1001.5 - 1.0).collect();
    let points = Filters::new(&w, &shape, 2).unwrap().unwrap();
    let mut restored = vec![0.0; w.len()];
    points.restore(&mut restored);
    for (y, want) in restored.iter().zip(&w) {
        assert!((y - want).abs() <= 9.0 / 2.0 * f32::EPSILON, "{y}, expected {want}");
    }
}
