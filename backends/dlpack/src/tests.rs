//! Tests that tensors can be exchanged in both directions, that each tensor is released once, and that
//! invalid tensors are refused.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, unsafe_code, reason = "tests")]

use super::*;
use bb_ir::{DataType, TensorData};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A tensor that another library created.
struct Foreign {
    managed: DLManagedTensor,
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    elements: Vec<f32>,
    released: Arc<AtomicUsize>,
}

unsafe extern "C" fn release(managed: *mut DLManagedTensor) {
    // SAFETY: the context is the box that `foreign` leaked.
    let whole = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
    whole.released.fetch_add(1, Ordering::SeqCst);
}

/// Creates a tensor of the numbers 0, 1, 2, …. `change` modifies its structure before it is passed on.
fn foreign(
    count: usize,
    shape: &[i64],
    strides: Option<&[i64]>,
    change: impl FnOnce(&mut DLTensor),
) -> (Managed, Arc<AtomicUsize>) {
    let released = Arc::new(AtomicUsize::new(0));
    let tensor = DLTensor {
        data: std::ptr::null_mut(),
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: shape.len() as i32,
        dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let whole = Foreign {
        managed: DLManagedTensor {
            dl_tensor: tensor,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(release),
        },
        shape: shape.to_vec(),
        strides: strides.map(<[i64]>::to_vec),
        elements: (0..count).map(|i| i as f32).collect(),
        released: released.clone(),
    };
    let whole = Box::leak(Box::new(whole));
    let tensor = &mut whole.managed.dl_tensor;
    tensor.data = whole.elements.as_mut_ptr().cast::<c_void>();
    tensor.shape = whole.shape.as_mut_ptr();
    tensor.strides = whole.strides.as_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr());
    change(tensor);
    let whole: *mut Foreign = whole;
    // SAFETY: the structure is valid, and `release` releases it.
    let managed = unsafe {
        (*whole).managed.manager_ctx = whole.cast::<c_void>();
        Managed::from_raw(&raw mut (*whole).managed).unwrap()
    };
    (managed, released)
}

