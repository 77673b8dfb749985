//! One call of an operator, with typed access to its operands and attributes.

use super::reads::AttributeReads;
use super::{OnnxValue, RoundsOperator, SequenceStep, TensorFunction};
use crate::Error;
use crate::contract::check_value;
use crate::error::NodePart;
use crate::ext::{Extent, Ops};
use crate::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::graph::{Attribute, Attributes, Graph, Node, ValueType};
use bb_ir::infer::ControlFlow;
use bb_ir::{DataType, TensorData};
use smallvec::{SmallVec, smallvec};

/// The results of an operator, in order; `None` for a result that the function did not compute.
pub type OpOutputs<T> = SmallVec<[Option<T>; 2]>;

/// The result of the function of an operator.
pub type OpResult = Result<OpOutputs<TracedTensor>, TraceStop>;

/// The function of an operator, which records calls on the tracer.
pub type Function = fn(&Tracer, &Call<'_, TracedTensor>) -> OpResult;

/// The function of an operator on host tensors.
pub type HostFunction = fn(&Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error>;

/// The result of an operator's function on structures of tensors.
pub type ItemResult = Result<OpOutputs<OnnxValue<TracedTensor>>, TraceStop>;

/// The function of an operator on structures of tensors.
pub type ItemFunction = fn(&Tracer, &Call<'_, OnnxValue<TracedTensor>>) -> ItemResult;

/// The implementation of an operator, by the kind of its operands.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// A function on traced tensors.
    Tensors(TensorFunction),
    /// A function on host tensors.
    Host(HostFunction),
    /// A function on structures of tensors. If a plan passes on a sequence without splitting it, the plan runs the step
    /// instead of the function.
    Items(ItemFunction, Option<SequenceStep>),
    /// Control flow without a function: the plan runs the operator's subgraphs.
    ControlFlow(ControlFlow),
    /// Rounds without a function: the plan runs the operator's subgraphs in rounds that the operator determines.
    Rounds(&'static RoundsOperator),
}

/// One call of an operator: the node and its operands.
#[derive(Debug)]
pub struct Call<'a, T> {
    node: &'a Node,
    inputs: &'a [Option<T>],
    reads: Option<&'a AttributeReads>,
    /// The graph that contains the node, if the graph is known.
    graph: Option<&'a Graph>,
    /// The maximum number of bytes of a result.
    value_bytes: usize,
    /// A bit for each result that has a name but that nothing reads. Results beyond the last bit count as read.
    unread: u64,
}

impl<'a, T> Call<'a, T> {
    /// Creates a call. `inputs` are the operands of `node`; an omitted operand is `None`.
    pub fn new(node: &'a Node, inputs: &'a [Option<T>]) -> Call<'a, T> {
        Call { node, inputs, reads: None, graph: None, value_bytes: usize::MAX, unread: 0 }
    }

    /// Creates a call that records in `reads` the attributes that the function reads.
    pub fn noting(node: &'a Node, inputs: &'a [Option<T>], reads: &'a AttributeReads) -> Call<'a, T> {
        Call { node, inputs, reads: Some(reads), graph: None, value_bytes: usize::MAX, unread: 0 }
    }

    /// Returns the same call with other operands.
    pub fn with_operands<'b>(&self, inputs: &'b [Option<T>]) -> Call<'b, T>
    where
        'a: 'b,
    {
        let &Call { node, inputs: _, reads, graph, value_bytes, unread } = self;
        Call { node, inputs, reads, graph, value_bytes, unread }
    }

    /// Returns the same call with the graph that contains the node. The graph may declare the types of the results.
    #[must_use]
    pub fn of(self, graph: &'a Graph) -> Call<'a, T> {
        Call { graph: Some(graph), ..self }
    }

    /// Returns the element type that the graph declares for a result; `None` if it declares none.
    pub fn declared(&self, result: usize) -> Option<DataType> {
        let value = self.node.outputs.get(result).copied().flatten()?;
        match &self.graph?.values.get(value.index())?.ty {
            ValueType::Tensor { dtype, .. } => Some(*dtype),
            _ => None,
        }
    }

    /// Returns the same call with a limit on the bytes of each result.
    #[must_use]
    pub fn within(self, value_bytes: usize) -> Call<'a, T> {
        Call { value_bytes, ..self }
    }

    /// Returns the same call, with the result at `index` marked as not read.
    #[must_use]
    pub(crate) fn with_unread(self, index: usize) -> Call<'a, T> {
        let bit = u32::try_from(index).ok().and_then(|index| 1u64.checked_shl(index)).unwrap_or(0);
        Call { unread: self.unread | bit, ..self }
    }

    /// Returns the maximum number of bytes of a result.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns an error if a result would be too large. Host functions call this before they compute the result.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::TooLarge`].
    pub fn bound(&self, dtype: DataType, shape: &[usize]) -> Result<(), Error> {
        check_value(dtype, shape, self.value_bytes)
    }

    /// Returns the operand at `index`.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is omitted.
    pub fn input(&self, index: usize) -> Result<&'a T, Error> {
        self.optional(index).ok_or_else(|| {
            self.wrong(NodePart::Operand(index), format!("is missing; {} came", self.inputs.len()))
        })
    }

    /// Returns the operand at `index`; `None` if it is omitted.
    pub fn optional(&self, index: usize) -> Option<&'a T> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    /// Returns all operands of a variadic operator.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if an operand is omitted.
    pub fn all(&self) -> Result<SmallVec<[&'a T; 8]>, Error> {
        (0..self.inputs.len()).map(|i| self.input(i)).collect()
    }

    /// Returns the number of operands, including omitted ones.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns whether there are no operands.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns whether the node names the result at `index`.
    pub fn wants(&self, index: usize) -> bool {
        self.node.outputs.get(index).is_some_and(Option::is_some)
    }

    /// Returns whether the node names the result at `index` and something may read it. A function need not compute
    /// other results. For some operators the name itself has a meaning: `BatchNormalization` before opset 14 trains if
    /// results have names.
    pub fn is_read(&self, index: usize) -> bool {
        let unread = u32::try_from(index).ok().and_then(|index| self.unread.checked_shr(index)).unwrap_or(0);
        self.wants(index) && unread & 1 == 0
    }

    /// Returns the number of the node's outputs, including omitted ones.
    pub fn results(&self) -> usize {
        self.node.outputs.len()
    }

    /// Returns the opset of the operator's domain.
    pub fn opset(&self) -> i64 {
        self.node.opset
    }

    /// Returns the operator's name, as in `ReduceSum`.
    pub fn op_type(&self) -> &'a str {
        &self.node.op_type
    }

    /// Returns the domain of the operator; empty for `ai.onnx`.
    pub fn domain(&self) -> &'a str {
        &self.node.domain
    }

    /// Lists the names of the node's attributes. This does not count as reading them.
    pub fn attribute_names(&self) -> impl Iterator<Item = &'a str> {
        self.node.attributes.iter().map(|(name, _)| name)
    }

    /// Returns the attributes, and records that the function reads the attribute `name`.
    fn reading(&self, name: &str) -> &'a Attributes {
        if let Some(reads) = self.reads {
            reads.note(name, None);
        }
        &self.node.attributes
    }

    /// Returns the attributes, and records that the function reads the attribute `name` with the default `default`.
    fn reading_or(&self, name: &str, default: impl FnOnce() -> Attribute) -> &'a Attributes {
        if let Some(reads) = self.reads {
            reads.note(name, Some(default()));
        }
        &self.node.attributes
    }

    /// Returns whether the node has the attribute.
    pub fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// Builds the error for a `problem` with a part of the node. A string names an attribute or operand.
    pub fn wrong(&self, part: impl Into<NodePart>, problem: impl Into<String>) -> Error {
        Error::Operator { op: self.node.op_type.clone(), part: part.into(), problem: problem.into() }
    }

    /// Returns an integer attribute.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is omitted, [`Error::Ir`] if it has another kind.
    pub fn int(&self, name: &str) -> Result<i64, Error> {
        self.required(name, self.int_if_given(name)?)
    }

    /// Returns an integer attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn int_if_given(&self, name: &str) -> Result<Option<i64>, Error> {
        Ok(self.reading(name).int(name)?)
    }

    /// Returns a float attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn float_if_given(&self, name: &str) -> Result<Option<f32>, Error> {
        Ok(self.reading(name).float(name)?)
    }

    /// Returns a tensor attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn tensor_attribute(&self, name: &str) -> Result<Option<&'a TensorData>, Error> {
        Ok(self.reading(name).tensor(name)?)
    }

    /// Returns a graph attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn graph(&self, name: &str) -> Result<Option<&'a Graph>, Error> {
        Ok(self.reading(name).graph(name)?)
    }

    /// Returns the bytes of each string of a string list attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn texts(&self, name: &str) -> Result<Option<&'a [Vec<u8>]>, Error> {
        Ok(self.reading(name).texts(name)?)
    }

    /// Returns an integer attribute, or `default` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.reading_or(name, || Attribute::Int(default)).int(name)?.unwrap_or(default))
    }

    /// Returns whether an integer attribute is not 0; `default` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        let attributes = self.reading_or(name, || Attribute::Int(default.into()));
        Ok(attributes.int(name)?.map_or(default, |v| v != 0))
    }

    /// Returns a float attribute.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is omitted, [`Error::Ir`] if it has another kind.
    pub fn float(&self, name: &str) -> Result<f64, Error> {
        self.required(name, self.float_if_given(name)?.map(f64::from))
    }

    /// Returns a float attribute, or the nearest `f32` of `default` if it is omitted. Attributes are `f32`, so a
    /// default gives the same value as when a model writes it explicitly.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64, Error> {
        let default = default as f32;
        let attributes = self.reading_or(name, || Attribute::Float(default));
        Ok(attributes.float(name)?.unwrap_or(default).into())
    }

    /// Returns an integer list attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, Error> {
        Ok(self.reading(name).ints(name)?)
    }

    /// Returns a float list attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn floats(&self, name: &str) -> Result<Option<&'a [f32]>, Error> {
        Ok(self.reading(name).floats(name)?)
    }

    /// Returns a string attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind or is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        Ok(self.reading(name).text(name)?)
    }

    /// Returns the bytes of a string attribute; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind.
    pub fn bytes(&self, name: &str) -> Result<Option<&'a [u8]>, Error> {
        Ok(self.reading(name).bytes(name)?)
    }

    /// Returns a string attribute, or `default` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind or is not UTF-8.
    pub fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, Error> {
        let attributes = self.reading_or(name, || Attribute::Text(default.into()));
        Ok(attributes.text(name)?.unwrap_or(default))
    }

    /// Parses a string attribute, or `default` if it is omitted, with `of`.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind, [`Error::Operator`] if `of` does not accept the string.
    pub fn word<W>(
        &self,
        name: &'static str,
        default: &'a str,
        of: impl Fn(&'static str, &str) -> Result<W, bb_ir::Error>,
    ) -> Result<W, Error> {
        let text = self.text_or(name, default)?;
        of(name, text).map_err(|error| match error {
            bb_ir::Error::Word { expected, .. } => {
                self.wrong(name, format!("is `{text}`, expected {expected}"))
            }
            error => error.into(),
        })
    }

    /// Returns the element type whose ONNX number an integer attribute contains; `None` if it is omitted.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if it has another kind, [`Error::Operator`] if no element type has the number.
    pub fn dtype(&self, name: &str) -> Result<Option<bb_ir::DataType>, Error> {
        let Some(number) = self.int_if_given(name)? else { return Ok(None) };
        let dtype = i32::try_from(number).ok().and_then(bb_ir::DataType::from_onnx);
        dtype.map(Some).ok_or_else(|| self.wrong(name, format!("is {number}, which numbers no element type")))
    }

    /// Returns an attribute of any kind.
    pub fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.reading(name).get(name)
    }

    fn required<V>(&self, name: &str, value: Option<V>) -> Result<V, Error> {
        value.ok_or_else(|| self.wrong(name, "is missing; the operator needs it"))
    }
}

impl<T> Call<'_, T> {
    /// Reads a list of integers that is an attribute in old opsets and the operand at `index` in newer ones.
    pub fn list<B: Ops<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        name: &str,
        index: usize,
    ) -> Result<Option<Vec<i64>>, B::Error>
    where
        T: crate::Tensor,
    {
        match (self.optional(index), self.ints(name)?) {
            (Some(x), _) => on.ints(x).map(Some),
            (None, list) => Ok(list.map(<[i64]>::to_vec)),
        }
    }
}

impl<T> Call<'_, T> {
    /// Reads a list of extents that is an attribute in old opsets and the operand at `index` in newer ones.
    pub fn extents<B: Ops<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        name: &str,
        index: usize,
    ) -> Result<Option<Vec<Extent>>, B::Error>
    where
        T: crate::Tensor,
    {
        match (self.optional(index), self.ints(name)?) {
            (Some(x), _) => on.extents_of(x).map(Some),
            (None, list) => Ok(list.map(|list| list.iter().map(|&n| Extent::from(n)).collect())),
        }
    }
}

/// Returns the results of an operator that has one result.
pub fn one<T>(x: T) -> OpOutputs<T> {
    smallvec![Some(x)]
}
