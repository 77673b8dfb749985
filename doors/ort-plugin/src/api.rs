//! ONNX Runtime's functions with results instead of statuses, and lists and texts instead of pointers.

use crate::error::PluginError;
use crate::raw::{
    API_VERSION, OrtApi, OrtApiBase, OrtEpApi, OrtGraph, OrtKeyValuePairs, OrtNode, OrtOpAttr,
    OrtSessionOptions, OrtTensorTypeAndShapeInfo, OrtTypeInfo, OrtValue, OrtValueInfo, Status,
};
use bb::{DataType, TensorData};
use bb_core::ir::StringsBuilder;
use bytes::Bytes;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) type Result<T> = std::result::Result<T, PluginError>;

/// `ORT_EP_FAIL`, the code of an error of a provider.
const EP_FAIL: c_int = 11;

/// `ORT_OP_ATTR_*`.
const ATTRIBUTE_STRING: c_int = 5;

/// `ONNX_TYPE_TENSOR`.
const TENSOR: c_int = 1;

/// The last element type whose number is the same in ONNX and in ONNX Runtime.
const LAST_TYPE: c_int = 23;

/// The functions of the library that loaded this plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Api {
    table: &'static OrtApi,
    ep: &'static OrtEpApi,
    /// The minor version of the library, as in 1.23.
    pub(crate) minor: u32,
}

/// Bytes of ONNX Runtime that are read where they lie.
#[derive(Debug)]
struct Lent {
    first: *const u8,
    length: usize,
    /// Keeps the [`Lending`] from ending.
    _held: Arc<()>,
}

// SAFETY: nobody writes to the bytes while they are lent, and any thread may read them.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the tensor has as many bytes, and they are valid until the `Lending` ends, which waits for this.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

/// What is to happen with the elements of a tensor of ONNX Runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// They are copied.
    Copied,
    /// They are read where they lie if they are more than this number of bytes.
    Lent(&'a Lending, usize),
}

/// The elements that were lent. When this is dropped, it waits until nobody holds them any more, because ONNX Runtime may free or
/// write their memory afterwards.
#[derive(Debug, Default)]
pub(crate) struct Lending(Arc<()>);

