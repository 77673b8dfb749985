//! Tests functions of open backends that return garbage.

use super::{good, linked};
use bb::{
    Backend, BackendHandle, BackendLibrary, CompileOptions, DataType, Erased, Error, ErrorKind,
    LoadedBackend, LoadedError, Module, OpenOptions, TensorData,
};
use bb_c::abi::{Failure, Items, Library, Primitives, Raw, RawTensor, Results, Status};
use bb_ir::op::Param;
use std::cell::Cell;

type Binary = unsafe extern "C" fn(
    *mut Raw,
    *const RawTensor,
    *const RawTensor,
    Results,
    usize,
    *mut Failure,
) -> Status;
type ToHost =
    unsafe extern "C" fn(*mut Raw, *const RawTensor, *mut u8, usize, *mut usize, *mut Failure) -> Status;

fn open(library: BackendLibrary) -> LoadedBackend {
    library.open(&OpenOptions::default()).unwrap()
}

/// Returns the error of an addition of tensors with these extents, if `add` of the backend written in C is replaced.
fn added(add: Binary, shape: &[usize]) -> LoadedError {
    let (table, primitives) = good();
    let table = Library { release: Some(counted), ..table };
    let on = open(linked(table, Primitives { add: Some(add), ..primitives }).unwrap());
    let x = on.constant(&TensorData::new(shape, &[1f32, 2.]).unwrap()).unwrap();
    on.add(&x, &x).unwrap_err()
}

thread_local! {
    /// The number of tensors that this thread has released.
    static RELEASED: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" fn counted(on: *mut Raw, x: *mut RawTensor) {
    RELEASED.set(RELEASED.get() + 1);
    // SAFETY: the host releases a tensor of the backend written in C.
    unsafe { good().0.release.unwrap()(on, x) }
}

/// Calls `add` of the backend written in C.
unsafe fn add(
    on: *mut Raw,
    a: *const RawTensor,
    b: *const RawTensor,
    to: Results,
    error: *mut Failure,
) -> Status {
    // SAFETY: the host passes valid pointers.
    unsafe { good().1.add.unwrap()(on, a, b, to, 1, error) }
}

macro_rules! sums {
    ($($name:ident($on:ident, $a:ident, $b:ident, $to:ident, $error:ident) $body:block)*) => { $(
        #[allow(unused_unsafe, reason = "one of the functions touches nothing")]
        unsafe extern "C" fn $name($on: *mut Raw, $a: *const RawTensor, $b: *const RawTensor, $to: Results, _: usize, $error: *mut Failure) -> Status {
            // SAFETY: the host passes valid pointers.
            unsafe { $body }
        }
    )* };
}

static SHAPE: [usize; 2] = [7, 1];
static THREE: [usize; 1] = [3];
static LARGE: [usize; 2] = [usize::MAX, usize::MAX];

sums! {
    null(_on, _a, _b, _to, _error) { 0 }
    operand(_on, a, _b, to, _error) { (*to).tensor = a.cast_mut(); 0 }
    other_type(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).dtype = DataType::I64.to_onnx(); status }
    no_type(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).dtype = -3; status }
    other_shape(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).shape = THREE.as_ptr(); status }
    other_rank(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).shape = SHAPE.as_ptr(); (*to).rank = 2; status }
    only_rank(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).rank = 7; status }
    large(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).shape = LARGE.as_ptr(); (*to).rank = 2; status }
    no_shape(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).shape = std::ptr::null(); status }
    many(on, a, b, to, error) { let status = add(on, a, b, to, error); (*to).rank = usize::MAX; status }
    strange(_on, _a, _b, _to, error) {
        for (at, byte) in [0xffu8, b'h', b'm'].into_iter().enumerate() {
            (*error).text.cast::<u8>().add(at).write(byte);
        }
        (*error).length = 3;
        12345
    }
    leaves(on, a, b, to, error) { add(on, a, b, to, error); 4 }
    leaves_operand(_on, a, _b, to, _error) { (*to).tensor = a.cast_mut(); 42 }
}

