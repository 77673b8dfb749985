//! Checks a node against its operator's signature.

use crate::Error;
use crate::graph::Node;
use crate::opset::{Lookup, lookup};

/// Checks a node's operands, results and attributes against ONNX's schema for the node's version.
///
/// Operators that ONNX does not define are not checked, because any domain may contain a user's own
/// operators. Other code checks whether a backend supports the operator.
///
/// # Errors
///
/// [`Error::Count`], [`Error::LeftOut`], [`Error::UnknownAttribute`],
/// [`Error::AttributeKind`], [`Error::MissingAttribute`].
pub(super) fn check(node: &Node) -> Result<(), Error> {
    let signature = match lookup(&node.domain, &node.op_type, node.opset) {
        Lookup::Foreign | Lookup::Missing => return Ok(()),
        Lookup::Found(signature) => signature,
    };
    count("inputs", node.inputs.len(), signature.inputs())?;
    count("outputs", node.outputs.len(), signature.outputs())?;
    let mut operands = node.inputs.iter().enumerate();
    if let Some((input, _)) = operands.find(|(i, v)| v.is_none() && signature.requires(*i)) {
        return Err(Error::LeftOut { input });
    }
    for (name, value) in node.attributes.iter() {
        // ONNX reserves attribute names that begin with two underscores for the frameworks that write
        // models.
        if name.starts_with("__") {
            continue;
        }
        let Some(row) = signature.attributes().find(|row| row.name == name) else {
            return Err(Error::UnknownAttribute { name: name.to_owned() });
        };
        if value.kind() != row.kind {
            return Err(Error::AttributeKind {
                name: name.to_owned(),
                expected: row.kind,
                got: value.kind(),
            });
        }
    }
    for row in signature.attributes().filter(|row| row.required) {
        if node.attributes.get(row.name).is_none() {
            return Err(Error::MissingAttribute { name: row.name, expected: row.kind });
        }
    }
    Ok(())
}

fn count(what: &'static str, got: usize, (least, most): (usize, usize)) -> Result<(), Error> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Error::Count { what, least, most, got })
}
