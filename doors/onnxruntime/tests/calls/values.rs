//! Tests values of all kinds with direct calls.

use crate::data;
use crate::raw::{Opened, OwnedValue, allocator, api, elements, error, fails, made, ok, over, run};
use ONNXTensorElementDataType::*;
use ort_sys::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

/// Returns the strings of a tensor.
fn strings(value: &OwnedValue) -> Vec<String> {
    let (mut info, mut count, mut length) = (null_mut(), 0, 0);
    // SAFETY: the arguments conform to the header.
    unsafe {
        ok((api().GetTensorTypeAndShape)(value.0, &mut info));
        ok((api().GetTensorShapeElementCount)(info, &mut count));
        (api().ReleaseTensorTypeAndShapeInfo)(info);
        ok((api().GetStringTensorDataLength)(value.0, &mut length));
        let (mut bytes, mut offsets) = (vec![0u8; length], vec![0usize; count]);
        let content = api().GetStringTensorContent;
        ok(content(value.0, bytes.as_mut_ptr().cast(), length, offsets.as_mut_ptr(), count));
        let ends = offsets.iter().skip(1).copied().chain([length]);
        let text = |(begin, end): (&usize, usize)| String::from_utf8(bytes[*begin..end].to_vec()).unwrap();
        offsets.iter().zip(ends).map(text).collect()
    }
}

fn part(value: &OwnedValue, index: i32) -> OwnedValue {
    let mut part = null_mut();
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().GetValue)(value.0, index, allocator(), &mut part) });
    OwnedValue(part)
}

fn count(value: &OwnedValue) -> usize {
    let mut count = 0;
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().GetValueCount)(value.0, &mut count) });
    count
}

fn sequence(items: &[&OwnedValue]) -> Result<OwnedValue, (OrtErrorCode, String)> {
    let items: Vec<_> = items.iter().map(|item| item.0.cast_const()).collect();
    let mut made = null_mut();
    // SAFETY: the arguments conform to the header.
    let status =
        unsafe { (api().CreateValue)(items.as_ptr(), items.len(), ONNXType::ONNX_TYPE_SEQUENCE, &mut made) };
    error(status).map_or(Ok(OwnedValue(made)), Err)
}

#[test]
fn every_element_type_has_tensors() {
    for number in 1..=26 {
        // SAFETY: the enumeration has these numbers.
        let ty = unsafe { std::mem::transmute::<i32, ONNXTensorElementDataType>(number) };
        let value = made(&[3, 2], ty);
        let (mut info, mut known) = (null_mut(), ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
        // SAFETY: the arguments conform to the header.
        unsafe {
            ok((api().GetTensorTypeAndShape)(value.0, &mut info));
            ok((api().GetTensorElementType)(info, &mut known));
            (api().ReleaseTensorTypeAndShapeInfo)(info);
        }
        assert_eq!(known, ty);
        let mut bytes = 0;
        // SAFETY: as above.
        let status = unsafe { (api().GetTensorSizeInBytes)(value.0, &mut bytes) };
        match ty {
            ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING => {
                fails(status, OrtErrorCode::ORT_INVALID_ARGUMENT, "strings");
            }
            ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 | ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4 => {
                ok(status);
                assert_eq!(bytes, 3);
            }
            _ => {
                ok(status);
                assert!(bytes > 0);
            }
        }
    }
}

#[test]
fn strings_go_in_and_out() {
    let texts = made(&[2, 2], ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    assert_eq!(strings(&texts), ["", "", "", ""]);
    let four = [c"one", c"", c"drei", c"четыре"].map(CStr::as_ptr);
    let (mut length, mut room) = (0, null_mut::<c_char>());
    // SAFETY: the arguments conform to the header.
    unsafe {
        ok((api().FillStringTensor)(texts.0, four.as_ptr(), 4));
        ok((api().FillStringTensorElement)(texts.0, c"two".as_ptr(), 1));
        ok((api().GetStringTensorElementLength)(texts.0, 3, &mut length));
        assert_eq!(length, "четыре".len());
        ok((api().GetResizedStringTensorElementBuffer)(texts.0, 0, 2, &mut room));
        room.cast::<u8>().copy_from_nonoverlapping(b"hi".as_ptr(), 2);
        let mut copy = [0u8; 4];
        ok((api().GetStringTensorElement)(texts.0, 4, 2, copy.as_mut_ptr().cast()));
        assert_eq!(&copy, b"drei");
        let short = (api().GetStringTensorElement)(texts.0, 3, 2, copy.as_mut_ptr().cast());
        fails(short, OrtErrorCode::ORT_INVALID_ARGUMENT, "needs 4 bytes, got 3");
        let beyond = (api().FillStringTensorElement)(texts.0, c"five".as_ptr(), 4);
        fails(beyond, OrtErrorCode::ORT_INVALID_ARGUMENT, "index 4");
        let three = (api().FillStringTensor)(texts.0, four.as_ptr(), 3);
        fails(three, OrtErrorCode::ORT_INVALID_ARGUMENT, "expected 4 strings, got 3");
        let (mut small, mut offsets) = ([0u8; 3], [0usize; 4]);
        let content = api().GetStringTensorContent;
        let status = content(texts.0, small.as_mut_ptr().cast(), 3, offsets.as_mut_ptr(), 4);
        fails(status, OrtErrorCode::ORT_INVALID_ARGUMENT, "bytes, got 3");
    }
    assert_eq!(strings(&texts), ["hi", "two", "drei", "четыре"]);
}

#[test]
fn sequences_of_texts_go_through_a_model() {
    let session = Opened::of_file(&data("items/sequence_of_texts_goes_through/model.onnx"));
    let texts = made(&[2], ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    let two = [c"a", c"bc"].map(CStr::as_ptr);
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().FillStringTensor)(texts.0, two.as_ptr(), 2) });
    let given = sequence(&[&texts, &texts]).unwrap();
    let (input, output) = ports(&session);
    let result = run(&session, (&input, &given), &output, null()).unwrap();
    assert_eq!(count(&result), 2);
    assert_eq!(strings(&part(&result, 1)), ["a", "bc"]);
}

