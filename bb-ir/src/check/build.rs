//! Builds a [`Graph`] from protobuf: replaces names by value identifiers, and sorts the nodes.
//!
//! The builder has a stack of *frames*, one for each name space (the graph, each subgraph, and each function that is
//! being inlined), and a stack of *graphs*. A subgraph pushes to both stacks. An inlined function only pushes a frame,
//! because its nodes become nodes of the calling graph.

use super::imports::Imports;
use super::model::CheckOptions;
use super::names::Frame;
use super::order::{label, order};
use super::{control, schema};
use crate::graph::{Attributes, Graph, Node, ValueId, ValueInfo, ValueType, Warning};
use crate::infer::Operators;
use crate::limits::Meter;
use crate::opset::{domain_name, home, without_import};
use crate::pace::ask;
use crate::proto::{ExternalData, FunctionProto, GraphProto, NodeProto, TensorProto};
use crate::{Error, TensorData};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A graph being built.
#[derive(Default)]
pub(super) struct Level {
    pub(super) graph: Graph,
    /// For each value, whether it may be renamed to make its name unique.
    pub(super) renamable: Vec<bool>,
}

/// Builds a graph and its subgraphs.
pub(super) struct Builder<'p> {
    pub(super) meter: Meter<'p>,
    /// The location of external data.
    pub(super) external: Option<&'p ExternalData>,
    operators: Operators,
    /// The tensors of functions that are already decoded, by the address of their messages.
    pub(super) decoded: HashMap<usize, TensorData>,
    pub(super) functions: HashMap<super::function::Key<'p>, &'p FunctionProto>,
    /// The functions that are being inlined, outermost first.
    pub(super) calls: Vec<super::function::Key<'p>>,
    pub(super) frame: Frame<'p>,
    pub(super) below: Vec<Frame<'p>>,
    pub(super) level: Level,
    pub(super) outer: Vec<Level>,
    /// The errors of nodes that are invalid by themselves.
    problems: Vec<Error>,
    /// The faults of the imports, without duplicates.
    warnings: Vec<Warning>,
    warned: HashSet<Warning>,
}