/// For how long elements that were lent are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for Lending {
    fn drop(&mut self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.0) > 1 {
            if begun.elapsed() > PATIENCE {
                // Returning would leave pointers to memory of others in safe code.
                eprintln!(
                    "bb: the backend keeps elements after the end of a call, whose memory is not its own"
                );
                std::process::abort();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Makes the status of an error with the first table of the interface, which every version of the library has.
///
/// # Safety
///
/// `table` is a table of ONNX Runtime of any version.
unsafe fn status_of(table: &OrtApi, error: &PluginError) -> Status {
    let text = crate::error::line(error).replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: the text ends with a zero, and ONNX Runtime copies it.
    unsafe { table.create_status(EP_FAIL, text.as_ptr()) }
}

impl Api {
    /// Asks the library for its functions; a status if it is too old or gives none.
    ///
    /// # Safety
    ///
    /// `base` is null or the base that ONNX Runtime handed over.
    pub(crate) unsafe fn of(base: *const OrtApiBase) -> std::result::Result<Api, Status> {
        // SAFETY: the caller says so.
        let Some(base) = (unsafe { base.as_ref() }) else { return Err(null_mut()) };
        // SAFETY: both functions may be called at any time, and return null or what lives as long as the library.
        let (table, version) = unsafe { ((base.get_api)(API_VERSION), (base.get_version_string)()) };
        // SAFETY: the version is null or a text that ends with a zero.
        let version = unsafe { text(version) }.unwrap_or_default();
        let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(API_VERSION);
        let refused = PluginError::Version { needed: API_VERSION, found: version };
        // SAFETY: the pointer is null or a table of version 23, which lives as long as the library.
        if let Some(table) = unsafe { table.as_ref() } {
            // SAFETY: the function takes nothing; its table lives as long as the library.
            return match unsafe { table.ep_api().as_ref() } {
                Some(ep) => Ok(Api { table, ep, minor }),
                // SAFETY: the table is one of ONNX Runtime.
                None => Err(unsafe { status_of(table, &refused) }),
            };
        }
        // SAFETY: the first version has the function that makes a status, and each library has the first version.
        match unsafe { (base.get_api)(1).as_ref() } {
            // SAFETY: the table is one of ONNX Runtime.
            Some(first) => Err(unsafe { status_of(first, &refused) }),
            None => Err(null_mut()),
        }
    }

    /// Returns the table.
    pub(crate) fn table(&self) -> &'static OrtApi {
        self.table
    }

    /// Returns the table of what a provider calls.
    pub(crate) fn ep(&self) -> &'static OrtEpApi {
        self.ep
    }

    /// Makes a status: null for success.
    pub(crate) fn status(&self, result: Result<()>) -> Status {
        match result {
            Ok(()) => null_mut(),
            // SAFETY: the table is one of ONNX Runtime.
            Err(error) => unsafe { status_of(self.table, &error) },
        }
    }

    /// Turns a status into a result, and releases it.
    pub(crate) fn checked(&self, status: Status) -> Result<()> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: the status is an error that ONNX Runtime made; its message ends with a zero and lives as long as the status.
        let message = unsafe { text(self.table.error_message(status)) }.unwrap_or_default();
        // SAFETY: nobody else releases it, and the message is copied.
        unsafe { self.table.release_status(status) };
        Err(PluginError::Runtime { message })
    }

    /// Returns what a function writes to a place.
    fn got<T>(&self, empty: T, call: impl FnOnce(*mut T) -> Status) -> Result<T> {
        let mut place = empty;
        self.checked(call(&raw mut place))?;
        Ok(place)
    }

    /// Returns what two functions write: the number of pointers, and the pointers.
    fn list<T>(
        &self,
        count: impl FnOnce(*mut usize) -> Status,
        fill: impl FnOnce(*mut *const T, usize) -> Status,
    ) -> Result<Vec<*const T>> {
        let count = self.got(0usize, count)?;
        let mut pointers = vec![null(); count];
        if count > 0 {
            self.checked(fill(pointers.as_mut_ptr(), count))?;
        }
        Ok(pointers)
    }

    /// Returns a text that a function writes a pointer to.
    fn text(&self, call: impl FnOnce(*mut *const c_char) -> Status) -> Result<String> {
        let pointer = self.got(null(), call)?;
        // SAFETY: ONNX Runtime returns null or a text that ends with a zero and lives as long as what it belongs to.
        Ok(unsafe { text(pointer) }.unwrap_or_default())
    }
}

