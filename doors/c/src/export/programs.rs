//! The functions for whole graphs, for a backend that runs them.

use super::open::text;
use super::tensors::{failed, give, operand};
use crate::abi::{self, Failure, Items, Raw, RawTensor, Results, Status, Text};
use crate::failure::{Failed, guarded};
use bb_core::{Backend, BackendAttrs, ErrorKind, GraphIdentity, GraphProto, Primitive};
use bb_ir::proto::{FunctionProto, ModelProto, OperatorSetIdProto};
use prost::Message;
use std::collections::HashMap;
use std::ffi::c_void;

/// A graph that was passed as a serialized model.
struct ExportedGraph {
    graph: GraphProto,
    opsets: Vec<OperatorSetIdProto>,
    functions: Vec<FunctionProto>,
    identity: GraphIdentity,
}

/// `bb_library.whole_graphs`.
pub(super) unsafe extern "C" fn whole_graphs(backend: *mut Raw) -> u8 {
    // SAFETY: `open` created the backend.
    let opened = unsafe { super::opened(backend) };
    let asked = opened.map(|opened| bb_core::runtime::catch(|| opened.erased.runs_whole_graphs()));
    u8::from(matches!(asked, Ok(Ok(true))))
}

/// `bb_library.runs_primitive`.
pub(super) unsafe extern "C" fn runs_primitive(backend: *mut Raw, name: Text) -> u8 {
    // SAFETY: `open` created the backend.
    let opened = unsafe { super::opened(backend) };
    let Some(op) = text(name).ok().and_then(Primitive::from_method) else { return 0 };
    let asked = opened.map(|opened| bb_core::runtime::catch(|| opened.erased.runs_primitive(op)));
    u8::from(matches!(asked, Ok(Ok(true))))
}

/// `bb_library.compile`.
pub(super) unsafe extern "C" fn compile(
    _backend: *mut Raw,
    model: Items<u8>,
    program: *mut *mut c_void,
    error: *mut Failure,
) -> Status {
    let body = || {
        // SAFETY: the host lends the bytes for the call.
        let bytes = unsafe { model.slice() };
        let damaged = |text: String| Failed::new(ErrorKind::InvalidModel, text);
        let model = ModelProto::decode(bytes).map_err(|e| damaged(format!("the bytes are no model: {e}")))?;
        let graph = model.graph.ok_or_else(|| damaged("the model has no graph".to_owned()))?;
        let (opsets, functions) = (model.opset_import, model.functions);
        let made = Box::new(ExportedGraph { graph, opsets, functions, identity: GraphIdentity::fresh() });
        // SAFETY: the host lends the place for the call.
        unsafe { program.write(Box::into_raw(made).cast()) };
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}

/// `bb_library.run`.
pub(super) unsafe extern "C" fn run(
    backend: *mut Raw,
    program: *mut c_void,
    inputs: Items<*const RawTensor>,
    results: Results,
    count: usize,
    error: *mut Failure,
) -> Status {
    let body = || {
        let null = || Failed::new(ErrorKind::WrongInput, "expected a program, got null");
        // SAFETY: `open` created the backend, `compile` the program, and the host lends the list for the call.
        let (opened, program, inputs) = unsafe {
            (
                super::opened(backend)?,
                program.cast::<ExportedGraph>().as_ref().ok_or_else(null)?,
                inputs.slice(),
            )
        };
        let attrs = BackendAttrs::default().with_opsets(&program.opsets).with_functions(&program.functions);
        let attrs = attrs.with_identity(program.identity);
        let names = abi::graphs::inputs(&program.graph).map(str::to_owned);
        // SAFETY: the host lends tensors that this library created.
        let given = names.zip(inputs).filter_map(|(name, &x)| Some((name, unsafe { operand(x) }?.clone())));
        let mut named = opened
            .erased
            .execute(&program.graph, given.collect::<HashMap<_, _>>(), attrs)
            .map_err(|e| failed(&e))?;
        let outputs: Vec<&str> =
            program.graph.output.iter().map(|port| port.name.as_deref().unwrap_or_default()).collect();
        if outputs.len() != count {
            let text = format!("the graph has {} outputs, expected {count}", outputs.len());
            return Err(Failed::new(ErrorKind::Internal, text));
        }
        let taken: Result<Vec<_>, Failed> = outputs
            .iter()
            .map(|name| {
                let missing = || Failed::new(ErrorKind::Device, format!("output `{name}` is missing"));
                named.remove(*name).ok_or_else(missing)
            })
            .collect();
        for (at, x) in taken?.into_iter().enumerate() {
            // SAFETY: the host lends `count` places for the call.
            give(x, unsafe { &mut *results.add(at) });
        }
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}

/// `bb_library.release_program`.
pub(super) unsafe extern "C" fn release(_backend: *mut Raw, program: *mut c_void) {
    // SAFETY: `compile` created the pointer, and the host releases it once. A panic while it is dropped must not leave the library.
    drop(bb_core::runtime::catch(|| unsafe { drop(Box::from_raw(program.cast::<ExportedGraph>())) }));
}
