//! Tests misuse by programs, as far as the library can detect it.

use crate::data;
use crate::raw::{Opened, api, environment, error, fails, host, made, ok, over, run};
use ONNXTensorElementDataType::*;
use OrtErrorCode::*;
use ort_sys::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

#[test]
fn versions_that_do_not_exist_have_no_table() {
    let base = bb_onnxruntime::OrtGetApiBase().cast::<OrtApiBase>();
    // SAFETY: the base table has both functions.
    unsafe {
        for version in 1..=bb_onnxruntime::API_VERSION {
            assert!(!((*base).GetApi)(version).is_null());
        }
        for version in [0, bb_onnxruntime::API_VERSION + 1, u32::MAX] {
            assert!(((*base).GetApi)(version).is_null());
        }
        assert_eq!(CStr::from_ptr(((*base).GetVersionString)()), c"1.31.0");
        assert!(CStr::from_ptr((api().GetBuildInfoString)()).to_str().unwrap().starts_with("bb "));
    }
}

#[test]
fn a_function_that_is_not_there_says_its_name() {
    let (mut domain, mut info) = (null_mut(), null_mut());
    // SAFETY: the stubs read no arguments.
    unsafe {
        let status = (api().CreateCustomOpDomain)(c"test".as_ptr(), &mut domain);
        fails(status, ORT_NOT_IMPLEMENTED, "`CreateCustomOpDomain`");
        let status = (api().CreateCUDAProviderOptions)(&mut info);
        fails(status, ORT_NOT_IMPLEMENTED, "`CreateCUDAProviderOptions`");
        (api().ReleaseCustomOpDomain)(null_mut());
        assert!((api().GetTrainingApi)(ORT_API_VERSION).is_null());
        assert!((api().GetModelEditorApi)().is_null());
    }
}

#[test]
fn null_is_an_error_where_there_must_be_something() {
    let session = Opened::of_file(&data("models/surfaces_gbr/model.onnx"));
    let (mut opened, mut value, mut count) = (null_mut(), null_mut(), 0usize);
    let invalid = |status: OrtStatusPtr| fails(status, ORT_INVALID_ARGUMENT, "got null");
    // SAFETY: the library checks the pointers for null before it dereferences them.
    unsafe {
        let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING;
        invalid((api().CreateEnv)(level, null(), null_mut()));
        invalid((api().CreateSession)(null(), c"model.onnx".as_ptr(), null(), &mut opened));
        invalid((api().CreateSession)(environment(), null(), null(), &mut opened));
        invalid((api().CreateSession)(environment(), c"model.onnx".as_ptr(), null(), null_mut()));
        invalid((api().CreateSessionFromArray)(environment(), null(), 8, null(), &mut opened));
        invalid((api().SessionGetInputCount)(null(), &mut count));
        invalid((api().SessionGetInputCount)(session.0, null_mut()));
        invalid((api().CreateTensorAsOrtValue)(
            null_mut(),
            null(),
            0,
            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            &mut value,
        ));
        invalid((api().GetTensorMutableData)(null_mut(), null_mut()));
        invalid((api().IsTensor)(null(), null_mut()));
        invalid((api().AddSessionConfigEntry)(null_mut(), c"a".as_ptr(), c"b".as_ptr()));
        invalid((api().Run)(null_mut(), null(), null(), null(), 0, null(), 0, null_mut()));
        invalid((api().Run)(session.0, null(), null(), null(), 1, null(), 0, null_mut()));
        let (names, values) = ([null::<c_char>()], [null::<OrtValue>()]);
        let (inputs, outputs) = ([c"input".as_ptr()], [c"variable".as_ptr()]);
        let mut results = [null_mut()];
        let run = api().Run;
        invalid(run(
            session.0,
            null(),
            inputs.as_ptr(),
            values.as_ptr(),
            1,
            outputs.as_ptr(),
            1,
            results.as_mut_ptr(),
        ));
        invalid(run(
            session.0,
            null(),
            names.as_ptr(),
            values.as_ptr(),
            1,
            outputs.as_ptr(),
            1,
            results.as_mut_ptr(),
        ));
        invalid(run(session.0, null(), null(), null(), 0, outputs.as_ptr(), 1, null_mut()));
        // Releasing null is allowed.
        (api().ReleaseSession)(null_mut());
        (api().ReleaseEnv)(null_mut());
        (api().ReleaseValue)(null_mut());
        (api().ReleaseStatus)(null_mut());
        (api().ReleaseSessionOptions)(null_mut());
        assert_eq!((api().GetErrorCode)(null()), ORT_OK);
    }
}