impl<'p> Builder<'p> {
    pub(super) fn new(
        options: &'p CheckOptions<'_>,
        functions: &'p [FunctionProto],
    ) -> Result<Builder<'p>, Error> {
        Ok(Builder {
            meter: Meter::new(&options.limits),
            external: options.external_data,
            operators: options.operators,
            decoded: HashMap::new(),
            functions: super::function::index(functions)?,
            calls: Vec::new(),
            frame: Frame::root(Rc::default()),
            below: Vec::new(),
            level: Level::default(),
            outer: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            warned: HashSet::new(),
        })
    }

    /// Builds the outermost graph. Invalid nodes are omitted, and their errors are appended to `problems`.
    ///
    /// # Errors
    ///
    /// The error that makes the whole graph invalid.
    pub(super) fn root(
        mut self,
        graph: &'p GraphProto,
        imports: Imports,
        problems: &mut Vec<Error>,
    ) -> Result<Graph, Error> {
        imports.warnings.into_iter().for_each(|warning| self.warn(warning));
        self.frame.opsets = Rc::new(imports.versions);
        let filled = self.fill(graph);
        problems.append(&mut self.problems);
        self.level.graph.imports = self.warnings;
        filled.map(|()| finish(self.level))
    }

    /// Adds a warning, unless the same warning was added before.
    pub(super) fn warn(&mut self, warning: Warning) {
        if self.warned.insert(warning.clone()) {
            self.warnings.push(warning);
        }
    }

    /// Builds a subgraph in an attribute of the current node.
    pub(super) fn subgraph(&mut self, graph: &'p GraphProto) -> Result<Graph, Error> {
        self.enter()?;
        let frame = Frame {
            subgraph: true,
            level: self.outer.len() + 1,
            bound: self.frame.bound.clone(),
            ..Frame::root(Rc::clone(&self.frame.opsets))
        };
        self.outer.push(std::mem::take(&mut self.level));
        self.push(frame);
        self.fill(graph)?;
        self.pop();
        let inner = std::mem::replace(&mut self.level, self.outer.pop().unwrap_or_default());
        Ok(finish(inner))
    }

    /// Returns an error if another level of nesting would exceed the limit.
    pub(super) fn enter(&self) -> Result<(), Error> {
        self.meter.nesting(self.below.len() + 1)
    }

    pub(super) fn push(&mut self, frame: Frame<'p>) {
        self.below.push(std::mem::replace(&mut self.frame, frame));
    }

    /// Restores the previous frame, and returns the current one.
    pub(super) fn pop(&mut self) -> Option<Frame<'p>> {
        let below = self.below.pop()?;
        Some(std::mem::replace(&mut self.frame, below))
    }

    /// Adds the content of `graph` to the current level.
    fn fill(&mut self, graph: &'p GraphProto) -> Result<(), Error> {
        self.meter.name(graph.name())?;
        graph.name().clone_into(&mut self.level.graph.name);
        for info in graph.value_info.iter().chain(&graph.output) {
            ask();
            self.declare(info)?;
        }
        let mut inputs = HashSet::new();
        let defaults = if self.in_subgraph() { initializers(graph) } else { HashSet::new() };
        for info in &graph.input {
            ask();
            let id = self.define(info.name(), "the graph's inputs")?;
            inputs.insert(id);
            // In IR version 3, every initializer must also be listed as an input, even in subgraphs, whose callers cannot
            // pass other values. So an initializer in a subgraph is not an input.
            if !defaults.contains(info.name()) {
                self.level.graph.inputs.push(id);
            }
            match self.written(info)? {
                // The operands that a node passes to its subgraph are not compared with the declared type, so the
                // declared shape is only a claim.
                Some(ty) if self.in_subgraph() => self.claim(id, &ty)?,
                Some(ty) => self.refine(id, &ty)?,
                None => {}
            }
        }
        let mut given = HashSet::new();
        for tensor in &graph.initializer {
            ask();
            let name = tensor.name();
            let data = self.tensor(tensor).map_err(|e| at_value(name, e))?;
            self.constant(name, data, &inputs, &mut given)?;
        }
        for sparse in &graph.sparse_initializer {
            ask();
            let name = sparse.values.as_ref().map_or("", |v| v.name());
            let data = self.sparse(sparse).map_err(|e| at_value(name, e))?;
            self.constant(name, data, &inputs, &mut given)?;
        }
        self.nodes(&graph.node)?;
        let mut claimed = HashSet::new();
        for info in &graph.output {
            ask();
            let found = self.resolve(info.name())?.flatten();
            let id = found.ok_or_else(|| Error::MissingOutput { value: info.name().to_owned() })?;
            if claimed.insert(info.name()) {
                self.claims(id, info.name())?;
            }
            self.level.graph.outputs.push(id);
        }
        Ok(())
    }

    /// Adds an initializer, which may be the default value of an input.
    fn constant(
        &mut self,
        name: &'p str,
        data: TensorData,
        inputs: &HashSet<ValueId>,
        given: &mut HashSet<ValueId>,
    ) -> Result<(), Error> {
        let id = match self.frame.names.get(name).copied().flatten() {
            Some(input) if !given.contains(&input) => input,
            _ => self.define(name, "the graph's initializers")?,
        };
        given.insert(id);
        let shape = data.shape().iter().map(|&d| crate::graph::Dim::Known(d)).collect();
        let own = ValueType::Tensor { dtype: data.dtype(), shape: Some(shape) };
        let input = inputs.contains(&id) && !self.in_subgraph();
        let known = self.level.graph.values.get(id.index()).map(|info| info.ty.clone());
        self.refine(id, &own)?;
        // A caller may replace the default value by another value that matches the input's declaration, so the input
        // keeps its declared type.
        if let (true, Some(known), Some(info)) = (input, known, self.level.graph.values.get_mut(id.index())) {
            info.ty = if known == ValueType::Unknown { own.unshaped() } else { known };
        }
        self.level.graph.constants.push((id, data));
        Ok(())
    }

    /// Adds the nodes in topological order: each after all nodes whose results it reads.
    pub(super) fn nodes(&mut self, nodes: &'p [NodeProto]) -> Result<(), Error> {
        for i in order(nodes, self.meter.deepest())? {
            ask();
            if let Some(node) = nodes.get(i) {
                let depth = self.depth();
                if let Err(error) = self.node(node, i) {
                    if depth != self.depth() || !error.is_of_one_node() {
                        return Err(error);
                    }
                    self.pass_over(node, i)?;
                    self.problems.push(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the numbers of frames, graphs and calls on the stacks.
    fn depth(&self) -> (usize, usize, usize) {
        (self.below.len(), self.outer.len(), self.calls.len())
    }

    /// Defines the results of an invalid node, so that nodes that read them can still be checked.
    fn pass_over(&mut self, node: &'p NodeProto, index: usize) -> Result<(), Error> {
        self.meter.name(node.name())?;
        let label = label(node, index);
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if !self.frame.names.contains_key(name.as_str()) {
                self.define(name, &label)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &'p NodeProto, index: usize) -> Result<(), Error> {
        self.meter.node()?;
        let label = label(node, index);
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => self
                    .resolve(name)?
                    .ok_or_else(|| Error::MissingValue { node: label.clone(), value: name.to_owned() })?,
            });
        }
        // Absent operands at the end are removed.
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        self.meter.text(8 * (node.input.len() + node.output.len()))?;
        let at_node = |source: Error| match source {
            // These errors already name the node or the value.
            Error::Node { .. }
            | Error::MissingValue { .. }
            | Error::DuplicateValue { .. }
            | Error::Type { .. }
            | Error::Cycle { .. } => source,
            source => {
                Error::Node { node: label.clone(), op: node.op_type().to_owned(), source: Box::new(source) }
            }
        };
        let key = (domain_name(node.domain()), node.op_type(), node.overload());
        if let Some(&function) = self.functions.get(&key) {
            return self.call(key, function, node, &label, &inputs).map_err(at_node);
        }
        let built = self.plain(node, &label, inputs).map_err(at_node)?;
        self.level.graph.nodes.push(built);
        Ok(())
    }

    /// Returns the version of a domain's operators at the current node.
    fn opset(&mut self, domain: &str) -> Result<i64, Error> {
        if let Some(opset) = self.frame.opsets.get(domain) {
            return Ok(*opset);
        }
        // ONNX Runtime requires imports for functions, but not for models.
        match without_import(domain) {
            Some(used) if self.calls.is_empty() => {
                self.warn(Warning::NotImported { domain: domain.to_owned(), used });
                Ok(used)
            }
            _ => Err(Error::NoOpset { domain: domain.to_owned() }),
        }
    }

    /// Builds a node that calls an operator instead of a function of the model.
    fn plain(
        &mut self,
        node: &'p NodeProto,
        label: &str,
        inputs: Vec<Option<ValueId>>,
    ) -> Result<Node, Error> {
        let domain = domain_name(node.domain());
        let opset = self.opset(domain)?;
        if !node.overload().is_empty() {
            return Err(Error::UnknownOperator {
                domain: domain.to_owned(),
                op: format!("{}:{}", node.op_type(), node.overload()),
                opset,
            });
        }
        let (domain, opset) = home(domain, node.op_type(), opset);
        let attributes = Attributes::new(self.attributes(node)?);
        let mut outputs = Vec::with_capacity(node.output.len());
        for name in &node.output {
            outputs.push(match name.as_str() {
                "" => None,
                name => Some(self.define(name, label)?),
            });
        }
        self.meter.name(node.op_type())?;
        let name = format!("{}{}", self.frame.prefix, node.name());
        self.meter.name(&name)?;
        let metadata = node.metadata_props.iter();
        let node = Node {
            name,
            domain: domain.to_owned(),
            op_type: node.op_type().to_owned(),
            opset,
            inputs,
            outputs,
            attributes,
            metadata: metadata.map(|e| (e.key().to_owned(), e.value().to_owned())).collect(),
        };
        for (key, value) in &node.metadata {
            self.meter.text(key.len() + value.len())?;
        }
        schema::check(&node)?;
        control::check(&node, self.operators)?;
        Ok(node)
    }
}

/// Returns the names of the initializers of a graph.
fn initializers(graph: &GraphProto) -> HashSet<&str> {
    let sparse = graph.sparse_initializer.iter().flat_map(|sparse| &sparse.values);
    graph.initializer.iter().chain(sparse).map(TensorProto::name).collect()
}

/// Adds a value to a graph.
pub(super) fn push_value(level: &mut Level, info: ValueInfo, renamable: bool) -> Result<ValueId, Error> {
    let count = level.graph.values.len();
    let limit = u32::MAX as usize - 1;
    if count > limit {
        return Err(Error::Limit { what: "values of a graph", name: None, limit, got: count });
    }
    level.graph.values.push(info);
    level.renamable.push(renamable);
    Ok(ValueId(count as u32))
}

/// Makes the names of values from functions and enclosing graphs unique.
fn finish(level: Level) -> Graph {
    let Level { mut graph, renamable } = level;
    if renamable.contains(&true) {
        let fixed = graph.values.iter().zip(&renamable).filter(|(_, r)| !**r);
        let mut taken: HashSet<String> = fixed.map(|(v, _)| v.name.clone()).collect();
        let mut next: HashMap<String, usize> = HashMap::new();
        for (value, _) in graph.values.iter_mut().zip(&renamable).filter(|(_, r)| **r) {
            if taken.insert(value.name.clone()) {
                continue;
            }
            let count = next.entry(value.name.clone()).or_insert(1);
            let unique = loop {
                *count += 1;
                let name = format!("{}.{count}", value.name);
                if taken.insert(name.clone()) {
                    break name;
                }
            };
            value.name = unique;
        }
    }
    graph
}

/// Adds the name of a value to an error.
pub(super) fn at_value(name: &str, source: Error) -> Error {
    match source {
        Error::Value { .. } | Error::InTensor { .. } => source,
        source => Error::Value { value: name.to_owned(), source: Box::new(source) },
    }
}

/// Returns the error for two types of one value that contradict each other.
pub(super) fn contradiction(name: &str, declared: &ValueType, found: &ValueType) -> Error {
    Error::Type { value: name.to_owned(), declared: declared.to_string(), found: found.to_string() }
}
