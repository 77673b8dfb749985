//! Compiled parts of a model, and their runs.

use crate::api::{Api, Elements, Result};
use crate::ending::Runs;
use crate::error::PluginError;
use crate::graph::Read;
use crate::guard::{guarded, quiet};
use crate::lending::Lending;
use crate::raw::{
    API_VERSION, OrtKernelContext, OrtNodeComputeContext, OrtNodeComputeInfo, OrtValue, Status,
};
use bb::{BackendHandle, CompileOptions, ErasedExecutable, Module, Value};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The maximum size in bytes of operands that are copied. A copy of few bytes is cheaper than lending them, and plans may keep small
/// operands.
const SMALL: usize = 4096;

/// `ONNX_TYPE_UNKNOWN`, the kind of a value that a program left out.
const NO_VALUE: i32 = 0;

/// A compiled part. ONNX Runtime's structure is its first field, so that pointers to both are equal.
#[repr(C)]
pub(crate) struct CompiledPart {
    raw: OrtNodeComputeInfo,
    api: Api,
    on: BackendHandle,
    executable: Arc<dyn ErasedExecutable>,
    /// For each input of the graph, the index of the operand.
    inputs: Vec<usize>,
    /// Whether operands are borrowed instead of copied.
    lends: bool,
    runs: Arc<Runs>,
}

impl CompiledPart {
    /// Compiles a part. The names of its operands and results are passed.
    pub(crate) fn new(
        api: Api,
        on: &BackendHandle,
        mut read: Read,
        (inputs, outputs): (&[String], &[String]),
        options: &CompileOptions,
        (lends, runs): (bool, Arc<Runs>),
    ) -> Result<Box<CompiledPart>> {
        read.set_outputs(outputs)?;
        let module = Module::from_graph(&read.proto, &read.opsets, &[])?;
        drop(read);
        let executable = on.compile(module, options).map_err(|error| PluginError::of(on, error))?;
        let place = |name: &str| inputs.iter().position(|input| input == name);
        let missing = |name: &str| PluginError::Missing { name: name.to_owned() };
        let ports =
            executable.inputs().iter().map(|port| place(&port.name).ok_or_else(|| missing(&port.name)));
        let inputs = ports.collect::<Result<_>>()?;
        let raw = OrtNodeComputeInfo { version: API_VERSION, create_state, compute, release_state };
        Ok(Box::new(CompiledPart { raw, api, on: on.clone(), executable, inputs, lends, runs }))
    }

    /// Transfers the part to ONNX Runtime.
    pub(crate) fn into_raw(self: Box<CompiledPart>) -> *mut OrtNodeComputeInfo {
        Box::into_raw(self).cast()
    }

    /// Releases a part.
    ///
    /// # Safety
    ///
    /// The pointer is null or was returned by [`into_raw`](Self::into_raw), and is no longer used.
    pub(crate) unsafe fn release(info: *mut OrtNodeComputeInfo) {
        if !info.is_null() {
            // SAFETY: the pointer belongs to a boxed `CompiledPart`, because `raw` is its first field.
            quiet(|| drop(unsafe { Box::from_raw(info.cast::<CompiledPart>()) }));
        }
    }

    /// Runs the part on the operands of a context.
    ///
    /// # Safety
    ///
    /// The context belongs to the running call.
    unsafe fn run(&self, context: *mut OrtKernelContext) -> Result<()> {
        let lending = Lending::default();
        // SAFETY: the caller upholds the safety contract. `lending` prevents this function from returning before the operands are dropped.
        let operands = unsafe { self.operands(context, &lending)? };
        let results = {
            let operands: Vec<Option<&Value>> = operands.iter().map(Option::as_ref).collect();
            let run = || self.executable.run(&operands);
            let results = match self.runs.watch() {
                // SAFETY: ONNX Runtime calls this function during the run, and the run's options live until it ends.
                Some(watch) => unsafe { watch.within(run) },
                None => run(),
            };
            results.map_err(|error| PluginError::of(&self.on, error))?
        };
        drop(operands);
        for (at, result) in results.iter().enumerate() {
            let host = self.on.to_host(result).map_err(|error| PluginError::of(&self.on, error))?;
            let extents: Vec<i64> =
                host.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
            let mut to: *mut OrtValue = null_mut();
            // SAFETY: the caller upholds the safety contract, and the length of the extents is passed.
            self.api.checked(unsafe {
                self.api.table().context_output(context, at, extents.as_ptr(), extents.len(), &raw mut to)
            })?;
            if !to.is_null() {
                // SAFETY: ONNX Runtime created the tensor for this call, with this shape and the type that the model declares.
                unsafe { self.api.fill(to, &host)? };
            }
        }
        Ok(())
    }

    /// Converts the operands of a context to values.
    ///
    /// # Safety
    ///
    /// As [`run`](Self::run); the caller drops `lending` before the call of ONNX Runtime ends.
    unsafe fn operands(
        &self,
        context: *mut OrtKernelContext,
        lending: &Lending,
    ) -> Result<Vec<Option<Value>>> {
        let one = |(&position, port): (&usize, &bb::Port)| {
            let mut value: *const OrtValue = null();
            // SAFETY: the caller upholds the safety contract of this function.
            self.api.checked(unsafe { self.api.table().context_input(context, position, &raw mut value) })?;
            if value.is_null() {
                return Ok(None);
            }
            let elements = if self.lends { Elements::Lent(lending, SMALL) } else { Elements::Copied };
            // SAFETY: the operand is not written during the call, and `lending` waits until the last reader is dropped.
            let data = match unsafe { self.api.tensor(value, elements) } {
                Err(PluginError::Kind { number: NO_VALUE }) => {
                    return Err(PluginError::NoValue { name: port.name.clone() });
                }
                data => data?,
            };
            let constant = self.on.runtime().constant(&data);
            Ok(Some(constant.map_err(|error| PluginError::of(&self.on, error))?))
        };
        self.inputs.iter().zip(self.executable.inputs()).map(one).collect()
    }
}

/// # Safety
///
/// For this and the functions below: ONNX Runtime calls them with a part that `into_raw` returned and `release` has not released, and with
/// other pointers that conform to its header.
unsafe extern "system" fn create_state(
    info: *mut OrtNodeComputeInfo,
    _context: *mut OrtNodeComputeContext,
    state: *mut *mut c_void,
) -> Status {
    if !state.is_null() {
        // A part has no separate state, so it is its own state.
        // SAFETY: the output pointer is valid for the state.
        unsafe { *state = info.cast() };
    }
    null_mut()
}

unsafe extern "system" fn compute(
    info: *mut OrtNodeComputeInfo,
    _state: *mut c_void,
    context: *mut OrtKernelContext,
) -> Status {
    // SAFETY: the pointer belongs to a part, which is not mutated.
    let compiled = unsafe { &*info.cast::<CompiledPart>() };
    // SAFETY: the context belongs to this call.
    guarded(&compiled.api, || unsafe { compiled.run(context) })
}

unsafe extern "system" fn release_state(_info: *mut OrtNodeComputeInfo, _state: *mut c_void) {}
