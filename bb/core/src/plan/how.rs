//! How a node runs, as far as the operator and the backend's native operations determine it.

use crate::error::How;
use crate::ext::OpSet;
use crate::operator::{self, Class};
use bb_ir::graph::Node;
use bb_ir::op::{Family, OpSpec};

/// Returns how a node runs if the backend supports its element types.
pub fn how(node: &Node, natives: &[(Family, OpSet)], count: Option<usize>) -> How {
    if operator::unlinked(node).is_some() {
        return How::Unsupported;
    }
    how_version(&node.domain, &node.op_type, node.opset, natives, count)
}

/// Returns how a version of an operator runs.
pub fn how_version(
    domain: &str,
    name: &str,
    opset: i64,
    natives: &[(Family, OpSet)],
    count: Option<usize>,
) -> How {
    if let Some((_, operation)) = operator::find_vendor(domain, name, opset) {
        return match operation.has_body() {
            _ if is_native(operation.spec(), natives) => How::Native,
            true => How::Lowered(count),
            false => How::Unsupported,
        };
    }
    let Some(found) = operator::find(domain, name, opset) else {
        return How::Unsupported;
    };
    match (found.operator.becomes, found.operator.class) {
        (Some(spec), _) if spec.family == Family::Primitive || is_native(spec, natives) => How::Native,
        (_, Class::Host | Class::HostByDefault) => How::Host,
        (_, Class::Primitives | Class::Items | Class::ControlFlow) => How::Lowered(count),
    }
}

/// Returns whether an operation of a family is native.
fn is_native(spec: &OpSpec, natives: &[(Family, OpSet)]) -> bool {
    natives.iter().any(|(family, set)| *family == spec.family && set.contains(spec.index))
}