#[test]
fn results_are_compared_with_the_rules() {
    let text = |add: Binary| added(add, &[2]).to_string();
    let said = "backend `plain` broke a promise of the interface in `add`: ";
    assert_eq!(text(null), format!("{said}result 0: expected a tensor, got null"));
    assert_eq!(
        text(operand),
        format!(
            "{said}result 0: expected a tensor of its own, got operand 0: make a new tensor, which may share the memory"
        )
    );
    assert_eq!(text(other_type), format!("{said}the element type of result 0: expected f32, got i64"));
    assert_eq!(text(no_type), format!("{said}the element type of result 0: expected f32, got -3"));
    assert_eq!(text(other_shape), format!("{said}the shape of result 0: expected [2], got [3]"));
    let large = added(large, &[2, 1]).to_string();
    assert!(
        large.starts_with(&format!("{said}the shape of result 0: expected extents that memory has room for"))
    );
    assert_eq!(
        text(no_shape),
        format!("{said}the shape of result 0: expected a pointer to 1 extents, got null")
    );
}

/// The extents are fewer than the rank says, so the host must not read any of them.
#[test]
fn a_wrong_rank_is_named_without_extents() {
    let said = "backend `plain` broke a promise of the interface in `add`: the rank of result 0: expected";
    let cases: [(Binary, usize); 3] = [(other_rank, 2), (only_rank, 7), (many, usize::MAX)];
    for (add, rank) in cases {
        let text = added(add, &[2]).to_string();
        assert_eq!(text, format!("{said} 1 for the extents [2], got {rank}"));
    }
    assert_eq!(added(only_rank, &[2, 1]).to_string(), format!("{said} 2 for the extents [2, 1], got 7"));
}

/// The run fails, and the node does not move to the next backend of `first_of`.
#[test]
fn a_wrong_result_in_a_trial_is_an_error_and_not_a_lack() {
    let graph = bb::trace(&[("x", DataType::F32, &[2]), ("y", DataType::F32, &[2])], |on, inputs| {
        Ok(vec![on.add(&inputs[0], &inputs[1])?])
    })
    .unwrap();
    let module = Module::from_graph(&graph, &[], &[]).unwrap();
    let (table, primitives) = good();
    let wrong = open(linked(table, Primitives { add: Some(other_shape), ..primitives }).unwrap());
    let checked = bb_layers::Check::new(Erased::new(wrong.clone()), true);
    for mine in [BackendHandle::start("mine", wrong), BackendHandle::start("mine", checked)] {
        let other = BackendHandle::start("other", bb_reference::Reference);
        let both = BackendHandle::start("both", bb::first_of([mine, other]).unwrap().with_order());
        let compiled = both.compile(module.clone(), &CompileOptions::default()).unwrap();
        let x = both.tensor(&[2], &[1f32, 2.]).unwrap();
        let error = compiled.run(&[Some(&x), Some(&x)]).unwrap_err();
        assert_eq!(both.error_kind(&error), ErrorKind::Device);
        let text = bb_core::error::causes(&error);
        let said = "backend `plain` broke a promise of the interface in `add`: the shape of result 0: expected [2], got [3]";
        assert!(text.contains(said), "{text}");
    }
}

