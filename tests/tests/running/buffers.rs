//! Tests buffers by number: parts of them, copies, mapping, alignment, and operations that write into them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::op::Param;
use bb::services::{BufferFault, BufferId, Buffers, ServiceError};
use bb::{BackendHandle, DataType, Error, Registry, TensorData};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::few::Few;
use std::sync::Arc;

/// A backend with a memory of its own, one without the service, and one that lacks element types.
fn each() -> [BackendHandle; 3] {
    let registry = Registry::builder().declared::<Cpu>().declared::<Reference>().build();
    let few = BackendHandle::new(bb::Runtime::erased("few", Few::least(), &[]));
    [registry.backend("cpu").unwrap(), registry.backend("reference").unwrap(), few]
}

fn fault<T: std::fmt::Debug>(result: Result<T, Error>) -> BufferFault {
    match result.unwrap_err() {
        Error::BufferFault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn holding(table: &Buffers, numbers: &[f32]) -> BufferId {
    let id = table.alloc(DataType::F32, &[numbers.len()]).unwrap();
    table.write(id, &bytes(numbers)).unwrap();
    id
}

#[test]
fn parts_are_read_written_and_copied_within_and_between_buffers() {
    for on in each() {
        let table = Buffers::new(on);
        let [x, y] = [table.alloc(DataType::U8, &[2, 4]).unwrap(), table.alloc(DataType::I32, &[2]).unwrap()];
        table.write(x, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let before = table.value(x).unwrap();
        table.write_at(x, 3, &[40, 50]).unwrap();
        assert_eq!(table.read(x).unwrap(), [1, 2, 3, 40, 50, 6, 7, 8]);
        let mut part = [0; 3];
        table.read_at(x, 4, &mut part).unwrap();
        assert_eq!(part, [50, 6, 7]);
        // Overlapping bytes are copied with their old values.
        table.copy(x, 0, x, 2, 5).unwrap();
        assert_eq!(table.read(x).unwrap(), [1, 2, 1, 2, 3, 40, 50, 8]);
        table.copy(x, 2, y, 4, 4).unwrap();
        assert_eq!(table.read(y).unwrap(), [0, 0, 0, 0, 1, 2, 3, 40]);
        // A tensor that the caller holds does not change.
        assert_eq!(before.to_host(8).unwrap().as_slice::<u8>().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);

        let out = |offset, count| BufferFault::Range { offset, count, size: 8 };
        assert_eq!(fault(table.write_at(x, 7, &[0, 0])), out(7, 2));
        assert_eq!(fault(table.read_at(x, 9, &mut [])), out(9, 0));
        assert_eq!(fault(table.copy(x, 0, y, 5, 4)), out(5, 4));
        assert_eq!(fault(table.copy(x, 5, y, 0, 4)), out(5, 4));
        assert_eq!(fault(table.copy(x, usize::MAX, y, 0, 4)), out(usize::MAX, 4));
        table.write_at(x, 8, &[]).unwrap();
        assert_eq!(out(7, 2).to_string(), "the bytes 7 to 9 are not all in a buffer of 8 bytes");

        let truth = table.alloc(DataType::Bool, &[4]).unwrap();
        assert!(matches!(table.copy(x, 0, truth, 0, 4), Err(Error::Ir(_))), "2 is no truth value");
        assert!(matches!(table.write_at(truth, 0, &[7]), Err(Error::Ir(_))));
        assert_eq!(table.read(truth).unwrap(), [0; 4]);
        // Four elements in two bytes.
        let packed = table.alloc(DataType::U4, &[4]).unwrap();
        table.write_at(packed, 1, &[0xab]).unwrap();
        assert_eq!(table.read(packed).unwrap(), [0, 0xab]);
        table.copy(packed, 1, packed, 0, 1).unwrap();
        assert_eq!(table.read(packed).unwrap(), [0xab, 0xab]);
        let none = table.alloc(DataType::F64, &[0]).unwrap();
        table.write_at(none, 0, &[]).unwrap();
        table.free(x).unwrap();
        assert_eq!(fault(table.write_at(x, 0, &[1])), BufferFault::Freed);
        assert_eq!(fault(table.copy(y, 0, x, 0, 1)), BufferFault::Freed);
    }
}

#[test]
fn memory_is_mapped_and_a_function_that_has_mapped_a_buffer_may_not_use_it() {
    for on in each() {
        let table = Arc::new(Buffers::new(on));
        for dtype in [DataType::I16, DataType::U4, DataType::Bool, DataType::F16] {
            let x = table.alloc(dtype, &[3, 2]).unwrap();
            let size = table.meta(x).unwrap().bytes;
            let other = table.clone();
            let asked = table
                .map_mut(x, move |bytes| {
                    assert_eq!(bytes, vec![0; size]);
                    bytes.fill(1);
                    fault(other.read(x))
                })
                .unwrap();
            assert_eq!(asked, BufferFault::Mapped);
            assert_eq!(table.map(x, <[u8]>::to_vec).unwrap(), vec![1; size]);
        }
        let truth = table.alloc(DataType::Bool, &[2]).unwrap();
        table.map_mut(truth, |bytes| bytes[1] = 9).unwrap();
        assert_eq!(table.read(truth).unwrap(), [0, 1]);
        // A panic leaves the buffer usable.
        let x = holding(&table, &[1.0]);
        let failed =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.map_mut(x, |_| panic!("no"))));
        assert!(failed.is_err() || failed.is_ok_and(|result| result.is_err()));
        assert_eq!(table.read(x).unwrap(), bytes(&[1.0]));
        // Also if it wrote something that is no truth value.
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            table.map_mut(truth, |bytes| {
                bytes.fill(9);
                panic!("no")
            })
        }));
        assert!(failed.is_err() || failed.is_ok_and(|result| result.is_err()));
        let left = table.read(truth).unwrap();
        assert!(left.iter().all(|byte| *byte < 2), "{left:?}");
    }
}

