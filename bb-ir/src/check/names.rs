//! Name spaces of a graph being built: what a name stands for, and what the model declares of it.
//!
//! There is one frame for the graph, for each subgraph and for each function being inlined. A name that a subgraph does not
//! have is looked up in the frames around it; what is found there becomes a capture of every graph in between.

use super::build::{Builder, at_value, contradiction, push_value};
use super::{merge, types};
use crate::Error;
use crate::graph::{Attribute, ValueId, ValueInfo, ValueType};
use crate::proto::ValueInfoProto;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A name space.
pub(super) struct Frame<'p> {
    /// What each name stands for; `None` is an operand that a function's caller left out.
    pub(super) names: HashMap<&'p str, Option<ValueId>>,
    /// What the model claims of names.
    pub(super) declared: HashMap<&'p str, Vec<ValueType>>,
    /// Whether names that are not found here are looked up in the frame below.
    pub(super) subgraph: bool,
    /// Which graph the values belong to: the position in the stack of graphs.
    pub(super) level: usize,
    /// What is put before the names of an inlined function.
    pub(super) prefix: String,
    /// The version of each domain's operators.
    pub(super) opsets: Rc<BTreeMap<String, i64>>,
    /// Within an inlined function, the attributes it was called with.
    pub(super) bound: Option<Rc<HashMap<&'p str, Attribute>>>,
}

impl<'p> Frame<'p> {
    pub(super) fn root(opsets: Rc<BTreeMap<String, i64>>) -> Frame<'p> {
        Frame {
            names: HashMap::new(),
            declared: HashMap::new(),
            subgraph: false,
            level: 0,
            prefix: String::new(),
            opsets,
            bound: None,
        }
    }

    /// The frame of a function called from this one.
    pub(super) fn call(&self, prefix: String, opsets: Rc<BTreeMap<String, i64>>) -> Frame<'p> {
        Frame { level: self.level, prefix, ..Frame::root(opsets) }
    }
}

impl<'p> Builder<'p> {
    /// Remembers what the model claims of a value: a `value_info`, or the type of an output.
    pub(super) fn declare(&mut self, info: &'p ValueInfoProto) -> Result<(), Error> {
        if let Some(ty) = self.written(info)? {
            let claims = self.frame.declared.entry(info.name()).or_default();
            if !claims.contains(&ty) {
                claims.push(ty);
            }
        }
        Ok(())
    }

    /// Decodes a type that the model writes.
    pub(super) fn written(&mut self, info: &ValueInfoProto) -> Result<Option<ValueType>, Error> {
        let Some(ty) = &info.r#type else {
            return Ok(None);
        };
        self.meter.text(prost::Message::encoded_len(ty))?;
        types::decode(ty, self.meter.deepest()).map(Some).map_err(|e| at_value(info.name(), e))
    }

    /// Adds what is known of a value's type.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] if it contradicts what was known.
    pub(super) fn refine(&mut self, id: ValueId, ty: &ValueType) -> Result<(), Error> {
        let Some(info) = self.level.graph.values.get_mut(id.index()) else {
            return Ok(());
        };
        info.ty = merge(&info.ty, ty).ok_or_else(|| contradiction(&info.name, &info.ty, ty))?;
        Ok(())
    }

    /// Adds what the model claims of a value: its shapes are kept beside what is known, its element types are used.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] if its element types contradict what is known.
    pub(super) fn claim(&mut self, id: ValueId, ty: &ValueType) -> Result<(), Error> {
        self.refine(id, &ty.unshaped())?;
        if let Some(info) = self.level.graph.values.get_mut(id.index())
            && !info.declared.contains(ty)
        {
            info.declared.push(ty.clone());
        }
        Ok(())
    }

    /// Makes a value with a name in the current frame.
    pub(super) fn define(&mut self, name: &'p str, by: &str) -> Result<ValueId, Error> {
        if name.is_empty() {
            return Err(Error::MissingValue { node: by.to_owned(), value: String::new() });
        }
        if self.frame.names.contains_key(name) {
            return Err(Error::DuplicateValue { node: by.to_owned(), value: name.to_owned() });
        }
        let full = format!("{}{name}", self.frame.prefix);
        let renamable = !self.frame.prefix.is_empty();
        self.meter.name(&full)?;
        let info = ValueInfo { name: full, ..ValueInfo::default() };
        let id = push_value(&mut self.level, info, renamable)?;
        self.frame.names.insert(name, Some(id));
        self.claims(id, name)?;
        Ok(id)
    }

    /// Looks a name up; `Some(None)` is an operand that a function's caller left out.
    ///
    /// A value of an enclosing graph becomes a capture of every graph in between.
    pub(super) fn resolve(&mut self, name: &'p str) -> Result<Option<Option<ValueId>>, Error> {
        if let Some(&found) = self.frame.names.get(name) {
            return Ok(Some(found));
        }
        if !self.frame.subgraph {
            return Ok(None);
        }
        let mut at = self.below.len();
        let mut found = loop {
            let Some(frame) = at.checked_sub(1).and_then(|below| self.below.get(below)) else {
                return Ok(None);
            };
            at -= 1;
            match frame.names.get(name) {
                Some(&found) => break found,
                None if frame.subgraph => {}
                None => return Ok(None),
            }
        };
        while at < self.below.len() {
            if let (Some(outer), Some(frame)) = (found, self.below.get(at)) {
                found = Some(self.capture(outer, frame.level)?);
            }
            at += 1;
            let frame = self.below.get_mut(at).unwrap_or(&mut self.frame);
            frame.names.insert(name, found);
        }
        Ok(Some(found))
    }

    /// Makes a value of the graph at `level` a capture of the next.
    fn capture(&mut self, outer: ValueId, level: usize) -> Result<ValueId, Error> {
        let info = match self.outer.get(level) {
            Some(l) => l.graph.values.get(outer.index()),
            None => self.level.graph.values.get(outer.index()),
        };
        // What is claimed of the value is told where it is made.
        let info =
            info.map(|info| ValueInfo { name: info.name.clone(), ty: info.ty.clone(), declared: Vec::new() });
        let info = info.unwrap_or_default();
        self.meter.name(&info.name)?;
        self.meter.text(types::weight(&info.ty))?;
        let inner = self.outer.get_mut(level + 1).unwrap_or(&mut self.level);
        let id = push_value(inner, info, true)?;
        inner.graph.captures.push((outer, id));
        Ok(id)
    }

    /// Tells whether what is being built belongs to a subgraph of the graph or function around it.
    pub(super) fn in_subgraph(&self) -> bool {
        self.frame.subgraph
    }

    /// What is put before the names of a function called by a node.
    pub(super) fn prefix(&self, label: &str) -> String {
        format!("{}{label}/", self.frame.prefix)
    }

    /// The name that a value called `name` in the current frame has in the graph, and whether that may
    /// be changed.
    pub(super) fn full_name(&self, name: &str) -> (String, bool) {
        (format!("{}{name}", self.frame.prefix), !self.frame.prefix.is_empty())
    }

    /// Adds to a value what the model claims of a name in the current frame.
    pub(super) fn claims(&mut self, id: ValueId, name: &str) -> Result<(), Error> {
        let claims = self.frame.declared.get(name).cloned().unwrap_or_default();
        claims.iter().try_for_each(|ty| self.claim(id, ty))
    }
}
