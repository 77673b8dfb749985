//! An open backend of a library.

use super::library::{BackendLibrary, Said, checked_types, wrong_instance};
use super::{LoadError, LoadedError};
use crate::abi::{Raw, RawTensor, Slot, Status, status};
use bb_core::ext::OpSet;
use bb_core::{BrokenPromise, DataType, DataTypes, Error, Shape};
use bb_ir::op::{Family, OpSpec, Primitive};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// The result slots of a call, and its operands.
pub(super) type CallTensors<'a> = (&'a [Slot], &'a [*const RawTensor]);

/// An open backend. It is closed after its last tensor and graph were dropped. Its library may be unloaded after that.
pub(super) struct Instance {
    pub(super) raw: NonNull<Raw>,
    pub(super) types: DataTypes,
    pub(super) whole_graphs: bool,
    /// The primitives that the backend does not run.
    pub(super) lacking: Vec<Primitive>,
    pub(super) natives: Vec<(Family, OpSet)>,
    /// The cache of compiled graphs. It contains only graphs that cannot store their compiled form themselves.
    pub(super) programs: Mutex<super::graphs::Programs>,
    pub(super) library: BackendLibrary,
}

// SAFETY: the interface allows calling the functions of a library from any thread, and from several threads at the same time.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Checks the backend that `open` of the library returned.
    pub(super) fn new(raw: *mut Raw, library: &BackendLibrary) -> Result<Arc<Instance>, LoadError> {
        let Some(raw) = NonNull::new(raw) else {
            return Err(wrong_instance(library, "result of `open`", "a backend", "null"));
        };
        let table = &library.0.table;
        let mut natives: Vec<(Family, OpSet)> = Vec::new();
        for row in &library.0.natives {
            match natives.iter_mut().find(|(family, _)| *family == row.family) {
                Some((_, set)) => *set = set.with(row.index),
                None => natives.push((row.family, OpSet::default().with(row.index))),
            }
        }
        let has = |op: &Primitive| super::calls::has(&library.0.primitives, *op);
        let lacks = || table.compile.is_some() && !Primitive::ALL.iter().all(has);
        // SAFETY: the backend is open, and the library is of this version of the interface.
        let whole_graphs = table.whole_graphs.map_or_else(lacks, |asks| unsafe { asks(raw.as_ptr()) } != 0);
        let mut instance = Instance {
            raw,
            types: DataTypes::NONE,
            whole_graphs,
            lacking: Vec::new(),
            natives,
            programs: Mutex::default(),
            library: library.clone(),
        };
        // From here on, dropping the instance closes the backend if an error is found.
        if whole_graphs && table.compile.is_none() {
            return Err(wrong_instance(
                library,
                "kind of backend",
                "`compile`, as it wants whole graphs",
                "null",
            ));
        }
        // SAFETY: as above.
        let told = table.types.map(|types| unsafe { types(raw.as_ptr()) });
        instance.types = match (told, library.0.types) {
            (None, Some(types)) => types,
            // Without any types, this reports the empty set.
            (told, _) => checked_types(library.path(), library.0.name, told.unwrap_or(0))?,
        };
        let runs = |op: &Primitive| match table.runs_primitive {
            // SAFETY: as above, and the name lives for the call.
            Some(runs) => unsafe { runs(raw.as_ptr(), crate::abi::Text::new(op.spec().method)) != 0 },
            None => whole_graphs || has(op),
        };
        // Each backend has `constant`, which is no node of a graph.
        let asked = Primitive::ALL.iter().copied().filter(|op| *op != Primitive::Constant);
        instance.lacking = asked.filter(|op| !runs(op)).collect();
        Ok(Arc::new(instance))
    }

    /// Returns the name of the backend.
    pub(super) fn name(&self) -> &'static str {
        self.library.0.name
    }

    /// Returns the error of a backend that violates the interface.
    #[cold]
    pub(super) fn broken(
        &self,
        op: &'static str,
        what: impl std::fmt::Display,
        expected: impl std::fmt::Display,
        got: impl std::fmt::Display,
    ) -> LoadedError {
        let values = (expected.to_string(), got.to_string());
        Error::from(BrokenPromise::new(self.name(), op, what.to_string(), values)).into()
    }

    /// Calls a function, and converts its status and message to a result.
    pub(super) fn call(
        &self,
        op: &'static str,
        body: impl FnOnce(*mut crate::abi::Failure) -> Status,
    ) -> Result<(), LoadedError> {
        let mut said = Said::new();
        let status = body(said.failure());
        self.judge(op, status, || said.message(), (&[], &[]))
    }

    /// Calls a function that writes results to slots. If it fails, releases the tensors that it left in the slots.
    pub(super) fn call_into(
        &self,
        op: &'static str,
        results: &mut [Slot],
        operands: &[*const RawTensor],
        body: impl FnOnce(&mut [Slot], *mut crate::abi::Failure) -> Status,
    ) -> Result<(), LoadedError> {
        let mut said = Said::new();
        let status = body(&mut *results, said.failure());
        self.judge(op, status, || said.message(), (results, operands))
    }

    /// Releases the tensors that a failed call left in its results. Returns the index of the first one.
    fn left(&self, (results, operands): CallTensors<'_>) -> Option<usize> {
        let own = |slot: &Slot| !slot.tensor.is_null() && !operands.contains(&slot.tensor.cast_const());
        let first = results.iter().position(own)?;
        self.release_all(results, operands);
        Some(first)
    }

    /// Converts a status and a message to a result. If the call failed, releases the tensors that it left in its results.
    #[inline]
    pub(super) fn judge(
        &self,
        op: &'static str,
        status: Status,
        message: impl FnOnce() -> String,
        tensors: CallTensors<'_>,
    ) -> Result<(), LoadedError> {
        match status {
            status::OK => Ok(()),
            failed => Err(self.failure(op, failed, message(), self.left(tensors))),
        }
    }

    /// Returns the error of a failed call. `left` is the index of a tensor that the call left in its results.
    #[cold]
    fn failure(&self, op: &'static str, status: Status, message: String, left: Option<usize>) -> LoadedError {
        let backend = self.name();
        match (status, left, status::defined(status)) {
            (status::PANICKED, ..) => LoadedError::Panicked { backend, op, message },
            (_, Some(at), _) => {
                let got = format!("a tensor, which was released; the call failed: {message}");
                self.broken(op, format_args!("result {at} of a failed call"), "null", got)
            }
            (_, None, Some(kind)) => Error::Loaded { backend, op, kind, message }.into(),
            (_, None, None) => {
                let got = format!("{status}; the call failed: {message}");
                self.broken(op, "the status", "one that `bb.h` defines", got)
            }
        }
    }

    /// Returns the function table of the library.
    pub(super) fn table(&self) -> &crate::abi::Library {
        &self.library.0.table
    }

    /// Releases a tensor.
    pub(super) fn release(&self, x: *mut RawTensor) {
        if let Some(release) = self.table().release {
            // SAFETY: the library created the tensor, and no other reference to it exists.
            unsafe { release(self.raw.as_ptr(), x) }
        }
    }

    /// Releases the results of a call with a wrong result. Each tensor is released once, and operands are not released.
    pub(super) fn release_all(&self, results: &[Slot], operands: &[*const RawTensor]) {
        let mut released: Vec<*mut RawTensor> = Vec::new();
        for slot in results {
            let own = !slot.tensor.is_null()
                && !operands.contains(&slot.tensor.cast_const())
                && !released.contains(&slot.tensor);
            if own {
                released.push(slot.tensor);
                self.release(slot.tensor);
            }
        }
    }

    /// Reads the type and the shape that a backend wrote for the result with an index.
    pub(super) fn read_result(
        &self,
        op: &'static str,
        at: usize,
        slot: &Slot,
    ) -> Result<(DataType, Shape), LoadedError> {
        /// The maximum rank. No tensor of any program has more extents.
        const MOST: usize = 1 << 12;
        let unknown = || {
            let expected = format!("one of the backend's types ({})", self.types);
            self.broken(op, format_args!("the element type of result {at}"), expected, slot.dtype)
        };
        let dtype =
            DataType::from_onnx(slot.dtype).filter(|dtype| self.types.has(*dtype)).ok_or_else(unknown)?;
        if slot.rank > MOST {
            let what = format!("the rank of result {at}");
            return Err(self.broken(op, what, format_args!("at most {MOST}"), slot.rank));
        }
        let what = || format!("the shape of result {at}");
        if slot.rank > 0 && slot.shape.is_null() {
            return Err(self.broken(op, what(), format_args!("a pointer to {} extents", slot.rank), "null"));
        }
        // SAFETY: the backend wrote a shape of this rank, which stays until the tensor is released.
        let shape = unsafe { crate::abi::Items { items: slot.shape, count: slot.rank }.slice() };
        if bb_ir::element_count(shape).is_none() {
            return Err(self.broken(
                op,
                what(),
                "extents that memory has room for",
                format_args!("{shape:?}"),
            ));
        }
        Ok((dtype, Shape::from_slice(shape)))
    }

    /// Returns whether an operation is native.
    pub(super) fn is_native(&self, spec: &OpSpec) -> bool {
        self.natives.iter().any(|(family, set)| *family == spec.family && set.contains(spec.index))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Programs are released before the backend is closed.
        let programs = self.programs.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(std::mem::take(programs));
        if let Some(close) = self.table().close {
            // SAFETY: `open` created the backend. All its tensors have been released, because each of them owns a reference to this
            // instance.
            unsafe { close(self.raw.as_ptr()) }
        }
    }
}
