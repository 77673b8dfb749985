//! The name spaces of a graph that is being built. They map names to values, and contain the types that the model claims for names.
//!
//! The graph, each subgraph and each inlined function have a frame. If a subgraph does not define a name, the name is looked up in the
//! enclosing frames. The value that is found there becomes a capture of this subgraph and of every subgraph between.

use super::build::{Builder, at_value, contradiction, push_value};
use super::types;
use crate::Error;
use crate::graph::{Attribute, ValueId, ValueInfo, ValueType, merge, weight};
use crate::proto::ValueInfoProto;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// The types that a model claims for a name, without duplicates.
#[derive(Default)]
pub(super) struct Claims {
    types: Vec<ValueType>,
    known: HashSet<ValueType>,
}

/// The maximum length of the prefix of names in an inlined function, in bytes. Every value in the function has the prefix, so long
/// prefixes would take far more memory than the model. A truncated prefix causes no duplicate names, because names are made unique at
/// the end.
const MOST_PREFIX: usize = 1 << 10;

/// A name space.
pub(super) struct Frame<'p> {
    /// The value of each name. `None` is an operand that the function's caller omitted.
    pub(super) names: HashMap<&'p str, Option<ValueId>>,
    /// The types that the model claims for names.
    pub(super) declared: HashMap<&'p str, Claims>,
    /// Whether a name that is not in this frame is looked up in the enclosing frame.
    pub(super) subgraph: bool,
    /// The index of the graph that the values belong to, in the stack of graphs.
    pub(super) level: usize,
    /// The prefix of the names of values in an inlined function; empty otherwise.
    pub(super) prefix: String,
    /// The version of each domain's operators.
    pub(super) opsets: Rc<BTreeMap<String, i64>>,
    /// In an inlined function, the attributes that the caller passed.
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

    /// Returns the frame of a function that is called from this frame.
    pub(super) fn call(&self, prefix: String, opsets: Rc<BTreeMap<String, i64>>) -> Frame<'p> {
        Frame { level: self.level, prefix, ..Frame::root(opsets) }
    }
}

impl<'p> Builder<'p> {
    /// Stores the type that the model claims for a value, in a `value_info` or in the declaration of an output.
    pub(super) fn declare(&mut self, info: &'p ValueInfoProto) -> Result<(), Error> {
        if let Some(ty) = self.written(info)? {
            let claims = self.frame.declared.entry(info.name()).or_default();
            if claims.known.insert(ty.clone()) {
                claims.types.push(ty);
            }
        }
        Ok(())
    }

    /// Decodes a declared type, if there is one.
    pub(super) fn written(&mut self, info: &ValueInfoProto) -> Result<Option<ValueType>, Error> {
        let Some(ty) = &info.r#type else {
            return Ok(None);
        };
        self.meter.text(prost::Message::encoded_len(ty))?;
        types::decode(ty, self.meter.deepest()).map(Some).map_err(|e| at_value(info.name(), e))
    }

    /// Merges `ty` into the known type of a value.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] if the two types contradict each other.
    pub(super) fn refine(&mut self, id: ValueId, ty: &ValueType) -> Result<(), Error> {
        let Some(info) = self.level.graph.values.get_mut(id.index()) else {
            return Ok(());
        };
        info.ty = merge(&info.ty, ty).ok_or_else(|| contradiction(&info.name, &info.ty, ty))?;
        Ok(())
    }

    /// Adds a type that the model claims for a value. The element type is merged into the known type; the shape is only stored as a
    /// claim.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] if the element type contradicts the known one.
    pub(super) fn claim(&mut self, id: ValueId, ty: &ValueType) -> Result<(), Error> {
        self.claim_all(id, std::slice::from_ref(ty))
    }

    fn claim_all(&mut self, id: ValueId, types: &[ValueType]) -> Result<(), Error> {
        let declared = self.level.graph.values.get(id.index()).map_or(&[][..], |info| &info.declared);
        let known: HashSet<&ValueType> = declared.iter().collect();
        let new: Vec<ValueType> = types.iter().filter(|ty| !known.contains(ty)).cloned().collect();
        for ty in types {
            self.refine(id, &ty.unshaped())?;
        }
        if let Some(info) = self.level.graph.values.get_mut(id.index()) {
            info.declared.extend(new);
        }
        Ok(())
    }

    /// Creates a value, and defines its name in the current frame.
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

    /// Looks up a name. `None` means that the name is not defined; `Some(None)` is an operand that the function's caller omitted.
    ///
    /// If an enclosing graph defines the value, the value becomes a capture of every graph between.
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

    /// Adds a value of the graph at `level` to the captures of the graph one level deeper.
    fn capture(&mut self, outer: ValueId, level: usize) -> Result<ValueId, Error> {
        let info = match self.outer.get(level) {
            Some(l) => l.graph.values.get(outer.index()),
            None => self.level.graph.values.get(outer.index()),
        };
        // Claims about the value stay in the graph that defines it.
        let info =
            info.map(|info| ValueInfo { name: info.name.clone(), ty: info.ty.clone(), declared: Vec::new() });
        let info = info.unwrap_or_default();
        self.meter.name(&info.name)?;
        self.meter.text(weight(&info.ty))?;
        let inner = self.outer.get_mut(level + 1).unwrap_or(&mut self.level);
        let id = push_value(inner, info, true)?;
        inner.graph.captures.push((outer, id));
        Ok(id)
    }

    /// Returns whether the current frame is a subgraph.
    pub(super) fn in_subgraph(&self) -> bool {
        self.frame.subgraph
    }

    /// Returns the prefix for the names of values in a function that the node `label` calls.
    pub(super) fn prefix(&self, label: &str) -> String {
        let mut whole = format!("{}{label}/", self.frame.prefix);
        if whole.len() > MOST_PREFIX {
            let from = (whole.len() - MOST_PREFIX..whole.len()).find(|at| whole.is_char_boundary(*at));
            whole.drain(..from.unwrap_or(0));
        }
        whole
    }

    /// Returns the full name of a value that is called `name` in the current frame, and whether the value may be renamed.
    pub(super) fn full_name(&self, name: &str) -> (String, bool) {
        (format!("{}{name}", self.frame.prefix), !self.frame.prefix.is_empty())
    }

    /// Adds the model's claims about the name `name` to a value.
    pub(super) fn claims(&mut self, id: ValueId, name: &str) -> Result<(), Error> {
        let Some(claims) = self.frame.declared.get_mut(name) else { return Ok(()) };
        let types = std::mem::take(&mut claims.types);
        let claimed = self.claim_all(id, &types);
        if let Some(claims) = self.frame.declared.get_mut(name) {
            claims.types = types;
        }
        claimed
    }
}
