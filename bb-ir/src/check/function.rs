//! Inlines the functions that a model defines.

use super::build::{Builder, push_value};
use super::imports::Imports;
use super::model::function_name;
use crate::Error;
use crate::graph::{Attribute, Node, ValueId, ValueInfo, ValueType, weight};
use crate::opset::{NEWEST, domain_name};
use crate::proto::{FunctionProto, NodeProto};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The identity of a function: its domain, name and overload.
pub(super) type Key<'p> = (&'p str, &'p str, &'p str);

/// Indexes functions by their identity.
///
/// # Errors
///
/// [`Error::DuplicateFunction`] if two functions have the same identity.
pub(super) fn index(functions: &[FunctionProto]) -> Result<HashMap<Key<'_>, &FunctionProto>, Error> {
    let mut index = HashMap::new();
    for f in functions {
        let key = (domain_name(f.domain()), f.name(), f.overload());
        if index.insert(key, f).is_some() {
            return Err(Error::DuplicateFunction { function: function_name(f) });
        }
    }
    Ok(index)
}

impl<'p> Builder<'p> {
    /// Replaces the call `node` by the nodes of `function`.
    pub(super) fn call(
        &mut self,
        key: Key<'p>,
        function: &'p FunctionProto,
        node: &'p NodeProto,
        label: &str,
        inputs: &[Option<ValueId>],
    ) -> Result<(), Error> {
        self.enter()?;
        if self.calls.contains(&key) {
            return Err(Error::Recursion { function: function_name(function) });
        }
        if inputs.len() > function.input.len() {
            return Err(Error::Count {
                what: "inputs",
                least: 0,
                most: function.input.len(),
                got: inputs.len(),
            });
        }
        if node.output.len() > function.output.len() {
            return Err(Error::Count {
                what: "outputs",
                least: 0,
                most: function.output.len(),
                got: node.output.len(),
            });
        }
        let lists = function.input.len() + function.output.len() + function.opset_import.len();
        self.meter.text(64 * (lists + function.attribute.len() + function.attribute_proto.len()))?;
        let bound = self.bind(function, node)?;
        let mark = self.level.graph.values.len();
        let imports = Imports::read(&function.opset_import, Some(&function_name(function)))?;
        imports.warnings.into_iter().for_each(|warning| self.warn(warning));
        let frame = self.frame.call(self.prefix(label), Rc::new(imports.versions));
        self.calls.push(key);
        self.push(frame);
        for info in &function.value_info {
            self.declare(info)?;
        }
        for (i, name) in function.input.iter().enumerate() {
            let value = inputs.get(i).copied().flatten();
            if self.frame.names.insert(name, value).is_some() {
                let node = function_name(function);
                return Err(Error::DuplicateValue { node, value: name.clone() });
            }
            if let Some(id) = value {
                self.claims(id, name)?;
            }
        }
        self.frame.bound = Some(Rc::new(self.with_defaults(bound, function)?));
        self.nodes(&function.node)?;
        let mut results = Vec::with_capacity(node.output.len());
        for (inner, outer) in function.output.iter().zip(&node.output) {
            let found = self.resolve(inner)?.flatten();
            if found.is_none() && !outer.is_empty() {
                let node = function_name(function);
                return Err(Error::MissingValue { node, value: inner.clone() });
            }
            results.push(found);
        }
        self.pop();
        self.calls.pop();
        let mut own: HashSet<ValueId> = HashSet::new();
        for (name, found) in node.output.iter().zip(results) {
            if let (false, Some(id)) = (name.is_empty(), found) {
                let fresh = id.index() >= mark && own.insert(id);
                let id = if fresh { id } else { self.copy(id, label)? };
                self.result(name, id, label)?;
            }
        }
        Ok(())
    }

    /// Adds the result of a call to the caller's frame, under the name that the calling node uses.
    fn result(&mut self, name: &'p str, id: ValueId, label: &str) -> Result<(), Error> {
        if self.frame.names.contains_key(name) {
            return Err(Error::DuplicateValue { node: label.to_owned(), value: name.to_owned() });
        }
        let (full, renamable) = self.full_name(name);
        self.meter.name(&full)?;
        if let Some(info) = self.level.graph.values.get_mut(id.index()) {
            info.name = full;
        }
        if let Some(r) = self.level.renamable.get_mut(id.index()) {
            *r = renamable;
        }
        self.frame.names.insert(name, Some(id));
        self.claims(id, name)
    }

    /// Adds an `Identity` node. It is needed if a function returns one of its inputs, or the same value
    /// twice.
    fn copy(&mut self, id: ValueId, label: &str) -> Result<ValueId, Error> {
        self.meter.node()?;
        let ty = self.level.graph.values.get(id.index()).map_or(ValueType::Unknown, |v| v.ty.clone());
        self.meter.text(weight(&ty))?;
        let copy =
            push_value(&mut self.level, ValueInfo { name: String::new(), ty, declared: Vec::new() }, false)?;
        self.level.graph.nodes.push(Node {
            name: label.to_owned(),
            op_type: "Identity".to_owned(),
            opset: self.frame.opsets.get("").copied().unwrap_or(NEWEST),
            inputs: vec![Some(id)],
            outputs: vec![Some(copy)],
            ..Node::default()
        });
        Ok(copy)
    }

    /// Decodes the attributes that a node passes to a function.
    fn bind(
        &mut self,
        function: &'p FunctionProto,
        node: &'p NodeProto,
    ) -> Result<HashMap<&'p str, Attribute>, Error> {
        let optional = function.attribute_proto.iter().map(|a| a.name());
        let declared: HashSet<&'p str> =
            function.attribute.iter().map(String::as_str).chain(optional).collect();
        let mut bound = HashMap::new();
        for (name, value) in self.attributes(node)? {
            match declared.get(name.as_str()) {
                Some(declared) => bound.insert(*declared, value),
                None => return Err(Error::UnknownAttribute { name }),
            };
        }
        Ok(bound)
    }

    /// Adds the default values of the attributes that the calling node does not pass.
    fn with_defaults(
        &mut self,
        mut bound: HashMap<&'p str, Attribute>,
        function: &'p FunctionProto,
    ) -> Result<HashMap<&'p str, Attribute>, Error> {
        for attribute in &function.attribute_proto {
            if !bound.contains_key(attribute.name())
                && let Some(value) = self.attribute(attribute)?
            {
                bound.insert(attribute.name(), value);
            }
        }
        Ok(bound)
    }
}