/// The exponential is a logarithm here: the body of `softmax` passes it numbers that are not positive.
#[test]
fn check_finds_the_nan_of_a_broken_kernel_inside_a_body() {
    let (table, primitives) = good();
    let broken = open(linked(table, Primitives { exp: primitives.log, ..primitives }).unwrap());
    let on = BackendHandle::start("mine", bb_layers::Check::new(Erased::new(broken), true));
    let x = on.tensor(&[2], &[1f32, 2.]).unwrap();
    let softmax = bb::operation("softmax").unwrap();
    let error = on.call(softmax, &[Some(&x)], &[Param::Int(-1)]).unwrap_err();
    let text = bb_core::error::causes(&error);
    let said = "layer `check` failed in `exp`: result 0 has NaN at element 0, and all operands are finite";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_status_that_the_header_does_not_define_is_named() {
    let error = added(strange, &[2]);
    assert_eq!(
        error.to_string(),
        "backend `plain` broke a promise of the interface in `add`: the status: expected one that `bb.h` defines, got 12345; the call \
         failed: \u{fffd}hm"
    );
    assert_eq!(LoadedBackend::wrapped(&error).unwrap().kind(), ErrorKind::Device);
}

#[test]
fn a_tensor_that_a_failed_call_leaves_is_released() {
    let before = RELEASED.get();
    let error = added(leaves, &[2]);
    assert_eq!(
        error.to_string(),
        "backend `plain` broke a promise of the interface in `add`: result 0 of a failed call: expected null, got a tensor, which was \
         released; the call failed: it does not say why"
    );
    assert_eq!(LoadedBackend::wrapped(&error).unwrap().kind(), ErrorKind::Device);
    assert_eq!(RELEASED.get() - before, 2, "the operand and the result");
    // An operand is released once, by its owner.
    assert_eq!(
        added(leaves_operand, &[2]).to_string(),
        "backend `plain` broke a promise of the interface in `add`: the status: expected one that `bb.h` defines, got 42; the call \
         failed: it does not say why"
    );
    assert_eq!(RELEASED.get() - before, 3);
}

unsafe extern "C" fn twice(
    on: *mut Raw,
    x: *const RawTensor,
    axis: i64,
    sizes: Items<usize>,
    to: Results,
    count: usize,
    error: *mut Failure,
) -> Status {
    // SAFETY: the host passes valid pointers. The second part is released here, because the first part replaces it.
    unsafe {
        let status = good().1.split.unwrap()(on, x, axis, sizes, to, count, error);
        good().0.release.unwrap()(on, (*to.add(1)).tensor);
        (*to.add(1)).tensor = (*to).tensor;
        status
    }
}

#[test]
fn a_tensor_that_is_returned_twice_is_released_once() {
    let (table, primitives) = good();
    let on = open(linked(table, Primitives { split: Some(twice), ..primitives }).unwrap());
    let x = on.constant(&TensorData::new(&[4], &[1f32, 2., 3., 4.]).unwrap()).unwrap();
    let error = on.split(&x, 0, &[2, 2]).unwrap_err().to_string();
    assert!(error.contains("result 1: expected a tensor of its own, got result 0: "), "{error}");
}

unsafe extern "C" fn short(
    on: *mut Raw,
    x: *const RawTensor,
    to: *mut u8,
    room: usize,
    length: *mut usize,
    error: *mut Failure,
) -> Status {
    // SAFETY: the host passes valid pointers.
    unsafe {
        let status = good().0.to_host.unwrap()(on, x, to, room, length, error);
        *length -= 1;
        status
    }
}

unsafe extern "C" fn garbage(
    _: *mut Raw,
    _: *const RawTensor,
    to: *mut u8,
    room: usize,
    length: *mut usize,
    _: *mut Failure,
) -> Status {
    // SAFETY: the host passes valid pointers.
    unsafe {
        std::ptr::write_bytes(to, 0xee, room);
        *length = room;
    }
    0
}

#[test]
fn bytes_are_compared_with_what_a_tensor_says() {
    let on = |to_host: ToHost| {
        let (table, primitives) = good();
        open(linked(Library { to_host: Some(to_host), ..table }, primitives).unwrap())
    };
    let floats = TensorData::new(&[2], &[1f32, 2.]).unwrap();
    let truth = TensorData::bools(&[3], &[true, false, true]).unwrap();
    let short = on(short);
    let error = short.to_host(&short.constant(&floats).unwrap()).unwrap_err().to_string();
    assert!(error.ends_with("the number of bytes: expected 8 bytes for f32[2], got 7"), "{error}");
    let garbage = on(garbage);
    // Any bytes are valid floats, but not valid booleans.
    assert!(garbage.to_host(&garbage.constant(&floats).unwrap()).is_ok());
    let error = garbage.to_host(&garbage.constant(&truth).unwrap()).unwrap_err();
    assert!(matches!(error, LoadedError::Bb(Error::BrokenPromise(_))), "{error}");
}

#[test]
fn tensors_of_another_instance_are_refused() {
    let (table, primitives) = good();
    let library = linked(table, primitives).unwrap();
    let (one, other) = (open(library.clone()), open(library));
    let x = one.constant(&TensorData::scalar(1f32)).unwrap();
    assert!(other.add(&x, &x).unwrap_err().to_string().contains("one of another instance"));
    assert!(other.to_host(&x).is_err());
}