/// Copies a text.
///
/// # Safety
///
/// The pointer is null or points to a text that ends with a zero.
pub(crate) unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the caller says so.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// The functions about graphs.
///
/// # Safety
///
/// Of all of them: the pointers are those that ONNX Runtime passed to the running call, or got from these functions during it.
impl Api {
    pub(crate) unsafe fn nodes(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtNode>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(|n| self.table.graph_node_count(graph, n), |to, n| self.table.graph_nodes(graph, to, n))
        }
    }

    pub(crate) unsafe fn graph_inputs(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(
                |n| self.table.graph_input_count(graph, n),
                |to, n| self.table.graph_inputs(graph, to, n),
            )
        }
    }

    pub(crate) unsafe fn graph_outputs(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(
                |n| self.table.graph_output_count(graph, n),
                |to, n| self.table.graph_outputs(graph, to, n),
            )
        }
    }

    pub(crate) unsafe fn initializers(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(
                |n| self.table.graph_initializer_count(graph, n),
                |to, n| self.table.graph_initializers(graph, to, n),
            )
        }
    }

    /// Returns the node whose attribute a graph is; null if it is the model's own.
    pub(crate) unsafe fn parent(&self, graph: *const OrtGraph) -> Result<*const OrtNode> {
        // SAFETY: the caller says so.
        self.got(null(), |to| unsafe { self.table.graph_parent_node(graph, to) })
    }

    /// Returns the opsets that a graph imports.
    pub(crate) unsafe fn opsets(&self, graph: *const OrtGraph) -> Result<Vec<(String, i64)>> {
        // SAFETY: the caller says so.
        let count = self.got(0usize, |to| unsafe { self.table.operator_set_count(graph, to) })?;
        let (mut domains, mut versions) = (vec![null(); count], vec![0; count]);
        // SAFETY: the lists have as many places as the graph has opsets.
        self.checked(unsafe {
            self.table.operator_sets(graph, domains.as_mut_ptr(), versions.as_mut_ptr(), count)
        })?;
        // SAFETY: the texts belong to the graph.
        Ok(domains
            .into_iter()
            .map(|domain| unsafe { text(domain) }.unwrap_or_default())
            .zip(versions)
            .collect())
    }

    pub(crate) unsafe fn node_name(&self, node: *const OrtNode) -> Result<String> {
        // SAFETY: the caller says so.
        self.text(|to| unsafe { self.table.node_name(node, to) })
    }

    pub(crate) unsafe fn operator(&self, node: *const OrtNode) -> Result<String> {
        // SAFETY: the caller says so.
        self.text(|to| unsafe { self.table.node_operator(node, to) })
    }

    pub(crate) unsafe fn domain(&self, node: *const OrtNode) -> Result<String> {
        // SAFETY: the caller says so.
        self.text(|to| unsafe { self.table.node_domain(node, to) })
    }

    /// Returns the operands of a node; null for one that is left out.
    pub(crate) unsafe fn inputs(&self, node: *const OrtNode) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(|n| self.table.node_input_count(node, n), |to, n| self.table.node_inputs(node, to, n))
        }
    }

    /// Returns the results of a node; null for one that is left out.
    pub(crate) unsafe fn outputs(&self, node: *const OrtNode) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(|n| self.table.node_output_count(node, n), |to, n| self.table.node_outputs(node, to, n))
        }
    }

    /// Returns what the graphs of a node read from outside.
    pub(crate) unsafe fn implicit_inputs(&self, node: *const OrtNode) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(
                |n| self.table.node_implicit_input_count(node, n),
                |to, n| self.table.node_implicit_inputs(node, to, n),
            )
        }
    }

    pub(crate) unsafe fn attributes(&self, node: *const OrtNode) -> Result<Vec<*const OrtOpAttr>> {
        // SAFETY: the caller says so.
        unsafe {
            self.list(
                |n| self.table.node_attribute_count(node, n),
                |to, n| self.table.node_attributes(node, to, n),
            )
        }
    }

    pub(crate) unsafe fn attribute_name(&self, attribute: *const OrtOpAttr) -> Result<String> {
        // SAFETY: the caller says so.
        self.text(|to| unsafe { self.table.attribute_name(attribute, to) })
    }

    /// Returns the type of an attribute; 0 for one that the interface does not pass on.
    pub(crate) unsafe fn attribute_type(&self, attribute: *const OrtOpAttr) -> c_int {
        // SAFETY: the caller says so.
        self.got(0, |to| unsafe { self.table.attribute_type(attribute, to) }).unwrap_or(0)
    }

    /// Returns the elements of an attribute.
    pub(crate) unsafe fn attribute_elements<T: Copy + Default>(
        &self,
        attribute: *const OrtOpAttr,
        kind: c_int,
    ) -> Result<Vec<T>> {
        let mut needed = 0usize;
        // SAFETY: the caller says so; with no room the function only says how many bytes it needs.
        let status = unsafe { self.table.read_attribute(attribute, kind, null_mut(), 0, &raw mut needed) };
        let asked = self.checked(status);
        if needed == 0 {
            // An attribute without elements fits into no room.
            return if kind == ATTRIBUTE_STRING { Ok(Vec::new()) } else { asked.map(|()| Vec::new()) };
        }
        let mut elements = vec![T::default(); needed.div_ceil(size_of::<T>())];
        let to = elements.as_mut_ptr().cast::<c_void>();
        // SAFETY: there is room for as many bytes as the function asked for.
        self.checked(unsafe { self.table.read_attribute(attribute, kind, to, needed, &raw mut needed) })?;
        Ok(elements)
    }

    /// Returns the tensor that is an attribute.
    pub(crate) unsafe fn attribute_tensor(&self, attribute: *const OrtOpAttr) -> Result<TensorData> {
        // SAFETY: the caller says so.
        let value = self.got(null_mut(), |to| unsafe { self.table.attribute_tensor(attribute, to) })?;
        // SAFETY: the value is a tensor that this function owns.
        let data = unsafe { self.tensor(value, Elements::Copied) };
        // SAFETY: nobody else releases it, and its elements were copied.
        unsafe { self.table.release_value(value) };
        data
    }

    /// Returns the graphs that are attributes of a node, with the names of the attributes.
    pub(crate) unsafe fn subgraphs(&self, node: *const OrtNode) -> Result<Vec<(String, *const OrtGraph)>> {
        // SAFETY: the caller says so.
        let count = self.got(0usize, |to| unsafe { self.table.node_subgraph_count(node, to) })?;
        let (mut graphs, mut names) = (vec![null(); count], vec![null(); count]);
        if count > 0 {
            // SAFETY: the lists have as many places as the node has graphs.
            self.checked(unsafe {
                self.table.node_subgraphs(node, graphs.as_mut_ptr(), count, names.as_mut_ptr())
            })?;
        }
        // SAFETY: the texts belong to the node.
        Ok(names.into_iter().map(|name| unsafe { text(name) }.unwrap_or_default()).zip(graphs).collect())
    }

    /// Tells whether a value is one of a graph around the one that reads it.
    pub(crate) unsafe fn is_outer(&self, value: *const OrtValueInfo) -> Result<bool> {
        // SAFETY: the caller says so.
        self.got(false, |to| unsafe { self.table.is_from_outer_scope(value, to) })
    }

    pub(crate) unsafe fn value_name(&self, value: *const OrtValueInfo) -> Result<String> {
        // SAFETY: the caller says so.
        self.text(|to| unsafe { self.table.value_name(value, to) })
    }

    /// Returns the type of a value of a graph.
    pub(crate) unsafe fn value_type(&self, value: *const OrtValueInfo) -> Result<TensorType> {
        // SAFETY: the caller says so.
        let info = self.got(null(), |to| unsafe { self.table.value_type_info(value, to) })?;
        if info.is_null() {
            return Ok(TensorType::Other);
        }
        // SAFETY: the type belongs to the value.
        unsafe { self.tensor_type(info) }
    }

    unsafe fn tensor_type(&self, info: *const OrtTypeInfo) -> Result<TensorType> {
        // SAFETY: the caller says so.
        let tensor = self.got(null(), |to| unsafe { self.table.cast_to_tensor_info(info, to) })?;
        if tensor.is_null() {
            return Ok(TensorType::Other);
        }
        // SAFETY: this belongs to the type.
        let (element, extents) = unsafe { self.element_and_extents(tensor)? };
        let Some(dtype) = element else { return Ok(TensorType::Other) };
        let mut names = vec![null(); extents.len()];
        // SAFETY: there are as many places as extents.
        self.checked(unsafe { self.table.symbolic_dimensions(tensor, names.as_mut_ptr(), names.len()) })?;
        let extent = |(extent, name): (i64, *const c_char)| match u64::try_from(extent) {
            Ok(_) => Extent::Known(extent),
            // SAFETY: the name is null or a text that belongs to the type.
            Err(_) => Extent::Symbol(unsafe { text(name) }.unwrap_or_default()),
        };
        Ok(TensorType::Tensor(dtype, extents.into_iter().zip(names).map(extent).collect()))
    }

    /// Returns the element type, `None` for one that is not known here, and the extents; negative ones are not known.
    unsafe fn element_and_extents(
        &self,
        info: *const OrtTensorTypeAndShapeInfo,
    ) -> Result<(Option<DataType>, Vec<i64>)> {
        // SAFETY: the caller says so.
        let number = self.got(0, |to| unsafe { self.table.element_type(info, to) })?;
        // SAFETY: as above.
        let rank = self.got(0usize, |to| unsafe { self.table.dimensions_count(info, to) })?;
        let mut extents = vec![0; rank];
        // SAFETY: there are as many places as extents.
        self.checked(unsafe { self.table.dimensions(info, extents.as_mut_ptr(), rank) })?;
        Ok(((number <= LAST_TYPE).then(|| DataType::from_onnx(number)).flatten(), extents))
    }

    /// Returns the elements of a value that is a constant of the model; `None` if it is none.
    pub(crate) unsafe fn constant(
        &self,
        value: *const OrtValueInfo,
        elements: Elements<'_>,
    ) -> Result<Option<TensorData>> {
        // SAFETY: the caller says so.
        if !self.got(false, |to| unsafe { self.table.is_constant_initializer(value, to) })? {
            return Ok(None);
        }
        // SAFETY: as above.
        unsafe { self.initializer(value, elements) }
    }

    /// Returns the elements of an initializer, which a caller may perhaps override; `None` if there are none.
    pub(crate) unsafe fn initializer(
        &self,
        value: *const OrtValueInfo,
        elements: Elements<'_>,
    ) -> Result<Option<TensorData>> {
        // SAFETY: the caller says so.
        let tensor = self.got(null(), |to| unsafe { self.table.initializer_value(value, to) })?;
        // SAFETY: the tensor belongs to the graph.
        if tensor.is_null() { Ok(None) } else { unsafe { self.tensor(tensor, elements) }.map(Some) }
    }

    /// Returns texts by name.
    pub(crate) unsafe fn entries(&self, options: *const OrtSessionOptions) -> Result<Vec<(String, String)>> {
        // SAFETY: the caller says so.
        let pairs = self.got(null_mut(), |to| unsafe { self.table.config_entries(options, to) })?;
        // SAFETY: the pairs were made for this function.
        let entries = unsafe { self.pairs(pairs) };
        // SAFETY: nobody else releases them, and they were copied.
        unsafe { self.table.release_key_value_pairs(pairs) };
        Ok(entries)
    }

    unsafe fn pairs(&self, pairs: *const OrtKeyValuePairs) -> Vec<(String, String)> {
        let (mut keys, mut values, mut count) = (null(), null(), 0usize);
        // SAFETY: the caller says so.
        unsafe { self.table.key_value_pairs(pairs, &raw mut keys, &raw mut values, &raw mut count) };
        // SAFETY: both lists have `count` texts, which belong to the pairs.
        let at = |list: *const *const c_char, at: usize| unsafe { text(*list.add(at)) }.unwrap_or_default();
        (0..count).map(|index| (at(keys, index), at(values, index))).collect()
    }
}

