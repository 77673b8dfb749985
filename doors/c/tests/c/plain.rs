//! Runs the conformance cases of all primitives on the backend written in C, and ONNX's cases for its element types.

use crate::abuse::{good, linked};
use crate::built;
use bb::LoadedBackend;
use bb_c::abi::Primitives;

fn plain() -> LoadedBackend {
    bb::load_backend(built::plain()).unwrap()
}

bb::conformance!(suite, super::plain(), cases = 3);

#[test]
fn it_describes_itself() {
    let library = bb::BackendLibrary::load(built::plain()).unwrap();
    assert_eq!((library.name(), library.version()), ("plain", "1.0.0"));
    assert!(library.devices().unwrap().is_empty());
    let types = bb::Backend::types(&plain());
    assert_eq!(types.to_string(), "f32, u8, i8, u16, i16, i32, i64, bool, f64, u32, u64");
}

#[test]
fn a_primitive_that_is_null_does_not_run() {
    use bb::Backend;
    let (table, primitives) = good();
    let library = linked(table, Primitives { log: None, ..primitives }).unwrap();
    let on = library.open(&bb::OpenOptions::default()).unwrap();
    assert!(!on.runs_primitive(bb::Primitive::Log) && on.runs_primitive(bb::Primitive::Exp));
    assert!(!on.runs_whole_graphs());
    let x = on.constant(&bb::TensorData::new(&[2], &[1f32, 2.]).unwrap()).unwrap();
    let error = on.log(&x).unwrap_err();
    assert_eq!(error.to_string(), "the backend does not run `log`");
    assert_eq!(LoadedBackend::wrapped(&error).unwrap().kind(), bb::ErrorKind::Unsupported);
    assert!(on.exp(&x).is_ok());
}

#[test]
fn errors_of_elements_say_whose_fault_they_are() {
    use bb::Backend;
    let on = plain();
    let make = |shape: &[usize], elements: &[i64]| {
        on.constant(&bb::TensorData::new(shape, elements).unwrap()).unwrap()
    };
    let kind = |error: bb::LoadedError| LoadedBackend::wrapped(&error).unwrap().kind();
    let error = on.gather(&make(&[3], &[1, 2, 3]), &make(&[1], &[3]), 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `plain` failed in `gather`: index 3 is out of range: the extent is 3"
    );
    assert_eq!(kind(error), bb::ErrorKind::WrongInput);
    let error = on.div(&make(&[1], &[1]), &make(&[1], &[0])).unwrap_err();
    assert_eq!(error.to_string(), "backend `plain` failed in `div`: an integer is divided by zero");
    assert_eq!(kind(error), bb::ErrorKind::WrongInput);
}