#[test]
fn tensors_must_fit_their_memory() {
    let mut value = null_mut();
    let numbers = [0f32; 4];
    let create = |shape: &[i64], bytes: usize, number: i32, value: &mut *mut OrtValue| {
        let (first, info) = (numbers.as_ptr().cast_mut().cast::<c_void>(), host());
        // SAFETY: the memory is at least as long as its stated size. An invalid type number is passed through a transmuted function, like
        // in C.
        unsafe {
            let create = std::mem::transmute::<
                unsafe extern "system" fn(_, _, _, _, _, _, _) -> _,
                unsafe extern "system" fn(_, _, _, _, _, i32, _) -> OrtStatusPtr,
            >(api().CreateTensorWithDataAsOrtValue);
            let status = create(info, first, bytes, shape.as_ptr(), shape.len(), number, value);
            (api().ReleaseMemoryInfo)(info);
            status
        }
    };
    fails(create(&[5], 16, 1, &mut value), ORT_INVALID_ARGUMENT, "needs 20 bytes, got 16");
    fails(create(&[-1], 16, 1, &mut value), ORT_INVALID_ARGUMENT, "-1");
    fails(create(&[i64::MAX, i64::MAX], 16, 1, &mut value), ORT_INVALID_ARGUMENT, "");
    fails(create(&[4], 16, 0, &mut value), ORT_INVALID_ARGUMENT, "element type 0");
    fails(create(&[4], 16, 99, &mut value), ORT_INVALID_ARGUMENT, "element type 99");
    fails(create(&[4], 16, 8, &mut value), ORT_INVALID_ARGUMENT, "strings");
    ok(create(&[4], 16, 1, &mut value));
    // SAFETY: the value was just created.
    unsafe { (api().ReleaseValue)(value) };
}

