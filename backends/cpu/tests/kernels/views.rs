//! Tests that every kernel reads the elements of views correctly, wherever they are in memory.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::{Backend, DataType, RoundMode, Tensor, TensorData};
use bb_cpu::{Array, Cpu};

fn array(cpu: &Cpu, shape: &[usize], elements: &[f32]) -> Array {
    cpu.constant(&TensorData::new(shape, elements).unwrap()).unwrap()
}

fn floats(cpu: &Cpu, x: &Array) -> Vec<f32> {
    cpu.to_host(x).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn counted(cpu: &Cpu, shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    array(cpu, shape, &(0..n).map(|i| i as f32).collect::<Vec<_>>())
}

/// Returns element `(i, j, k)` of `counted([2, 3, 4])`.
fn at(i: usize, j: usize, k: usize) -> f32 {
    (i * 12 + j * 4 + k) as f32
}

#[test]
fn transposes_and_reversed_slices_are_read_in_order() {
    let cpu = Cpu::new();
    let x = counted(&cpu, &[2, 3, 4]);
    let t = cpu.transpose(&x, &[2, 0, 1]).unwrap();
    assert_eq!(t.shape(), [4, 2, 3]);
    let want: Vec<f32> =
        (0..4).flat_map(|k| (0..2).flat_map(move |i| (0..3).map(move |j| at(i, j, k)))).collect();
    assert_eq!(floats(&cpu, &t), want);
    let r = cpu.slice(&x, &[-1, -1], &[i64::MIN, i64::MIN], &[0, 2], &[-1, -2]).unwrap();
    assert_eq!(r.shape(), [2, 3, 2]);
    let want: Vec<f32> =
        [1, 0].into_iter().flat_map(|i| (0..3).flat_map(move |j| [3, 1].map(move |k| at(i, j, k)))).collect();
    assert_eq!(floats(&cpu, &r), want);
    let sum = cpu.add(&r, &r).unwrap();
    assert_eq!(floats(&cpu, &sum), want.iter().map(|v| 2.0 * v).collect::<Vec<_>>());
    let neg = cpu.neg(&t).unwrap();
    assert_eq!(neg.shape(), [4, 2, 3]);
    assert_eq!(floats(&cpu, &neg)[5], -at(1, 2, 0));
}

#[test]
fn reshape_of_a_view_copies_only_where_it_must() {
    let cpu = Cpu::new();
    let x = counted(&cpu, &[2, 3, 4]);
    let t = cpu.transpose(&x, &[0, 2, 1]).unwrap();
    let flat = cpu.reshape(&t, &[24]).unwrap();
    assert_eq!(floats(&cpu, &flat)[..4], [0.0, 4.0, 8.0, 1.0]);
    let kept = cpu.reshape(&t, &[2, 1, 2, 2, 3]).unwrap();
    assert!(!kept.is_dense());
    assert_eq!(floats(&cpu, &kept), floats(&cpu, &flat));
    let none = cpu.reshape(&counted(&cpu, &[0, 3]), &[3, 0, 7]).unwrap();
    assert_eq!((none.shape(), none.len()), (&[3, 0, 7][..], 0));
}

#[test]
fn reductions_of_views_follow_the_view() {
    let cpu = Cpu::new();
    let x = counted(&cpu, &[2, 3, 4]);
    let t = cpu.transpose(&x, &[1, 2, 0]).unwrap();
    let sum = cpu.reduce_sum(&t, &[0], false).unwrap();
    assert_eq!(sum.shape(), [4, 2]);
    let want: Vec<f32> = (0..4).flat_map(|k| [0, 1].map(|i| (0..3).map(|j| at(i, j, k)).sum())).collect();
    assert_eq!(floats(&cpu, &sum), want);
    for (axes, count) in [(&[0i64, 2][..], 6), (&[1], 4), (&[0, 1, 2], 24), (&[2], 2)] {
        let mean = cpu.reduce_mean(&t, axes, true).unwrap();
        let sum = cpu.reduce_sum(&t, axes, true).unwrap();
        let want: Vec<f32> = floats(&cpu, &sum).iter().map(|s| s / count as f32).collect();
        assert_eq!(floats(&cpu, &mean), want);
    }
    let max = cpu.reduce_max(&t, &[1, 2], false).unwrap();
    assert_eq!(floats(&cpu, &max), [at(1, 0, 3), at(1, 1, 3), at(1, 2, 3)]);
}

#[test]
fn products_read_transposed_operands_and_broadcast_batches() {
    let cpu = Cpu::new();
    let a = counted(&cpu, &[2, 3]);
    let b = counted(&cpu, &[4, 3]);
    let product = cpu.matmul(&a, &cpu.transpose(&b, &[]).unwrap()).unwrap();
    let want: Vec<f32> = (0..2)
        .flat_map(|i| (0..4).map(move |j| (0..3).map(|k| ((i * 3 + k) * (j * 3 + k)) as f32).sum()))
        .collect();
    assert_eq!(floats(&cpu, &product), want);
    let batched = cpu.matmul(&counted(&cpu, &[2, 1, 1, 2]), &counted(&cpu, &[3, 2, 1])).unwrap();
    assert_eq!(batched.shape(), [2, 3, 1, 1]);
    assert_eq!(floats(&cpu, &batched), [1.0, 3.0, 5.0, 3.0, 13.0, 23.0]);
    let none = cpu.matmul(&counted(&cpu, &[2, 0]), &counted(&cpu, &[0, 2])).unwrap();
    assert_eq!(floats(&cpu, &none), [0.0; 4]);
    let dot = cpu.matmul(&counted(&cpu, &[3]), &counted(&cpu, &[3])).unwrap();
    assert_eq!((dot.shape().len(), floats(&cpu, &dot)), (0, vec![5.0]));
}

#[test]
fn gather_selects_rows_columns_and_negative_positions() {
    let cpu = Cpu::new();
    let x = counted(&cpu, &[3, 4]);
    let at = cpu.constant(&TensorData::new(&[2, 1], &[-1i64, 0]).unwrap()).unwrap();
    let rows = cpu.gather(&x, &at, 0).unwrap();
    assert_eq!(rows.shape(), [2, 1, 4]);
    assert_eq!(floats(&cpu, &rows), [8.0, 9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0]);
    let t = cpu.transpose(&x, &[]).unwrap();
    let columns = cpu.gather(&t, &at, 1).unwrap();
    assert_eq!(columns.shape(), [4, 2, 1]);
    assert_eq!(floats(&cpu, &columns), [8.0, 0.0, 9.0, 1.0, 10.0, 2.0, 11.0, 3.0]);
    let one = cpu.constant(&TensorData::scalar(-2i32)).unwrap();
    let row = cpu.gather(&x, &one, 0).unwrap();
    assert_eq!((row.shape(), floats(&cpu, &row)), (&[4][..], vec![4.0, 5.0, 6.0, 7.0]));
    let out = cpu.constant(&TensorData::scalar(3i64)).unwrap();
    let error = cpu.gather(&x, &out, 0).unwrap_err();
    assert_eq!(error.to_string(), "`gather`: index 3 is out of range for extent 3");
}

#[test]
fn concat_and_where_join_texts() {
    let cpu = Cpu::new();
    let text = |shape: &[usize], s: &[&str]| cpu.constant(&TensorData::strings(shape, s).unwrap()).unwrap();
    let (a, b) = (text(&[2, 1], &["a", "bc"]), text(&[2, 2], &["", "d", "ef", "g"]));
    let reversed = cpu.slice(&b, &[1], &[-3], &[1], &[-1]).unwrap();
    let joined = cpu.concat(&[&a, &reversed], 1).unwrap();
    let host = cpu.to_host(&joined).unwrap();
    assert_eq!(host.iter_str().collect::<Vec<_>>(), ["a", "d", "", "bc", "g", "ef"]);
    let equal = cpu.equal(&joined, &text(&[1], &["d"])).unwrap();
    let chosen = cpu.r#where(&equal, &joined, &text(&[], &["?"])).unwrap();
    let host = cpu.to_host(&chosen).unwrap();
    assert_eq!(host.iter_str().collect::<Vec<_>>(), ["?", "d", "?", "?", "?", "?"]);
}

#[test]
fn packed_elements_return_as_they_came() {
    let cpu = Cpu::new();
    let x = TensorData::pack(DataType::I4, &[3], &[1, 0xFF, 7]).unwrap();
    let held = cpu.constant(&x).unwrap();
    assert_eq!(cpu.to_host(&held).unwrap(), x);
    let wide = cpu.cast(&held, DataType::I32, true, RoundMode::Up).unwrap();
    assert_eq!(cpu.to_host(&wide).unwrap().as_slice::<i32>().unwrap(), [1, -1, 7]);
}

#[test]
fn adopted_bytes_are_shared_both_ways() {
    let cpu = Cpu::new();
    let host = TensorData::new(&[32], &[1f32; 32]).unwrap();
    let x = cpu.constant(&host).unwrap();
    let part = cpu.slice(&x, &[8], &[24], &[0], &[1]).unwrap();
    assert_eq!(cpu.to_host(&part).unwrap().bytes().unwrap().as_ptr(), host.bytes().unwrap()[32..].as_ptr());
    let sum = cpu.add(&part, &part).unwrap();
    let [first, second] = [0; 2].map(|_| cpu.to_host(&sum).unwrap());
    assert_eq!(first.bytes().unwrap().as_ptr(), second.bytes().unwrap().as_ptr());
    drop((sum, second));
    assert_eq!(first.as_slice::<f32>().unwrap(), [2.0; 16]);
}

/// Rows that are shorter than a buffer are computed together; longer rows are computed in parts.
#[test]
fn broadcasts_and_views_add_as_their_elements_do() {
    let cpu = Cpu::new();
    for [rows, cols] in [[2, 3], [1500, 3], [3, 1500], [130, 40], [2, 5000], [70, 1024]] {
        let number = |at: usize| (at * 37 % 101) as f32;
        let array = |shape: &[usize]| {
            let numbers: Vec<f32> = (0..shape.iter().product()).map(number).collect();
            cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap()
        };
        let a = array(&[rows, cols]);
        type At = fn([usize; 2], [usize; 2]) -> usize;
        let operands: [(Array, At); 4] = [
            (array(&[cols]), |[_, j], _| j),
            (array(&[rows, 1]), |[i, _], _| i),
            (array(&[]), |_, _| 0),
            (array(&[cols, rows]), |[i, j], [rows, _]| j * rows + i),
        ];
        for dtype in [DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::U8] {
            let as_type = |x: &Array| cpu.cast(x, dtype, true, RoundMode::Up).unwrap();
            for (k, (b, at)) in operands.iter().enumerate() {
                // The numbers and their sums are integers below 256, which are exact in all of
                // these types.
                let b = as_type(b);
                let b = if k == 3 { cpu.transpose(&b, &[]).unwrap() } else { b };
                let sum = cpu.add(&as_type(&a), &b).unwrap();
                let sum = cpu.to_host(&cpu.cast(&sum, DataType::F32, true, RoundMode::Up).unwrap()).unwrap();
                let want =
                    (0..rows * cols).map(|k| number(k) + number(at([k / cols, k % cols], [rows, cols])));
                assert!(sum.as_slice::<f32>().unwrap().iter().copied().eq(want), "{rows}x{cols} {dtype:?}");
            }
        }
    }
}

#[test]
fn columns_of_many_rows_are_gathered() {
    let cpu = Cpu::new();
    let x = counted(&cpu, &[5000, 6]);
    // A few columns are copied for many rows together; many columns are copied row by row.
    for count in [2, 3, 63, 64, 70] {
        let columns: Vec<i64> = (0..count).map(|i| (i * 5 + 3) % 6).collect();
        let indices = cpu.constant(&TensorData::new(&[columns.len()], &columns).unwrap()).unwrap();
        let y = cpu.gather(&x, &indices, 1).unwrap();
        let want = (0..5000).flat_map(|row| columns.iter().map(move |column| (row * 6 + column) as f32));
        assert!(floats(&cpu, &y).into_iter().eq(want), "{count} columns");
    }
}
