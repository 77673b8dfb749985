//! Runs whole graphs on a backend from a library.

use super::LoadedError;
use super::backend::{EMPTY, LoadedBackend, LoadedTensor, Slots};
use super::instance::Instance;
use super::library::{LONGEST_MESSAGE, message_of};
use crate::abi::{self, Done, Failure, Items, Raw, RawTensor, Slot, Status, Text, status};
use crate::failure::fitting;
use bb_core::{
    BackendAttrs, Completer, CompletionHandle, ContractResponse, DataType, Error, GraphIdentity, GraphProto,
    Tensor,
};
use bb_ir::proto::{ModelProto, OperatorSetIdProto, ValueInfoProto, type_proto};
use prost::Message;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Named = HashMap<String, LoadedTensor>;

/// The maximum number of compiled graphs that an instance caches. It caches only graphs that cannot store their compiled form themselves:
/// graphs of one node.
const KEPT: usize = 256;

/// The compiled graphs that an instance keeps, the most recently used one first.
#[derive(Default)]
pub(super) struct Programs(VecDeque<(GraphIdentity, Arc<LoadedProgram>)>);

impl Programs {
    /// Returns a program, and marks it as most recently used.
    fn find(&mut self, identity: GraphIdentity) -> Option<Arc<LoadedProgram>> {
        let at = self.0.iter().position(|(known, _)| *known == identity)?;
        let found = self.0.remove(at)?;
        let program = found.1.clone();
        self.0.push_front(found);
        Some(program)
    }

    /// Adds a program, and returns the programs that it replaces or evicts.
    fn add(&mut self, identity: GraphIdentity, program: Arc<LoadedProgram>) -> Vec<Arc<LoadedProgram>> {
        let same = self.0.iter().position(|(known, _)| *known == identity);
        let mut out: Vec<_> = same.and_then(|at| self.0.remove(at)).into_iter().collect();
        self.0.push_front((identity, program));
        out.extend(self.0.drain(KEPT.min(self.0.len())..));
        out.into_iter().map(|(_, program)| program).collect()
    }
}

/// A program that is stored with its graph. The program is released before the instance, which may be closed then.
struct GraphProgram {
    program: Arc<LoadedProgram>,
    on: Arc<Instance>,
}

/// A graph that the library compiled. It has no reference to the instance, because the instance may have a reference to it.
pub(super) struct LoadedProgram {
    raw: NonNull<c_void>,
    backend: NonNull<Raw>,
    release: unsafe extern "C" fn(*mut Raw, *mut c_void),
    inputs: Vec<String>,
    /// The names of the outputs, and the element types that the graph declares for them.
    outputs: Vec<(String, Option<DataType>)>,
}

// SAFETY: the interface allows calling functions with a program from any thread, and from several threads at the same time.
unsafe impl Send for LoadedProgram {}
// SAFETY: as above.
unsafe impl Sync for LoadedProgram {}

impl Drop for LoadedProgram {
    fn drop(&mut self) {
        // SAFETY: `compile` created the program. Each owner of a program also owns the instance or is the instance, so the backend is still
        // open.
        unsafe { (self.release)(self.backend.as_ptr(), self.raw.as_ptr()) }
    }
}

/// The IR version of the ONNX models that are passed to libraries.
const IR_VERSION: i64 = 13;
/// The opset of a graph that declares none.
const NEWEST: i64 = 26;

/// `bb_library.start`.
type Start = unsafe extern "C" fn(
    *mut Raw,
    *mut c_void,
    Items<*const RawTensor>,
    Done,
    *mut c_void,
    *mut Failure,
) -> Status;

/// An asynchronous run that was started.
struct Pending {
    completer: Completer<Named, LoadedError>,
    // The backend reads the program and the inputs until the run ends. They are dropped before the instance.
    program: Arc<LoadedProgram>,
    inputs: Vec<LoadedTensor>,
    on: LoadedBackend,
}

/// The runs that have not ended. A library gets the number of a run instead of a pointer, so that it does no harm if it ends a run twice or
/// ends a run that was never started.
static PENDING: Mutex<Option<HashMap<u64, Pending>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