#[test]
fn threads_that_change_one_buffer_wait_for_each_other() {
    let [cpu, ..] = each();
    let table = Buffers::new(cpu);
    let x = table.alloc(DataType::U32, &[16]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    table
                        .map_mut(x, |bytes| {
                            for word in bytes.as_chunks_mut::<4>().0 {
                                *word = (u32::from_le_bytes(*word) + 1).to_le_bytes();
                            }
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(table.value(x).unwrap().to_host(64).unwrap().as_slice::<u32>().unwrap(), [400; 16]);
}

#[test]
fn aligned_memory_stays_where_it_is() {
    let [cpu, reference, few] = each();
    let table = Buffers::new(cpu.clone());
    for (dtype, shape, alignment) in [
        (DataType::F32, &[3, 5][..], 4096),
        (DataType::U8, &[1], 1 << 16),
        (DataType::F64, &[0, 2], 64),
        (DataType::I8, &[], 1),
    ] {
        let x = table.alloc_aligned(dtype, shape, alignment).unwrap();
        let address = || table.map_mut(x, |bytes| bytes.as_ptr().addr()).unwrap();
        let at = address();
        let size = table.meta(x).unwrap().bytes;
        if size > 0 {
            assert_eq!(at as u64 % alignment, 0, "{dtype}{shape:?}");
        }
        assert_eq!(table.read(x).unwrap(), vec![0; size]);
        table.write(x, &vec![1; size]).unwrap();
        let same = table.alloc(dtype, shape).unwrap();
        table.call(bb::operation("identity").unwrap(), &[Some(same)], &[], &[x]).unwrap();
        assert_eq!(table.read(x).unwrap(), vec![0; size]);
        assert_eq!(address(), at);
    }
    assert_eq!(fault(table.alloc_aligned(DataType::F32, &[1], 24)), BufferFault::Alignment { got: 24 });
    assert_eq!(fault(table.alloc_aligned(DataType::String, &[1], 64)), BufferFault::Strings);
    assert_eq!(fault(table.alloc_aligned(DataType::F32, &[usize::MAX], 64)), BufferFault::TooLarge);
    let without = Buffers::new(reference);
    assert!(matches!(without.alloc_aligned(DataType::F32, &[1], 64), Err(Error::NoService { .. })));
    let value = cpu.memory().unwrap().allocate(DataType::I64, &[2], 256).unwrap();
    assert_eq!(value.to_host(16).unwrap().as_slice::<i64>().unwrap(), [0, 0]);
    assert!(few.memory().is_err(), "it has no memory of its own");
}

#[test]
fn any_operation_writes_into_a_buffer_of_its_type_and_shape() {
    let named = |name| bb::operation(name).unwrap();
    for on in each() {
        let table = Buffers::new(on);
        let [x, y] = [holding(&table, &[1.0, 2.0, 3.0]), holding(&table, &[10.0, 20.0, 30.0])];
        let out = holding(&table, &[0.0; 3]);
        table.call(named("add"), &[Some(x), Some(y)], &[], &[out]).unwrap();
        assert_eq!(table.read(out).unwrap(), bytes(&[11.0, 22.0, 33.0]));
        // An operand may be the result.
        table.call(named("mul"), &[Some(out), Some(x)], &[], &[out]).unwrap();
        assert_eq!(table.read(out).unwrap(), bytes(&[11.0, 44.0, 99.0]));
        // A comparison, a broadcast, an operation of a family, several results.
        let truth = table.alloc(DataType::Bool, &[3]).unwrap();
        table.call(named("less"), &[Some(x), Some(holding(&table, &[2.5]))], &[], &[truth]).unwrap();
        assert_eq!(table.read(truth).unwrap(), [1, 1, 0]);
        table.call(named("relu"), &[Some(x)], &[], &[out]).unwrap();
        assert_eq!(table.read(out).unwrap(), bytes(&[1.0, 2.0, 3.0]));
        let parts = [table.alloc(DataType::F32, &[1]).unwrap(), table.alloc(DataType::F32, &[2]).unwrap()];
        let split = [Param::Int(0), Param::Extents(vec![1, 2].into())];
        table.call(named("split"), &[Some(y)], &split, &parts).unwrap();
        assert_eq!(table.read(parts[1]).unwrap(), bytes(&[20.0, 30.0]));

        let wrong = fault(table.call(named("neg"), &[Some(x)], &[], &[parts[0]]));
        let (expected, got) = ("f32[1]".to_owned(), "f32[3]".to_owned());
        assert_eq!(wrong, BufferFault::Output { index: 0, expected, got });
        assert_eq!(table.read(parts[0]).unwrap(), bytes(&[10.0]), "nothing was written");
        let types = fault(table.call(named("neg"), &[Some(x)], &[], &[truth]));
        assert!(matches!(types, BufferFault::Output { index: 0, .. }));
        // Only the second result does not fit: neither is written.
        assert!(table.call(named("split"), &[Some(y)], &split, &[parts[0], x]).is_err());
        assert_eq!(table.read(parts[0]).unwrap(), bytes(&[10.0]));
        let count = table.call(named("neg"), &[Some(x)], &[], &[out, out]);
        assert!(matches!(count, Err(Error::Results { expected: 2, got: 1, .. })));
        assert!(matches!(table.call(named("add"), &[Some(x)], &[], &[out]), Err(Error::Kernel { .. })));
        table.free(y).unwrap();
        assert_eq!(fault(table.call(named("neg"), &[Some(y)], &[], &[out])), BufferFault::Freed);
        assert_eq!(fault(table.call(named("neg"), &[Some(x)], &[], &[y])), BufferFault::Freed);
    }
}

/// Results that are computed in place have the same bits as the results of the operation.
#[test]
fn the_cpu_backend_computes_element_wise_operations_in_the_memory_of_the_buffer() {
    let [cpu, ..] = each();
    let table = Buffers::new(cpu.clone());
    let count = 1000;
    let number = |i: usize| (i as f32 - 300.0) / 7.0;
    let data = TensorData::from_fn(&[count], |at| number(at[0])).unwrap();
    for dtype in [DataType::F32, DataType::F64, DataType::F16, DataType::I32, DataType::U8] {
        let x = cpu.runtime().constant(&data).unwrap().cast(dtype, true, bb::RoundMode::Up).unwrap();
        let y = cpu.add(&x, &x).unwrap();
        for op in ["neg", "abs", "exp", "sqrt", "log", "add", "sub", "mul", "div"] {
            let spec = bb::operation(op).unwrap();
            let operands = [&x, &y].into_iter().take(spec.inputs.len());
            let given: Vec<_> = operands.clone().map(Some).collect();
            let Ok(plain) = cpu.call(spec, &given, &[]) else { continue };
            let buffers: Vec<_> = operands.map(|x| Some(table.put(x.clone()).unwrap())).collect();
            let out = table.alloc_aligned(dtype, &[count], 64).unwrap();
            let address = || table.map_mut(out, |bytes| bytes.as_ptr().addr()).unwrap();
            let at = address();
            table.call(spec, &buffers, &[], &[out]).unwrap();
            assert_eq!(address(), at, "{op} of {dtype}");
            let plain = plain[0].to_host(1 << 20).unwrap();
            assert_eq!(
                table.read(out).unwrap(),
                plain.unaligned_bytes().unwrap().to_vec(),
                "{op} of {dtype}"
            );
        }
    }
}

#[test]
fn copies_are_awaited() {
    let [cpu, ..] = each();
    let table = Arc::new(Buffers::new(cpu.clone()));
    let [x, y] = [holding(&table, &[0.0, 0.0]), holding(&table, &[0.0, 0.0])];
    table.write_async(x, bytes(&[1.0, 2.0])).wait().unwrap();
    table.copy_async(x, 0, y, 4, 4).wait().unwrap();
    assert_eq!(table.read_async(y).wait().unwrap(), bytes(&[0.0, 1.0]));
    assert_eq!(fault(table.write_async(x, vec![1]).wait()), BufferFault::Length { expected: 8, got: 1 });
    let value = cpu.tensor_async(TensorData::new(&[2], &[5i32, 6]).unwrap()).wait().unwrap();
    assert_eq!(cpu.to_host_async(&value).wait().unwrap().as_slice::<i32>().unwrap(), [5, 6]);
}

#[test]
fn a_pool_without_gaps_says_that_it_needs_no_defragmentation() {
    let [cpu, ..] = each();
    let memory = cpu.memory().unwrap();
    let error = memory.defragment().unwrap_err();
    assert!(matches!(&error, Error::Service { source: ServiceError::NotNeeded { .. }, .. }), "{error:?}");
    let x = cpu.tensor(&[5000], &[1f32; 5000]).unwrap();
    drop(cpu.neg(&x).unwrap());
    let pools = memory.pools().unwrap();
    assert_eq!(pools.iter().map(|pool| pool.pooled).sum::<u64>(), memory.statistics().unwrap().pooled);
    assert!(pools.iter().any(|pool| pool.block.is_some_and(|block| block >= 20_000 && pool.pooled >= block)));
    let view = cpu.transpose(&cpu.tensor(&[2, 2], &[1u8, 2, 3, 4]).unwrap(), &[1, 0]).unwrap();
    assert_eq!(memory.map(&view, <[u8]>::to_vec).unwrap(), [1, 3, 2, 4]);
}
