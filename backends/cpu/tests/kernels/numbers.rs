//! Tests arithmetic at the limits of element types.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb::{Backend, Element, TensorData, bf16, f16};
use bb_cpu::{Array, Cpu};

fn array<T: Element>(cpu: &Cpu, elements: &[T]) -> Array {
    cpu.constant(&TensorData::new(&[elements.len()], elements).unwrap()).unwrap()
}

fn list<T: Element>(cpu: &Cpu, x: Array) -> Vec<T> {
    cpu.to_host(&x).unwrap().as_slice::<T>().unwrap().to_vec()
}

#[test]
fn integers_wrap_and_divide_towards_zero() {
    let cpu = Cpu::new();
    let (a, b) = (array(&cpu, &[i8::MIN, 127, -7]), array(&cpu, &[-1i8, 1, 2]));
    assert_eq!(list::<i8>(&cpu, cpu.div(&a, &b).unwrap()), [i8::MIN, 127, -3]);
    assert_eq!(list::<i8>(&cpu, cpu.add(&a, &b).unwrap()), [127, i8::MIN, -5]);
    assert_eq!(list::<i8>(&cpu, cpu.neg(&a).unwrap()), [i8::MIN, -127, 7]);
    let zero = array(&cpu, &[1i8, 0, 1]);
    assert_eq!(cpu.div(&a, &zero).unwrap_err().to_string(), "`div`: integer division by zero");
    let (none, zero) = (array::<i32>(&cpu, &[]), array(&cpu, &[0i32]));
    assert_eq!(list::<i32>(&cpu, cpu.div(&none, &zero).unwrap()), [0i32; 0]);
}

#[test]
fn powers_of_mixed_types_have_the_type_of_the_base() {
    let cpu = Cpu::new();
    let a = array(&cpu, &[2f32, 3.0, 0.5]);
    assert_eq!(list::<f32>(&cpu, cpu.pow(&a, &array(&cpu, &[3i64, -1, 2])).unwrap()), [8.0, 1.0 / 3.0, 0.25]);
    let a = array(&cpu, &[2i32, -1, 9, 1]);
    assert_eq!(
        list::<i32>(&cpu, cpu.pow(&a, &array(&cpu, &[31i64, -3, -1, -9])).unwrap()),
        [i32::MIN, -1, 0, 1]
    );
    assert_eq!(list::<i32>(&cpu, cpu.pow(&a, &array(&cpu, &[0.5f32])).unwrap()), [1, i32::MIN, 3, 1]);
    assert!(cpu.pow(&array(&cpu, &[0i64]), &array(&cpu, &[-1i8])).is_err());
}

#[test]
fn half_sums_round_once() {
    let cpu = Cpu::new();
    // If each partial sum were rounded to `f16`, 2048 + 1 would stay 2048.
    let mut elements = vec![f16::ONE; 1024];
    elements.push(f16::from_f32(2048.0));
    let sum = cpu.reduce_sum(&array(&cpu, &elements), &[], false).unwrap();
    assert_eq!(list::<f16>(&cpu, sum), [f16::from_f32(3072.0)]);
    let mean = cpu.reduce_mean(&array(&cpu, &[bf16::ONE; 300]), &[], false).unwrap();
    assert_eq!(list::<bf16>(&cpu, mean), [bf16::ONE]);
}