impl LoadedBackend {
    /// Returns the compiled graph. It is stored with the graph and released with it. If the graph has no place for it, the instance keeps
    /// it.
    fn program(
        &self,
        graph: &GraphProto,
        attrs: BackendAttrs<'_>,
    ) -> Result<Arc<LoadedProgram>, LoadedError> {
        if let Some(cache) = attrs.cache() {
            let is_own = |stored: &GraphProgram| Arc::ptr_eq(&stored.on, &self.0);
            let stored = cache.get_or(is_own, || {
                let program = Arc::new(compiled(&self.0, graph, attrs)?);
                Ok::<_, LoadedError>(GraphProgram { program, on: self.0.clone() })
            })?;
            return Ok(stored.program.clone());
        }
        let lock = || self.0.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = attrs.identity.and_then(|identity| lock().find(identity)) {
            return Ok(known);
        }
        let made = Arc::new(compiled(&self.0, graph, attrs)?);
        // Releasing a program calls the library, so evicted programs are dropped after the lock is released.
        let evicted = attrs.identity.map(|identity| lock().add(identity, made.clone()));
        drop(evicted);
        Ok(made)
    }

    /// Returns the inputs in the order that a program expects.
    fn ordered(&self, program: &LoadedProgram, mut inputs: Named) -> Result<Vec<LoadedTensor>, LoadedError> {
        self.own("run", inputs.values())?;
        let missing =
            |name: &String| Error::MissingInput { name: name.clone(), expected: program.inputs.clone() };
        let taken: Result<Vec<LoadedTensor>, Error> =
            program.inputs.iter().map(|name| inputs.remove(name).ok_or_else(|| missing(name))).collect();
        let taken = taken?;
        match inputs.into_keys().min() {
            Some(name) => Err(Error::UnknownInput { name, expected: program.inputs.clone() }.into()),
            None => Ok(taken),
        }
    }

    /// Assigns the output names to the results of a program.
    fn named(
        &self,
        program: &LoadedProgram,
        slots: &[Slot],
        operands: &[*const RawTensor],
    ) -> Result<Named, LoadedError> {
        let results = self.take("run", slots, operands, None)?;
        for (at, (y, (_, declared))) in results.iter().zip(&program.outputs).enumerate() {
            if let Some(expected) = declared.filter(|declared| *declared != y.dtype()) {
                let what = format!("the element type of result {at}");
                return Err(self.0.broken("run", what, expected, y.dtype()));
            }
        }
        Ok(program.outputs.iter().map(|(name, _)| name.clone()).zip(results).collect())
    }

    /// Runs a graph and waits for its results.
    pub(super) fn run(
        &self,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named, LoadedError> {
        let program = self.program(graph, attrs)?;
        let inputs = self.ordered(&program, inputs)?;
        let pointers: Vec<*const RawTensor> = inputs.iter().map(LoadedTensor::raw).collect();
        let mut slots: Slots = program.outputs.iter().map(|_| EMPTY).collect();
        let run = self.0.table().run;
        self.0.call_into("run", &mut slots, &pointers, |slots, error| {
            let (backend, count) = (self.0.raw.as_ptr(), slots.len());
            let (graph, places) = (program.raw.as_ptr(), slots.as_mut_ptr());
            // SAFETY: the library is of this version of the interface. Borrowed arguments live until the call returns.
            run.map_or(status::OK, |run| unsafe {
                run(backend, graph, Items::of(&pointers), places, count, error)
            })
        })?;
        self.named(&program, &slots, &pointers)
    }

    /// Starts to run a graph asynchronously.
    pub(super) fn start(
        &self,
        start: Start,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        completion: CompletionHandle<Named, LoadedError>,
    ) -> ContractResponse<Named, LoadedError> {
        let ready = self.program(graph, attrs).and_then(|program| {
            let inputs = self.ordered(&program, inputs)?;
            Ok((program, inputs))
        });
        let (program, inputs) = match ready {
            Ok(ready) => ready,
            Err(error) => return ContractResponse::Now(Err(error)),
        };
        let (answer, completer) = completion.later();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pointers: Vec<*const RawTensor> = inputs.iter().map(LoadedTensor::raw).collect();
        let running = program.clone();
        let pending = Pending { completer, program, inputs, on: self.clone() };
        PENDING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .insert(number, pending);
        let began = self.0.call("start", |error| {
            let context = std::ptr::without_provenance_mut(number as usize);
            let (backend, list) = (self.0.raw.as_ptr(), Items::of(&pointers));
            // SAFETY: the library is of this version of the interface. The tensors and the program live until the run ends.
            unsafe { start(backend, running.raw.as_ptr(), list, Some(done), context, error) }
        });
        match began {
            Ok(()) => answer,
            Err(error) => {
                drop(ended(number));
                ContractResponse::Now(Err(error))
            }
        }
    }
}

/// Removes a run from the pending runs.
fn ended(number: u64) -> Option<Pending> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.remove(&number)
}