/// The type of a value of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TensorType {
    /// A tensor with these extents. Without extents it is a scalar, or its rank is unknown: the oldest interface tells no difference.
    Tensor(DataType, Vec<Extent>),
    /// No tensor, or one of an element type that is not known here.
    Other,
}

/// An extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A number.
    Known(i64),
    /// A symbolic dimension; without a name if it is unknown.
    Symbol(String),
}

/// The functions about tensors.
///
/// # Safety
///
/// Of all of them: the value is one that ONNX Runtime passed to the running call, and none of its elements is written meanwhile.
impl Api {
    /// Returns the element type and the shape of a tensor.
    unsafe fn front(&self, value: *const OrtValue) -> Result<(DataType, Vec<usize>)> {
        let other = |number| PluginError::Kind { name: String::new(), number };
        // SAFETY: the caller says so.
        let kind = self.got(0, |to| unsafe { self.table.value_type(value, to) })?;
        if kind != TENSOR {
            return Err(other(kind));
        }
        // SAFETY: the value is a tensor.
        let info = self.got(null_mut(), |to| unsafe { self.table.tensor_type_and_shape(value, to) })?;
        // SAFETY: the function made it for us.
        let front = unsafe { self.element_and_extents(info) };
        // SAFETY: nobody else releases it.
        unsafe { self.table.release_tensor_info(info) };
        let (dtype, extents) = front?;
        let dtype = dtype.ok_or_else(|| other(kind))?;
        Ok((dtype, extents.into_iter().map(|extent| usize::try_from(extent).unwrap_or(0)).collect()))
    }