#[test]
fn empty_reductions_yield_what_the_table_says() {
    let cpu = Cpu::new();
    let none = cpu.constant(&TensorData::new::<f32>(&[2, 0], &[]).unwrap()).unwrap();
    assert_eq!(list::<f32>(&cpu, cpu.reduce_sum(&none, &[1], false).unwrap()), [0.0, 0.0]);
    assert_eq!(list::<f32>(&cpu, cpu.reduce_max(&none, &[1], false).unwrap()), [f32::NEG_INFINITY; 2]);
    assert_eq!(list::<f32>(&cpu, cpu.reduce_min(&none, &[1], false).unwrap()), [f32::INFINITY; 2]);
    assert!(list::<f32>(&cpu, cpu.reduce_mean(&none, &[1], false).unwrap()).iter().all(|v| v.is_nan()));
    assert!(cpu.reduce_mean(&array::<i32>(&cpu, &[]), &[], false).is_err());
    let none = cpu.constant(&TensorData::bools(&[0], &[]).unwrap()).unwrap();
    assert_eq!(
        cpu.to_host(&cpu.reduce_max(&none, &[], false).unwrap()).unwrap().to_bools().unwrap(),
        [false]
    );
    assert_eq!(cpu.to_host(&cpu.reduce_min(&none, &[], false).unwrap()).unwrap().to_bools().unwrap(), [true]);
}

#[test]
fn nan_wins_wherever_it_stands() {
    let cpu = Cpu::new();
    for at in [0, 7, 40] {
        let mut elements = [1f32; 41];
        if let Some(x) = elements.get_mut(at) {
            *x = f32::NAN;
        }
        let x = array(&cpu, &elements);
        assert!(list::<f32>(&cpu, cpu.reduce_max(&x, &[], false).unwrap()).iter().all(|v| v.is_nan()));
        assert!(list::<f32>(&cpu, cpu.reduce_min(&x, &[], false).unwrap()).iter().all(|v| v.is_nan()));
    }
}

#[test]
fn a_type_that_is_not_taken_is_named() {
    let cpu = Cpu::new();
    let error = cpu.sqrt(&array(&cpu, &[1i32])).unwrap_err();
    assert_eq!(error.to_string(), "`sqrt` does not take element type i32");
    let error = cpu.neg(&array(&cpu, &[1u8])).unwrap_err();
    assert_eq!(error.to_string(), "`neg` does not take element type u8");
    let error = cpu.add(&array(&cpu, &[1u8]), &array(&cpu, &[1i8])).unwrap_err();
    let mixed = "`add`: `b` has elements of i8, expected u8 like `a`; cast one of them";
    assert_eq!(error.to_string(), mixed);
    let x = array(&cpu, &[1f32]);
    let error = cpu.r#where(&x, &x, &x).unwrap_err();
    assert_eq!(error.to_string(), "`where`: `condition` has elements of f32, expected bool");
    let error = cpu.gather(&x, &x, 0).unwrap_err();
    assert_eq!(error.to_string(), "`gather`: `indices` has elements of f32, expected i32 or i64");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let side = 700;
    let numbers: Vec<f32> = (0..side * side).map(|i| ((i * 7919) % 10007) as f32 / 10007.0 - 0.3).collect();
    let results = |threads: usize| -> Vec<Vec<f32>> {
        let cpu = Cpu::builder().threads(threads).build().unwrap();
        let x = cpu.constant(&TensorData::new(&[side, side], &numbers).unwrap()).unwrap();
        let turned = cpu.transpose(&x, &[]).unwrap();
        // Repeat the operation, so that the threads are awake and also share smaller work.
        for _ in 0..8 {
            cpu.add(&x, &turned).unwrap();
        }
        vec![
            list(&cpu, cpu.add(&x, &turned).unwrap()),
            list(&cpu, cpu.exp(&x).unwrap()),
            list(&cpu, cpu.reduce_sum(&x, &[], false).unwrap()),
            list(&cpu, cpu.reduce_mean(&x, &[1], false).unwrap()),
            list(&cpu, cpu.reduce_sum(&x, &[0], false).unwrap()),
            list(&cpu, cpu.matmul(&x, &x).unwrap()),
            list(&cpu, cpu.matmul(&x, &turned).unwrap()),
            list(&cpu, cpu.matmul(&cpu.slice(&x, &[0], &[1], &[0], &[]).unwrap(), &x).unwrap()),
        ]
    };
    let one = results(1);
    for threads in [2, 3, 5] {
        for (i, (one, many)) in one.iter().zip(results(threads)).enumerate() {
            assert!(*one == many, "result {i} on {threads} threads");
        }
    }
}