fn released(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

#[test]
fn dense_elements_are_shared_and_released_once() {
    for strides in [None, Some(&[3, 1][..])] {
        let (managed, count) = foreign(6, &[2, 3], strides, |_| ());
        let data = managed.into_tensor().unwrap();
        let again = data.clone();
        assert_eq!((data.dtype(), data.shape()), (DataType::F32, &[2, 3][..]));
        assert_eq!(data.as_slice::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        drop(data);
        assert_eq!(released(&count), 0);
        assert_eq!(again.as_slice::<f32>().unwrap()[5], 5.0);
        std::thread::spawn(move || drop(again)).join().unwrap();
        assert_eq!(released(&count), 1);
    }
}

#[test]
fn strides_and_offsets_select_the_elements() {
    let numbers = |count, shape: &[i64], strides: &[i64], offset: u64| {
        let (managed, counter) = foreign(count, shape, Some(strides), |t| t.byte_offset = offset * 4);
        let data = managed.into_tensor().unwrap();
        let numbers = data.as_slice::<f32>().unwrap().to_vec();
        drop(data);
        assert_eq!(released(&counter), 1);
        numbers
    };
    // A transpose, a reversed row, a repeated row, every second element, and a dimension of extent 1.
    assert_eq!(numbers(6, &[3, 2], &[1, 3], 0), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(numbers(4, &[4], &[-1], 3), [3.0, 2.0, 1.0, 0.0]);
    assert_eq!(numbers(2, &[2, 2], &[0, 1], 0), [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(numbers(6, &[2], &[2], 1), [1.0, 3.0]);
    assert_eq!(numbers(6, &[1, 2], &[99, 1], 4), [4.0, 5.0]);
    assert_eq!(numbers(3, &[], &[], 2), [2.0]);
    assert_eq!(numbers(0, &[0, 3], &[3, 1], 0), []);
}

#[test]
fn what_cannot_be_used_is_refused_and_released() {
    let refused = |shape: &[i64], strides: Option<&[i64]>, change: fn(&mut DLTensor)| {
        let (managed, count) = foreign(1, shape, strides, change);
        let error = managed.into_tensor().unwrap_err();
        assert_eq!(released(&count), 1);
        error
    };
    assert!(matches!(refused(&[1], None, |t| t.device.device_type = 2), DlpackError::Device(2)));
    assert!(matches!(refused(&[1], None, |t| t.dtype.lanes = 4), DlpackError::Type(_)));
    assert!(matches!(refused(&[1], None, |t| t.dtype.lanes = 0), DlpackError::Type(_)));
    assert!(matches!(refused(&[1], None, |t| t.dtype.code = 3), DlpackError::Type(_)));
    assert!(matches!(refused(&[1], None, |t| t.dtype.bits = 4), DlpackError::Type(_)));
    assert!(matches!(refused(&[1], None, |t| t.ndim = -1), DlpackError::Rank(-1)));
    assert!(matches!(refused(&[1], None, |t| t.data = std::ptr::null_mut()), DlpackError::Null(_)));
    assert!(matches!(refused(&[1], None, |t| t.shape = std::ptr::null_mut()), DlpackError::Null(_)));
    assert!(matches!(refused(&[1, -2], None, |_| ()), DlpackError::Extent { axis: 1, extent: -2 }));
    assert!(matches!(refused(&[i64::MAX, i64::MAX], None, |_| ()), DlpackError::TooLarge));
    assert!(matches!(refused(&[i64::MAX], None, |_| ()), DlpackError::TooLarge));
    assert!(matches!(refused(&[3], Some(&[i64::MAX]), |_| ()), DlpackError::TooLarge));
    assert!(matches!(refused(&[3], Some(&[i64::MIN]), |_| ()), DlpackError::TooLarge));
    assert!(matches!(refused(&[1], None, |t| t.byte_offset = u64::MAX), DlpackError::TooLarge));
    // The bytes of 0.0 are valid booleans (false); 1.0 has a byte that is not.
    let bools = |t: &mut DLTensor| t.dtype = DLDataType { code: 6, bits: 8, lanes: 1 };
    let (managed, count) = foreign(2, &[8], None, bools);
    assert!(matches!(managed.into_tensor(), Err(DlpackError::Elements(bb_ir::Error::BoolByte { .. }))));
    assert_eq!(released(&count), 1);
    // SAFETY: null is allowed.
    assert!(matches!(unsafe { Managed::from_raw(std::ptr::null_mut()) }, Err(DlpackError::Null(_))));
}

#[test]
fn a_tensor_that_is_never_read_or_given_away_is_released_by_its_owner() {
    let (managed, count) = foreign(1, &[1], None, |_| ());
    drop(managed);
    assert_eq!(released(&count), 1);
    let (managed, count) = foreign(1, &[1], None, |_| ());
    let raw = managed.into_raw();
    assert_eq!(released(&count), 0);
    // SAFETY: `into_raw` passed the pointer on above, and no other code owns it.
    drop(unsafe { Managed::from_raw(raw) });
    assert_eq!(released(&count), 1);
    // Without a deleter, there is nothing to call.
    let data = TensorData::new(&[1], &[1f32]).unwrap();
    let raw = Managed::new(&data).unwrap().into_raw();
    // SAFETY: the structure is valid; its deleter is put back before it is released.
    unsafe {
        let deleter = (*raw).deleter.take();
        drop(Managed::from_raw(raw));
        (*raw).deleter = deleter;
        drop(Managed::from_raw(raw));
    }
}

#[test]
fn every_type_of_whole_bytes_goes_both_ways() {
    for &dtype in DataType::ALL {
        for shape in [&[2usize, 3][..], &[], &[2, 0, 3]] {
            let data = TensorData::zeros(dtype, shape, 1 << 10).unwrap();
            match Managed::new(&data) {
                Ok(managed) => {
                    assert!(dtype.bits().is_multiple_of(8), "{dtype}");
                    let back = managed.into_tensor().unwrap();
                    assert_eq!((back.dtype(), back.shape()), (dtype, shape));
                    assert_eq!(back.bytes().unwrap(), data.bytes().unwrap());
                }
                Err(DlpackError::Export(refused)) => assert_eq!(refused, dtype),
                Err(other) => panic!("{other}"),
            }
        }
    }
    let data = TensorData::new(&[2, 3], &[1i64, 2, 3, 4, 5, 6]).unwrap();
    let raw = Managed::new(&data).unwrap().into_raw();
    // SAFETY: the structure is valid until its deleter is called, once.
    unsafe {
        let tensor = &(*raw).dl_tensor;
        assert_eq!(tensor.dtype, DLDataType { code: 0, bits: 64, lanes: 1 });
        assert_eq!(std::slice::from_raw_parts(tensor.shape, 2), [2, 3]);
        assert_eq!(std::slice::from_raw_parts(tensor.strides, 2), [3, 1]);
        assert_eq!(
            tensor.data.cast_const().cast::<u8>(),
            data.bytes().unwrap().as_ptr(),
            "nothing is copied"
        );
        drop(data);
        assert_eq!(std::slice::from_raw_parts(tensor.data.cast::<i64>(), 6), [1, 2, 3, 4, 5, 6]);
        (*raw).deleter.unwrap()(raw);
    }
}
