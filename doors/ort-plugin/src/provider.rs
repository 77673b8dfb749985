//! The provider, which ONNX Runtime creates for a session.

use crate::api::{Api, Elements, Result};
use crate::claim::{self, Claimed};
use crate::compiled::CompiledPart;
use crate::ending::Runs;
use crate::error::PluginError;
use crate::graph::Reader;
use crate::guard::{guarded, quiet};
use crate::raw::{
    API_VERSION, OrtEp, OrtEpGraphSupportInfo, OrtGraph, OrtNode, OrtNodeComputeInfo, OrtNodeFusionOptions,
    OrtRunOptions, Status,
};
use crate::settings::Settings;
use bb::{BackendHandle, CompileOptions};
use std::ffi::{CString, c_char};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An execution provider. ONNX Runtime's structure is its first field, so that pointers to both are equal.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Provider {
    raw: OrtEp,
    api: Api,
    name: CString,
    on: BackendHandle,
    settings: Settings,
    /// Whether the whole model is claimed as one part.
    whole: AtomicBool,
    /// Whether some graph of the model has claimed parts.
    claimed: AtomicBool,
    runs: Arc<Runs>,
}

impl Provider {
    /// Creates a provider. ONNX Runtime passes it to [`release`](Self::release) when it is no longer needed.
    pub(crate) fn make(api: Api, name: CString, on: BackendHandle, settings: Settings) -> *mut OrtEp {
        let raw = OrtEp {
            version: API_VERSION,
            name: provider_name,
            capability,
            compile,
            release_compute_infos,
            optional: [None; 3],
            run_begins,
            run_ended,
            more: [None; 3],
        };
        Box::into_raw(Box::new(Provider {
            raw,
            api,
            name,
            on,
            settings,
            whole: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            runs: Arc::new(Runs::new(&api)),
        }))
        .cast()
    }

    /// Releases a provider.
    ///
    /// # Safety
    ///
    /// The pointer was returned by [`make`](Self::make), and is no longer used.
    pub(crate) unsafe fn release(provider: *mut OrtEp) {
        // SAFETY: the pointer belongs to a boxed `Provider`, because `raw` is its first field.
        quiet(|| drop(unsafe { Box::from_raw(provider.cast::<Provider>()) }));
    }
}

/// # Safety
///
/// For this and the functions below: ONNX Runtime calls them with a provider that `make` created and `release` has not released, and with
/// other pointers that conform to its header.
unsafe extern "system" fn provider_name(provider: *const OrtEp) -> *const c_char {
    // SAFETY: the pointer belongs to a provider.
    unsafe { &*provider.cast::<Provider>() }.name.as_ptr()
}

unsafe extern "system" fn capability(
    provider: *mut OrtEp,
    graph: *const OrtGraph,
    info: *mut OrtEpGraphSupportInfo,
) -> Status {
    // SAFETY: the pointer belongs to a provider, which is not mutated.
    let provider = unsafe { &*provider.cast::<Provider>() };
    guarded(&provider.api, || {
        // SAFETY: the graph belongs to the running call, and everything that is read from it is dropped in this function.
        let mut claimed = unsafe {
            let name = provider.name.to_string_lossy();
            claim::claim(&provider.api, graph, &name, &provider.on, provider.settings.claim)?
        };
        let is_later = !claimed.parts.is_empty() && provider.claimed.swap(true, Ordering::Relaxed);
        if is_later && provider.api.minor < claim::NAMES_PARTS {
            // Two graphs of the model would have parts of the same name, and the session would fail, so nothing is claimed.
            claimed = Claimed::default();
        }
        if let Some(path) = &provider.settings.report {
            claimed.append_to(path)?;
        }
        provider.whole.store(claimed.whole, Ordering::Relaxed);
        // SAFETY: the nodes belong to the graph.
        unsafe { provider.fuse(&claimed, info) }
    })
}

impl Provider {
    /// Reports the claimed parts to ONNX Runtime, which fuses each into one node.
    unsafe fn fuse(&self, claimed: &Claimed, info: *mut OrtEpGraphSupportInfo) -> Result<()> {
        let options = OrtNodeFusionOptions { version: API_VERSION, drop_constant_initializers: true };
        for part in &claimed.parts {
            // SAFETY: the caller passes `info` from the running call, and the list has `part.len()` nodes.
            self.api.checked(unsafe {
                self.api.ep().add_nodes_to_fuse(info, part.as_ptr(), part.len(), &raw const options)
            })?;
        }
        Ok(())
    }

    /// Compiles a claimed part.
    unsafe fn compiled(&self, graph: *const OrtGraph, node: *const OrtNode) -> Result<Box<CompiledPart>> {
        let reader = Reader { api: &self.api, elements: Elements::Copied };
        // SAFETY: the caller passes the graph and the node from the running call.
        let (read, inputs, outputs) = unsafe {
            (
                reader.read(graph, self.api.nodes(graph)?, |_| true)?,
                reader.input_names(node)?,
                reader.output_names(node)?,
            )
        };
        let lends = self.settings.backend.is_none();
        // The computation may be widened only if bb runs the whole model. If ONNX Runtime runs some nodes, both sides round 16-bit floats
        // after each operation, so that a result does not depend on the choice of claimed nodes.
        let widened = self.whole.load(Ordering::Relaxed);
        let options = CompileOptions::default().within(&self.settings.limits).with_widen_halves(widened);
        let runs = self.runs.clone();
        CompiledPart::new(self.api, &self.on, read, (&inputs, &outputs), &options, (lends, runs))
    }
}

unsafe extern "system" fn compile(
    provider: *mut OrtEp,
    graphs: *mut *const OrtGraph,
    nodes: *mut *const OrtNode,
    count: usize,
    infos: *mut *mut OrtNodeComputeInfo,
    _context_nodes: *mut *mut OrtNode,
) -> Status {
    // SAFETY: the pointer belongs to a provider, which is not mutated.
    let provider = unsafe { &*provider.cast::<Provider>() };
    guarded(&provider.api, || {
        if count > 0 && (graphs.is_null() || nodes.is_null() || infos.is_null()) {
            return Err(PluginError::Null { what: "an argument of `Compile`" });
        }
        // SAFETY: the lists have `count` elements each.
        let part = |at: usize| unsafe { provider.compiled(*graphs.add(at), *nodes.add(at)) };
        let parts = (0..count).map(part).collect::<Result<Vec<_>>>()?;
        for (at, part) in parts.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { *infos.add(at) = part.into_raw() };
        }
        Ok(())
    })
}

unsafe extern "system" fn run_begins(provider: *mut OrtEp, options: *const OrtRunOptions) -> Status {
    // SAFETY: the pointer belongs to a provider, which is not mutated.
    let provider = unsafe { &*provider.cast::<Provider>() };
    quiet(|| provider.runs.begin(options));
    null_mut()
}

unsafe extern "system" fn run_ended(
    provider: *mut OrtEp,
    options: *const OrtRunOptions,
    _waits: bool,
) -> Status {
    // SAFETY: the pointer belongs to a provider, which is not mutated.
    let provider = unsafe { &*provider.cast::<Provider>() };
    quiet(|| provider.runs.end(options));
    null_mut()
}

unsafe extern "system" fn release_compute_infos(
    _provider: *mut OrtEp,
    infos: *mut *mut OrtNodeComputeInfo,
    count: usize,
) {
    for at in 0..count {
        // SAFETY: the list has `count` elements, and each was returned by `into_raw`.
        unsafe { CompiledPart::release(*infos.add(at)) };
    }
}
