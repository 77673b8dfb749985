//! Libraries of backends in Rust pass what the backends pass where they are linked.

use crate::built;
use bb::LoadedBackend;

fn load(name: &str) -> LoadedBackend {
    bb::load_backend(built::exported(name)).unwrap()
}

bb::conformance!(reference, super::load("reference"));

// Each fifth case: the same code runs all of them where it is linked.
bb::conformance!(whole_graph, super::load("whole_graph"), cases = 5);

// With the native operations of the backend: each fifth case.
bb::conformance!(cpu, super::load("cpu"), cases = 5);

#[test]
fn a_library_has_the_natives_of_its_backend() {
    use bb::InnerBackend;
    let count = |natives: Vec<(bb::ir::op::Family, bb::ext::OpSet)>| -> usize {
        natives.into_iter().map(|(_, set)| set.len()).sum()
    };
    let linked = bb_cpu::Cpu::new().natives();
    let loaded = load("cpu").natives();
    assert!(count(linked.clone()) > 20);
    assert_eq!(count(loaded), count(linked));
}

#[test]
fn options_reach_the_backend() {
    let library = bb::BackendLibrary::load(built::exported("cpu")).unwrap();
    let one = std::num::NonZeroUsize::MIN;
    assert!(library.open(&bb::OpenOptions::default().with_threads(one)).is_ok());
    let error = library.open(&bb::OpenOptions::default().with_own("tile", 3)).unwrap_err();
    assert!(error.to_string().contains("has no option `tile`; its options are: "), "{error}");
    assert_eq!(error.kind(), bb::ErrorKind::Configuration);
}

/// The types that only Rust has: strings, halves, packed integers.
#[test]
fn tensors_of_every_type_come_back() {
    use bb::{Backend, DataType, TensorData};
    let on = load("reference");
    for &dtype in DataType::ALL {
        for shape in [&[][..], &[0], &[2, 3], &[1, 0, 4]] {
            let x = TensorData::zeros(dtype, shape, 1 << 20).unwrap();
            assert_eq!(on.to_host(&on.constant(&x).unwrap()).unwrap(), x, "{dtype} {shape:?}");
        }
    }
    let words = TensorData::strings(&[3], &["", "Straße", "日本"]).unwrap();
    assert_eq!(on.to_host(&on.constant(&words).unwrap()).unwrap(), words);
}

#[test]
fn panics_stay_in_their_library() {
    use bb::{Backend, TensorData};
    let on = load("panics");
    let x = on.constant(&TensorData::scalar(1f32)).unwrap();
    let error = on.add(&x, &x).unwrap_err();
    assert_eq!(error.to_string(), "backend `panics` panicked in `add`: add panics");
    assert!(matches!(error, bb::LoadedError::Panicked { .. }));
    let error = on.to_host(&x).unwrap_err();
    assert_eq!(error.to_string(), "backend `panics` panicked in `to_host`: to_host panics");
    // Dropping panics inside the library, too.
    drop((x, on));
}