/// Returns the names of the first input and the first output.
fn ports(session: &Opened) -> (std::ffi::CString, std::ffi::CString) {
    let mut names = [null_mut::<c_char>(); 2];
    // SAFETY: the arguments conform to the header, and the allocator owns the names.
    unsafe {
        ok((api().SessionGetInputName)(session.0, 0, allocator(), &mut names[0]));
        ok((api().SessionGetOutputName)(session.0, 0, allocator(), &mut names[1]));
        let texts = names.map(|name| CStr::from_ptr(name).to_owned());
        for name in names {
            ok((api().AllocatorFree)(allocator(), name.cast()));
        }
        let [input, output] = texts;
        (input, output)
    }
}

#[test]
fn a_model_gives_a_sequence_of_maps() {
    let session = Opened::of_file(&data("items/zip_map_to_texts/model.onnx"));
    let mut numbers = [0.25f32, 0.5, 0.125, 1.0];
    let (input, output) = ports(&session);
    let columns = columns(&session);
    let rows = numbers.len() as i64 / columns;
    let given = over(&mut numbers, &[rows, columns], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    let result = run(&session, (&input, &given), &output, null()).unwrap();
    assert_eq!(count(&result) as i64, rows);
    let map = part(&result, 0);
    let mut kind = ONNXType::ONNX_TYPE_UNKNOWN;
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().GetValueType)(map.0, &mut kind) });
    assert_eq!((kind, count(&map)), (ONNXType::ONNX_TYPE_MAP, 2));
    assert_eq!(strings(&part(&map, 0)).len() as i64, columns);
    assert_eq!(elements::<f32>(&part(&map, 1))[0], 0.25);
    let (mut info, mut of, mut key) = (null_mut(), null(), ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
    // SAFETY: as above.
    unsafe {
        ok((api().GetTypeInfo)(map.0, &mut info));
        ok((api().CastTypeInfoToMapTypeInfo)(info, &mut of));
        ok((api().GetMapKeyType)(of, &mut key));
        assert_eq!(key, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
        let mut none = null();
        ok((api().CastTypeInfoToTensorInfo)(info, &mut none));
        assert!(none.is_null(), "a map is no tensor");
        (api().ReleaseTypeInfo)(info);
    }
    let beyond = part_status(&map, 2);
    fails(beyond, OrtErrorCode::ORT_INVALID_ARGUMENT, "index 2");
}

fn part_status(value: &OwnedValue, index: i32) -> OrtStatusPtr {
    let mut part = null_mut();
    // SAFETY: the arguments conform to the header.
    unsafe { (api().GetValue)(value.0, index, allocator(), &mut part) }
}

/// Returns the number of columns of the first input.
fn columns(session: &Opened) -> i64 {
    let (mut info, mut tensor, mut extents) = (null_mut(), null(), [0i64; 2]);
    // SAFETY: the arguments conform to the header, and the input has two dimensions.
    unsafe {
        ok((api().SessionGetInputTypeInfo)(session.0, 0, &mut info));
        ok((api().CastTypeInfoToTensorInfo)(info, &mut tensor));
        ok((api().GetDimensions)(tensor, extents.as_mut_ptr(), 2));
        (api().ReleaseTypeInfo)(info);
    }
    extents[1]
}

#[test]
fn a_sequence_has_one_type() {
    let mut numbers = [1f32; 4];
    let four = over(&mut numbers, &[4], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    let texts = made(&[1], ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    assert!(sequence(&[&four, &texts]).is_err());
    assert!(sequence(&[]).is_err());
    let both = sequence(&[&four, &four]).unwrap();
    assert_eq!(elements::<f32>(&part(&both, 0)), [1.0; 4]);
}

#[test]
fn single_elements_and_copies() {
    let mut numbers = [1i32, 2, 3, 4, 5, 6];
    let grid = over(&mut numbers, &[2, 3], ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
    let mut place = null_mut::<c_void>();
    // SAFETY: the arguments conform to the header.
    unsafe {
        ok((api().TensorAt)(grid.0, [1i64, 2].as_ptr(), 2, &mut place));
        assert_eq!(place.cast::<i32>().read(), 6);
        let beyond = (api().TensorAt)(grid.0, [1i64, 3].as_ptr(), 2, &mut place);
        fails(beyond, OrtErrorCode::ORT_INVALID_ARGUMENT, "index 3");
        let copy = made(&[2, 3], ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
        let mut to = [copy.0.cast_const()];
        let from = [grid.0.cast_const()];
        let env = crate::raw::environment();
        ok((api().CopyTensors)(env, from.as_ptr(), to.as_mut_ptr(), null_mut(), 1));
        assert_eq!(elements::<i32>(&copy), [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn an_allocator_of_the_program_is_asked() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static HELD: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "system" fn alloc(_: *mut OrtAllocator, size: usize) -> *mut c_void {
        HELD.fetch_add(1, Ordering::Relaxed);
        // The first word of a block stores the number of its words.
        let words = 1 + size.div_ceil(8);
        let mut block = vec![0u64; words].into_boxed_slice();
        block[0] = words as u64;
        Box::into_raw(block).cast::<u64>().wrapping_add(1).cast()
    }
    unsafe extern "system" fn free(_: *mut OrtAllocator, block: *mut c_void) {
        if !block.is_null() {
            HELD.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: `alloc` allocated the block.
            unsafe {
                let block = block.cast::<u64>().sub(1);
                drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(block, *block as usize)));
            }
        }
    }
    // SAFETY: the members are set below.
    let mut own = unsafe { OrtAllocator::default() };
    own.Alloc = Some(alloc);
    own.Free = Some(free);
    let mut value = null_mut();
    // SAFETY: the arguments conform to the header.
    unsafe {
        let ty = ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
        ok((api().CreateTensorAsOrtValue)(&mut own, [8i64].as_ptr(), 1, ty, &mut value));
        assert_eq!(HELD.load(Ordering::Relaxed), 1);
        (api().ReleaseValue)(value);
        assert_eq!(HELD.load(Ordering::Relaxed), 0);
        let block = alloc(null_mut(), 16);
        ok((api().CreateTensorWithDataAndDeleterAsOrtValue)(
            &mut own,
            block,
            16,
            [2i64].as_ptr(),
            1,
            ty,
            &mut value,
        ));
        (api().ReleaseValue)(value);
        assert_eq!(HELD.load(Ordering::Relaxed), 0);
        own.Alloc = None;
        let none = (api().CreateTensorAsOrtValue)(&mut own, [8i64].as_ptr(), 1, ty, &mut value);
        fails(none, OrtErrorCode::ORT_INVALID_ARGUMENT, "`Alloc`");
    }
}