    /// Returns a tensor, whose elements are copied or lent.
    pub(crate) unsafe fn tensor(&self, value: *const OrtValue, elements: Elements<'_>) -> Result<TensorData> {
        // SAFETY: the caller says so.
        let (dtype, shape) = unsafe { self.front(value)? };
        if dtype == DataType::String {
            // SAFETY: the tensor is one of strings.
            return unsafe { self.strings(value, &shape) };
        }
        let too_large = || bb::ir::Error::TooLarge {
            dtype,
            shape: shape.as_slice().into(),
            limit: usize::MAX,
            name: None,
        };
        let count = bb_core::ir::element_count(&shape).ok_or_else(too_large)?;
        let length = dtype.bytes_for(count).ok_or_else(too_large)?;
        if length == 0 {
            return Ok(TensorData::adopt(dtype, &shape, Bytes::new())?);
        }
        // SAFETY: the value is a tensor with elements.
        let first = self.got(null(), |to| unsafe { self.table.tensor_data(value, to) })?.cast::<u8>();
        if first.is_null() {
            return Err(PluginError::Null { what: "the memory of a tensor" });
        }
        let bytes = match elements {
            Elements::Lent(lending, least) if length > least => {
                Bytes::from_owner(Lent { first, length, _held: lending.0.clone() })
            }
            // SAFETY: the tensor has as many bytes.
            _ => Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(first, length) }),
        };
        Ok(TensorData::adopt(dtype, &shape, bytes)?)
    }

    unsafe fn strings(&self, value: *const OrtValue, shape: &[usize]) -> Result<TensorData> {
        let count: usize = shape.iter().product();
        let mut texts = StringsBuilder::with_room("a tensor of ONNX Runtime", count)?;
        if count > 0 {
            // SAFETY: the caller says so.
            let length = self.got(0usize, |to| unsafe { self.table.string_tensor_length(value, to) })?;
            let (mut bytes, mut offsets) = (vec![0u8; length], vec![0usize; count]);
            // SAFETY: there is room for as many bytes and offsets as the tensor has.
            self.checked(unsafe {
                let to = bytes.as_mut_ptr().cast::<c_void>();
                self.table.string_tensor_content(value, to, length, offsets.as_mut_ptr(), count)
            })?;
            let ends = offsets.iter().skip(1).copied().chain([length]);
            for (&begin, end) in offsets.iter().zip(ends) {
                texts.push(std::str::from_utf8(bytes.get(begin..end).unwrap_or_default())?)?;
            }
        }
        Ok(texts.finish(shape)?)
    }

    /// Writes a host tensor into a tensor of ONNX Runtime of the same element type and shape.
    pub(crate) unsafe fn fill(&self, value: *mut OrtValue, data: &TensorData) -> Result<()> {
        if data.dtype() == DataType::String {
            for (at, text) in data.iter_str().enumerate() {
                // SAFETY: the tensor has as many elements as the host tensor.
                let to =
                    self.got(null_mut(), |to| unsafe { self.table.string_room(value, at, text.len(), to) })?;
                if !text.is_empty() {
                    // SAFETY: the function made room for as many bytes.
                    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), text.len()) };
                }
            }
            return Ok(());
        }
        let bytes = data.unaligned_bytes()?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller says so.
        let to = self.got(null_mut(), |to| unsafe { self.table.tensor_mutable_data(value, to) })?;
        if to.is_null() {
            return Err(PluginError::Null { what: "the memory of a result" });
        }
        // SAFETY: ONNX Runtime allocated the tensor for this element type and shape, so that it has as many bytes; it is no part of
        // the host tensor's memory, because it was allocated while that existed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), bytes.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
        static TABLE: OrtApi = OrtApi::with(0, create_status as *const c_void);
    }

    /// Keeps the message, and returns a pointer that nobody reads.
    unsafe extern "system" fn create_status(_code: c_int, message: *const c_char) -> Status {
        // SAFETY: the message is a text of `status_of`.
        MESSAGE.set(unsafe { text(message) }.unwrap_or_default());
        std::ptr::dangling_mut()
    }

    unsafe extern "system" fn only_the_first(version: u32) -> *const OrtApi {
        if version == 1 { TABLE.with(std::ptr::from_ref) } else { null() }
    }

    unsafe extern "system" fn old() -> *const c_char {
        c"1.22.1".as_ptr()
    }

    #[test]
    fn a_library_that_is_too_old_gets_an_error_of_its_own() {
        let base = OrtApiBase { get_api: only_the_first, get_version_string: old };
        // SAFETY: the base has the two functions, and they return what those of ONNX Runtime do.
        let status = unsafe { Api::of(&raw const base) };
        assert!(matches!(status, Err(status) if !status.is_null()));
        let message = MESSAGE.with_borrow(Clone::clone);
        assert_eq!(message, "expected ONNX Runtime 1.23 or newer, got 1.22.1");
    }

    #[test]
    fn no_base_is_no_crash() {
        // SAFETY: null is allowed.
        assert!(matches!(unsafe { Api::of(null()) }, Err(status) if status.is_null()));
    }
}
