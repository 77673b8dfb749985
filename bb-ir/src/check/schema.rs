//! Checks a node against its operator's signature.

use crate::Error;
use crate::graph::Node;
use crate::opset::{Lookup, lookup};

/// Checks the number of operands and results and the attributes, as ONNX has them in the node's
/// version. Operators that ONNX does not have are their owners' to check: a user's own may stand in any domain, and whether
/// anything runs them is not asked here.
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
        // ONNX leaves names with two underscores to the frameworks that write models.
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
