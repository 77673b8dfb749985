//! Tests native operations that decline a call, and whole-graph backends that name the primitives that they run.

use crate::abuse::{good, kept, linked};
use bb::{Backend, BackendHandle, ErrorKind, OpenOptions, Primitive};
use bb_c::abi::{
    Description, Failure, Items, Library, Parameter, Primitives, Raw, RawTensor, Results, Slot, Status, Text,
};
use bb_ir::op::Param;
use std::ffi::c_void;

/// Describes the backend written in C with the native operation `softmax`.
unsafe extern "C" fn describe(into: *mut Description, error: *mut Failure) -> Status {
    // SAFETY: the host passes valid structures.
    unsafe {
        let status = good().0.describe.unwrap()(into, error);
        (*into).natives = Items::of(kept([Text::new("softmax")]));
        status
    }
}

macro_rules! natives {
    ($($name:ident = $status:literal)*) => { $(
        unsafe extern "C" fn $name(
            _: *mut Raw, _: Text, _: Items<*const RawTensor>, _: Items<Parameter>, _: *mut Slot, _: *mut usize, _: *mut Failure,
        ) -> Status {
            $status
        }
    )* };
}

natives! {
    declines = 4
    fails = 7
}

type Native = unsafe extern "C" fn(
    *mut Raw,
    Text,
    Items<*const RawTensor>,
    Items<Parameter>,
    *mut Slot,
    *mut usize,
    *mut Failure,
) -> Status;

fn softmax(native: Native) -> Result<Vec<f32>, bb::Error> {
    let (table, primitives) = good();
    let table =
        Library { size: size_of::<Library>(), describe: Some(describe), native: Some(native), ..table };
    let library = linked(table, primitives).unwrap();
    let on = BackendHandle::start("mine", library.open(&OpenOptions::default()).unwrap());
    let x = on.tensor(&[2], &[0f32, 0.])?;
    let results = on.call(bb::operation("softmax")?, &[Some(&x)], &[Param::Int(-1)])?;
    Ok(results[0].to_host(64)?.as_slice::<f32>()?.to_vec())
}

#[test]
fn a_native_operation_that_declines_runs_by_its_primitives() {
    assert_eq!(softmax(declines).unwrap(), [0.5, 0.5]);
    let error = softmax(fails).unwrap_err();
    let said = bb_core::error::causes(&error);
    assert!(said.contains("failed in `softmax`: it does not say why"), "{said}");
}

unsafe extern "C" fn all_but_exp(_: *mut Raw, name: Text) -> u8 {
    // SAFETY: the host lends the name for the call.
    u8::from(unsafe { name.slice() } != b"exp")
}

unsafe extern "C" fn compile(_: *mut Raw, _: Items<u8>, _: *mut *mut c_void, _: *mut Failure) -> Status {
    4
}

unsafe extern "C" fn run(
    _: *mut Raw,
    _: *mut c_void,
    _: Items<*const RawTensor>,
    _: Results,
    _: usize,
    _: *mut Failure,
) -> Status {
    4
}

unsafe extern "C" fn release_program(_: *mut Raw, _: *mut c_void) {}

#[test]
fn a_backend_of_whole_graphs_names_the_primitives_that_it_runs() {
    let (table, primitives) = good();
    let table = Library {
        size: size_of::<Library>(),
        compile: Some(compile),
        run: Some(run),
        release_program: Some(release_program),
        ..table
    };
    let primitives = Primitives { constant: primitives.constant, ..Primitives::NONE };
    let open = |table| linked(table, primitives).unwrap().open(&OpenOptions::default()).unwrap();
    let all = open(table);
    assert!(all.runs_whole_graphs() && Primitive::ALL.iter().all(|op| all.runs_primitive(*op)));
    let some = open(Library { runs_primitive: Some(all_but_exp), ..table });
    let lacking: Vec<Primitive> =
        Primitive::ALL.iter().copied().filter(|op| !some.runs_primitive(*op)).collect();
    assert_eq!(lacking, [Primitive::Exp]);
    let on = BackendHandle::start("mine", some);
    let x = on.tensor(&[2], &[0f32, 0.]).unwrap();
    let error = on.call(Primitive::Exp.spec(), &[Some(&x)], &[]).unwrap_err();
    assert_eq!(on.error_kind(&error), ErrorKind::Unsupported);
}
