//! Reads graphs, their nodes and their values.

use super::{Api, Elements, Result, text};
use crate::raw::{
    OrtGraph, OrtKeyValuePairs, OrtNode, OrtOpAttr, OrtSessionOptions, OrtTensorTypeAndShapeInfo,
    OrtTypeInfo, OrtValueInfo, attribute_types,
};
use bb::{DataType, TensorData};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

/// The last number of an element type that is the same in ONNX and in ONNX Runtime.
const LAST_TYPE: c_int = 23;

/// Functions that read graphs.
///
/// # Safety
///
/// For all functions: the pointers were passed to the running call by ONNX Runtime, or returned by these functions during the call.
impl Api {
    pub(crate) unsafe fn nodes(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtNode>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(|n| self.table.graph_node_count(graph, n), |to, n| self.table.graph_nodes(graph, to, n))
        }
    }

    pub(crate) unsafe fn graph_inputs(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(
                |n| self.table.graph_input_count(graph, n),
                |to, n| self.table.graph_inputs(graph, to, n),
            )
        }
    }

    pub(crate) unsafe fn graph_outputs(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(
                |n| self.table.graph_output_count(graph, n),
                |to, n| self.table.graph_outputs(graph, to, n),
            )
        }
    }

    pub(crate) unsafe fn initializers(&self, graph: *const OrtGraph) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(
                |n| self.table.graph_initializer_count(graph, n),
                |to, n| self.table.graph_initializers(graph, to, n),
            )
        }
    }

    /// Returns the node that has the graph as an attribute, or null for the main graph of the model.
    pub(crate) unsafe fn parent(&self, graph: *const OrtGraph) -> Result<*const OrtNode> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.got(null(), |to| unsafe { self.table.graph_parent_node(graph, to) })
    }

    /// Returns the file of a model. Returns `None` if the model was loaded from bytes, and on systems other than Unix.
    pub(crate) unsafe fn model_path(&self, graph: *const OrtGraph) -> Result<Option<PathBuf>> {
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            // SAFETY: the caller upholds the safety contract of this function.
            let pointer = self.got(null(), |to| unsafe { self.table.model_path(graph, to) })?;
            if pointer.is_null() {
                return Ok(None);
            }
            // SAFETY: the path is NUL-terminated and belongs to the graph.
            let bytes = unsafe { std::ffi::CStr::from_ptr(pointer) }.to_bytes();
            Ok((!bytes.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(bytes))))
        }
        #[cfg(not(unix))]
        {
            let _ = graph;
            Ok(None)
        }
    }

    /// Returns the opsets that a graph imports.
    pub(crate) unsafe fn opsets(&self, graph: *const OrtGraph) -> Result<Vec<(String, i64)>> {
        // SAFETY: the caller upholds the safety contract of this function.
        let count = self.got(0usize, |to| unsafe { self.table.operator_set_count(graph, to) })?;
        let (mut domains, mut versions) = (vec![null(); count], vec![0; count]);
        // SAFETY: the lists have room for `count` opsets.
        self.checked(unsafe {
            self.table.operator_sets(graph, domains.as_mut_ptr(), versions.as_mut_ptr(), count)
        })?;
        // SAFETY: the strings belong to the graph.
        Ok(domains
            .into_iter()
            .map(|domain| unsafe { text(domain) }.unwrap_or_default())
            .zip(versions)
            .collect())
    }

    pub(crate) unsafe fn node_name(&self, node: *const OrtNode) -> Result<String> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.text(|to| unsafe { self.table.node_name(node, to) })
    }

    pub(crate) unsafe fn operator(&self, node: *const OrtNode) -> Result<String> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.text(|to| unsafe { self.table.node_operator(node, to) })
    }

    pub(crate) unsafe fn domain(&self, node: *const OrtNode) -> Result<String> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.text(|to| unsafe { self.table.node_domain(node, to) })
    }

    /// Returns the operands of a node, with null for an omitted operand.
    pub(crate) unsafe fn inputs(&self, node: *const OrtNode) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(|n| self.table.node_input_count(node, n), |to, n| self.table.node_inputs(node, to, n))
        }
    }

    /// Returns the results of a node, with null for an omitted result.
    pub(crate) unsafe fn outputs(&self, node: *const OrtNode) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(|n| self.table.node_output_count(node, n), |to, n| self.table.node_outputs(node, to, n))
        }
    }

    /// Returns the outer values that the subgraphs of a node read.
    pub(crate) unsafe fn implicit_inputs(&self, node: *const OrtNode) -> Result<Vec<*const OrtValueInfo>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(
                |n| self.table.node_implicit_input_count(node, n),
                |to, n| self.table.node_implicit_inputs(node, to, n),
            )
        }
    }

    pub(crate) unsafe fn attributes(&self, node: *const OrtNode) -> Result<Vec<*const OrtOpAttr>> {
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe {
            self.list(
                |n| self.table.node_attribute_count(node, n),
                |to, n| self.table.node_attributes(node, to, n),
            )
        }
    }

    pub(crate) unsafe fn attribute_name(&self, attribute: *const OrtOpAttr) -> Result<String> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.text(|to| unsafe { self.table.attribute_name(attribute, to) })
    }

    /// Returns the type of an attribute, or 0 if the interface does not support its type.
    pub(crate) unsafe fn attribute_type(&self, attribute: *const OrtOpAttr) -> c_int {
        // SAFETY: the caller upholds the safety contract of this function.
        self.got(0, |to| unsafe { self.table.attribute_type(attribute, to) }).unwrap_or(0)
    }

    /// Returns the elements of an attribute.
    pub(crate) unsafe fn attribute_elements<T: Copy + Default>(
        &self,
        attribute: *const OrtOpAttr,
        kind: c_int,
    ) -> Result<Vec<T>> {
        let mut needed = 0usize;
        // SAFETY: the caller upholds the safety contract of this function. Without a buffer, the function only writes the required size.
        let status = unsafe { self.table.read_attribute(attribute, kind, null_mut(), 0, &raw mut needed) };
        let asked = self.checked(status);
        if needed == 0 {
            // Reading an attribute without elements into an empty buffer succeeds.
            return if kind == attribute_types::STRING { Ok(Vec::new()) } else { asked.map(|()| Vec::new()) };
        }
        let mut elements = vec![T::default(); needed.div_ceil(size_of::<T>())];
        let to = elements.as_mut_ptr().cast::<c_void>();
        // SAFETY: the buffer has the size that the function requested.
        self.checked(unsafe { self.table.read_attribute(attribute, kind, to, needed, &raw mut needed) })?;
        Ok(elements)
    }

    /// Returns the tensor in an attribute.
    pub(crate) unsafe fn attribute_tensor(&self, attribute: *const OrtOpAttr) -> Result<TensorData> {
        // SAFETY: the caller upholds the safety contract of this function.
        let value = self.got(null_mut(), |to| unsafe { self.table.attribute_tensor(attribute, to) })?;
        // SAFETY: the value is a tensor that this function owns.
        let data = unsafe { self.tensor(value, Elements::Copied) };
        // SAFETY: this is the only release, and the elements were copied.
        unsafe { self.table.release_value(value) };
        data
    }

    /// Returns the subgraphs of a node, with the names of their attributes.
    pub(crate) unsafe fn subgraphs(&self, node: *const OrtNode) -> Result<Vec<(String, *const OrtGraph)>> {
        // SAFETY: the caller upholds the safety contract of this function.
        let count = self.got(0usize, |to| unsafe { self.table.node_subgraph_count(node, to) })?;
        let (mut graphs, mut names) = (vec![null(); count], vec![null(); count]);
        if count > 0 {
            // SAFETY: the lists have room for `count` subgraphs.
            self.checked(unsafe {
                self.table.node_subgraphs(node, graphs.as_mut_ptr(), count, names.as_mut_ptr())
            })?;
        }
        // SAFETY: the strings belong to the node.
        Ok(names.into_iter().map(|name| unsafe { text(name) }.unwrap_or_default()).zip(graphs).collect())
    }

    /// Returns whether a value belongs to a graph around the one that reads it.
    pub(crate) unsafe fn is_outer(&self, value: *const OrtValueInfo) -> Result<bool> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.got(false, |to| unsafe { self.table.is_from_outer_scope(value, to) })
    }

    pub(crate) unsafe fn value_name(&self, value: *const OrtValueInfo) -> Result<String> {
        // SAFETY: the caller upholds the safety contract of this function.
        self.text(|to| unsafe { self.table.value_name(value, to) })
    }

    /// Returns the type of a value of a graph.
    pub(crate) unsafe fn value_type(&self, value: *const OrtValueInfo) -> Result<TensorType> {
        // SAFETY: the caller upholds the safety contract of this function.
        let info = self.got(null(), |to| unsafe { self.table.value_type_info(value, to) })?;
        if info.is_null() {
            return Ok(TensorType::Other);
        }
        // SAFETY: the type belongs to the value.
        unsafe { self.tensor_type(info) }
    }

    unsafe fn tensor_type(&self, info: *const OrtTypeInfo) -> Result<TensorType> {
        // SAFETY: the caller upholds the safety contract of this function.
        let tensor = self.got(null(), |to| unsafe { self.table.cast_to_tensor_info(info, to) })?;
        if tensor.is_null() {
            return Ok(TensorType::Other);
        }
        // SAFETY: this belongs to the type.
        let (element, extents) = unsafe { self.element_and_extents(tensor)? };
        let Ok(dtype) = element else { return Ok(TensorType::Other) };
        let mut names = vec![null(); extents.len()];
        // SAFETY: the list has one element for each extent.
        self.checked(unsafe { self.table.symbolic_dimensions(tensor, names.as_mut_ptr(), names.len()) })?;
        let extent = |(extent, name): (i64, *const c_char)| match u64::try_from(extent) {
            Ok(_) => Extent::Known(extent),
            // SAFETY: the name is null or a string that belongs to the type.
            Err(_) => Extent::Symbol(unsafe { text(name) }.unwrap_or_default()),
        };
        Ok(TensorType::Tensor(dtype, extents.into_iter().zip(names).map(extent).collect()))
    }

    /// Returns the element type and the extents. An unknown element type is returned as its number. Negative extents are unknown.
    pub(super) unsafe fn element_and_extents(
        &self,
        info: *const OrtTensorTypeAndShapeInfo,
    ) -> Result<(std::result::Result<DataType, c_int>, Vec<i64>)> {
        // SAFETY: the caller upholds the safety contract of this function.
        let number = self.got(0, |to| unsafe { self.table.element_type(info, to) })?;
        // SAFETY: as above.
        let rank = self.got(0usize, |to| unsafe { self.table.dimensions_count(info, to) })?;
        let mut extents = vec![0; rank];
        // SAFETY: the list has one element for each extent.
        self.checked(unsafe { self.table.dimensions(info, extents.as_mut_ptr(), rank) })?;
        let known = (number <= LAST_TYPE).then(|| DataType::from_onnx(number)).flatten();
        Ok((known.ok_or(number), extents))
    }

    /// Returns the elements of a constant of the model, or `None` if the value is not a constant.
    pub(crate) unsafe fn constant(
        &self,
        value: *const OrtValueInfo,
        elements: Elements<'_>,
    ) -> Result<Option<TensorData>> {
        // SAFETY: the caller upholds the safety contract of this function.
        if !self.got(false, |to| unsafe { self.table.is_constant_initializer(value, to) })? {
            return Ok(None);
        }
        // SAFETY: as above.
        unsafe { self.initializer(value, elements) }
    }

    /// Returns the elements of an initializer, which a caller may be able to override. Returns `None` if there are none.
    pub(crate) unsafe fn initializer(
        &self,
        value: *const OrtValueInfo,
        elements: Elements<'_>,
    ) -> Result<Option<TensorData>> {
        // SAFETY: the caller upholds the safety contract of this function.
        let tensor = self.got(null(), |to| unsafe { self.table.initializer_value(value, to) })?;
        // SAFETY: the tensor belongs to the graph.
        if tensor.is_null() { Ok(None) } else { unsafe { self.tensor(tensor, elements) }.map(Some) }
    }

    /// Creates pairs of texts, which the caller releases.
    pub(crate) fn key_value_pairs(&self, pairs: &[(&CStr, &CStr)]) -> *mut OrtKeyValuePairs {
        let mut made = null_mut();
        // SAFETY: the out pointer is valid.
        unsafe { self.table.create_key_value_pairs(&raw mut made) };
        for (key, value) in pairs {
            // SAFETY: the pairs were created above, and ONNX Runtime copies the texts.
            unsafe { self.table.add_key_value_pair(made, key.as_ptr(), value.as_ptr()) };
        }
        made
    }

    /// Returns the configuration entries of a session.
    pub(crate) unsafe fn entries(&self, options: *const OrtSessionOptions) -> Result<Vec<(String, String)>> {
        // SAFETY: the caller upholds the safety contract of this function.
        let pairs = self.got(null_mut(), |to| unsafe { self.table.config_entries(options, to) })?;
        // SAFETY: the pairs were created for this function.
        let entries = unsafe { self.pairs(pairs) };
        // SAFETY: this is the only release, and the pairs were copied.
        unsafe { self.table.release_key_value_pairs(pairs) };
        Ok(entries)
    }

    unsafe fn pairs(&self, pairs: *const OrtKeyValuePairs) -> Vec<(String, String)> {
        let (mut keys, mut values, mut count) = (null(), null(), 0usize);
        // SAFETY: the caller upholds the safety contract of this function.
        unsafe { self.table.key_value_pairs(pairs, &raw mut keys, &raw mut values, &raw mut count) };
        // SAFETY: both lists have `count` strings, which belong to the pairs.
        let at = |list: *const *const c_char, at: usize| unsafe { text(*list.add(at)) }.unwrap_or_default();
        (0..count).map(|index| (at(keys, index), at(values, index))).collect()
    }
}

/// The type of a value in a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TensorType {
    /// A tensor with a shape. An empty shape means a scalar or an unknown rank, because the oldest interface does not distinguish them.
    Tensor(DataType, Vec<Extent>),
    /// Not a tensor, or a tensor of an unknown element type.
    Other,
}

/// An extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A known extent.
    Known(i64),
    /// A symbolic dimension, with an empty name if it has none.
    Symbol(String),
}