#[test]
fn values_of_other_kinds_are_errors() {
    let session = Opened::of_file(&data("models/surfaces_gbr/model.onnx"));
    let mut numbers = [1f32; 4];
    let given = over(&mut numbers, &[1, 4], ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    let items = [given.0.cast_const()];
    let (mut sequence, mut place, mut count) = (null_mut(), null_mut(), 0);
    // SAFETY: the arguments conform to the header.
    unsafe {
        ok((api().CreateValue)(items.as_ptr(), 1, ONNXType::ONNX_TYPE_SEQUENCE, &mut sequence));
        fails((api().GetTensorMutableData)(sequence, &mut place), ORT_INVALID_ARGUMENT, "got a sequence");
        fails((api().GetValueCount)(given.0, &mut count), ORT_INVALID_ARGUMENT, "got a tensor");
        fails((api().GetStringTensorDataLength)(given.0, &mut count), ORT_INVALID_ARGUMENT, "strings");
        let wrong = (api().CreateValue)(items.as_ptr(), 1, ONNXType::ONNX_TYPE_SPARSETENSOR, &mut sequence);
        fails(wrong, ORT_INVALID_ARGUMENT, "got 5");
    }
    let held = crate::raw::OwnedValue(sequence);
    let (code, message) = run(&session, (c"input", &held), c"variable", null()).unwrap_err();
    assert!(code == ORT_INVALID_ARGUMENT, "{message}");
    let (code, message) = run(&session, (c"input", &given), c"nothing", null()).unwrap_err();
    assert!(code == ORT_INVALID_ARGUMENT && message.contains("`nothing`"), "{message}");
    let bool = made(&[1, 4], ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL);
    let (code, message) = run(&session, (c"input", &bool), c"variable", null()).unwrap_err();
    assert!(code == ORT_INVALID_ARGUMENT && message.contains("bool"), "{message}");
    let texts = made(&[1, 4], ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    let broken = [c"\xff".as_ptr(); 4];
    // SAFETY: the arguments conform to the header.
    ok(unsafe { (api().FillStringTensor)(texts.0, broken.as_ptr(), 4) });
    let (code, message) = run(&session, (c"input", &texts), c"variable", null()).unwrap_err();
    assert!(code == ORT_INVALID_ARGUMENT && message.contains("got string"), "{message}");
}

#[test]
fn a_file_that_is_none_has_a_number_of_its_own() {
    let mut session = null_mut();
    // SAFETY: the arguments conform to the header.
    unsafe {
        let open = api().CreateSession;
        let status = open(environment(), c"/no/such/file.onnx".as_ptr(), null(), &mut session);
        fails(status, ORT_NO_SUCHFILE, "/no/such/file.onnx");
        fails(open(environment(), c"/".as_ptr(), null(), &mut session), ORT_NO_SUCHFILE, "");
    }
}

/// Opens models with one mistake each, from the tests of checks. Each results in an error or a session, never in a crash.
#[test]
fn hostile_models_are_errors() {
    let mut tried = 0;
    for folder in ["hostile", "fuzzed", "trials"] {
        let Ok(files) = std::fs::read_dir(data(folder)) else { continue };
        for file in files {
            let path = file.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let model = std::fs::read(&path).unwrap();
            if let Err((code, message)) = Opened::of_bytes(&model) {
                assert!(code != ORT_OK && !message.is_empty(), "{}", path.display());
            }
            tried += 1;
        }
    }
    let model = std::fs::read(data("models/surfaces_gbr/model.onnx")).unwrap();
    for at in (0..model.len()).step_by(97) {
        let mut damaged = model.clone();
        damaged[at] ^= 0x5a;
        let _either = Opened::of_bytes(&damaged);
        tried += 1;
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn settings_that_do_nothing_are_accepted_and_others_refused() {
    let mut options = null_mut();
    // SAFETY: the arguments conform to the header.
    unsafe {
        ok((api().CreateSessionOptions)(&mut options));
        ok((api().SetSessionGraphOptimizationLevel)(options, GraphOptimizationLevel::ORT_ENABLE_ALL));
        ok((api().SetSessionLogSeverityLevel)(options, 3));
        ok((api().DisableCpuMemArena)(options));
        ok((api().DisableProfiling)(options));
        fails((api().EnableProfiling)(options, c"times".as_ptr()), ORT_NOT_IMPLEMENTED, "file of times");
        fails((api().SetIntraOpNumThreads)(options, -1), ORT_INVALID_ARGUMENT, "-1");
        fails((api().AddFreeDimensionOverrideByName)(options, c"n".as_ptr(), -2), ORT_INVALID_ARGUMENT, "-2");
        let append = api().SessionOptionsAppendExecutionProvider;
        ok(append(options, c"CPUExecutionProvider".as_ptr(), null(), null(), 0));
        let status = append(options, c"XNNPACK".as_ptr(), null(), null(), 0);
        fails(status, ORT_INVALID_ARGUMENT, "`XNNPACK`");
        let (mut text, mut size) = ([0u8; 8], 8usize);
        ok((api().AddSessionConfigEntry)(options, c"key".as_ptr(), c"value".as_ptr()));
        ok((api().GetSessionConfigEntry)(options, c"key".as_ptr(), text.as_mut_ptr().cast(), &mut size));
        assert_eq!((&text[..6], size), (&b"value\0"[..], 6));
        size = 3;
        let short =
            (api().GetSessionConfigEntry)(options, c"key".as_ptr(), text.as_mut_ptr().cast(), &mut size);
        fails(short, ORT_INVALID_ARGUMENT, "needs 6 bytes, got 3");
        assert!(
            error((api().GetSessionConfigEntry)(options, c"none".as_ptr(), null_mut(), &mut size)).is_some()
        );
        (api().ReleaseSessionOptions)(options);
        let (mut names, mut count) = (null_mut(), 0);
        ok((api().GetAvailableProviders)(&mut names, &mut count));
        assert_eq!((count, CStr::from_ptr(*names)), (1, c"CPUExecutionProvider"));
        ok((api().ReleaseAvailableProviders)(names, count));
    }
}