/// Ends a run. Libraries call this function from any thread.
unsafe extern "C" fn done(
    context: *mut c_void,
    status: Status,
    text: Text,
    results: *const Slot,
    count: usize,
) {
    let body = || {
        let Some(Pending { completer, program, inputs, on }) = ended(context.addr() as u64) else { return };
        // SAFETY: the library lends the text and the results for the call.
        let (text, slots) = unsafe { (text.slice(), Items { items: results, count }.slice()) };
        let pointers: Vec<*const RawTensor> = inputs.iter().map(LoadedTensor::raw).collect();
        // One byte more than the longest message, so that a longer message is cut and gets its mark.
        let text = || message_of(text.get(..=LONGEST_MESSAGE).unwrap_or(text));
        let message = || fitting(&text(), LONGEST_MESSAGE).into_owned();
        let expected = program.outputs.len();
        let result = match on.0.judge("run", status, message, (slots, &pointers)) {
            Ok(()) if slots.len() == expected => on.named(&program, slots, &pointers),
            Ok(()) => {
                on.0.release_all(slots, &pointers);
                Err(on.0.broken("run", "the number of results", expected, slots.len()))
            }
            Err(error) => Err(error),
        };
        drop((program, inputs));
        completer.complete(result);
        drop(on);
    };
    // Catches panics, because a waker of the caller may panic.
    drop(bb_core::runtime::catch(body));
}

/// Returns the name and the declared element type of an output.
fn declared(port: &ValueInfoProto) -> (String, Option<DataType>) {
    let dtype = match port.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor.elem_type.and_then(DataType::from_onnx),
        _ => None,
    };
    (port.name.clone().unwrap_or_default(), dtype)
}

/// Compiles a graph with a library.
fn compiled(
    on: &Instance,
    graph: &GraphProto,
    attrs: BackendAttrs<'_>,
) -> Result<LoadedProgram, LoadedError> {
    let newest = || vec![OperatorSetIdProto { domain: None, version: Some(NEWEST) }];
    let opset_import = if attrs.opsets.is_empty() { newest() } else { attrs.opsets.to_vec() };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        opset_import,
        functions: attrs.functions.to_vec(),
        graph: Some(graph.clone()),
        ..ModelProto::default()
    };
    let bytes = model.encode_to_vec();
    let mut raw: *mut c_void = std::ptr::null_mut();
    let table = on.table();
    let (Some(compile), Some(release)) = (table.compile, table.release_program) else {
        return Err(on.broken("compile", "the function `compile`", "a function", "null"));
    };
    on.call("compile", |error| {
        // SAFETY: the library is of this version of the interface. Borrowed arguments live until the call returns.
        unsafe { compile(on.raw.as_ptr(), Items::of(&bytes), &raw mut raw, error) }
    })?;
    let Some(raw) = NonNull::new(raw) else {
        return Err(on.broken("compile", "a program", "a pointer", "null"));
    };
    Ok(LoadedProgram {
        raw,
        backend: on.raw,
        release,
        inputs: abi::graphs::inputs(graph).map(str::to_owned).collect(),
        outputs: graph.output.iter().map(declared).collect(),
    })
}
