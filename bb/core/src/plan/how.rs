//! What runs a node, as far as the operator and the backend's native operations tell.

use crate::error::How;
use crate::ext::OpSet;
use crate::operator::{self, Class};
use bb_ir::graph::Node;
use bb_ir::op::{Family, Primitive};

/// Returns how a node runs if the backend supports its element types.
pub fn how(node: &Node, natives: &[(Family, OpSet)], count: Option<usize>) -> How {
    how_version(&node.domain, &node.op_type, node.opset, natives, count)
}

/// Operators that are other than the operation of their name: the first has projections, the second a function instead of a
/// program.
const MORE: &[(&str, &str)] = &[("com.microsoft", "Attention"), ("com.microsoft", "FusedConv")];

/// Domains whose operators have the names of ONNX's, and operands in other orders.
const OTHER_ORDERS: &[&str] = &["com.microsoft.nchwc", "com.ms.internal.nhwc"];

/// Returns how a version of an operator runs.
pub fn how_version(
    domain: &str,
    name: &str,
    opset: i64,
    natives: &[(Family, OpSet)],
    count: Option<usize>,
) -> How {
    if let Some((_, operation)) = operator::find_vendor(domain, name, opset) {
        let spec = operation.spec();
        let native = natives.iter().any(|(family, set)| *family == spec.family && set.contains(spec.index));
        return match operation.has_body() {
            _ if native => How::Native,
            true => How::Lowered(count),
            false => How::Unsupported,
        };
    }
    let Some(found) = operator::find(domain, name, opset) else {
        return How::Unsupported;
    };
    let primitive = domain.is_empty() && Primitive::from_name(name).is_some();
    let is_more = MORE.contains(&(domain, name)) || OTHER_ORDERS.contains(&domain);
    if primitive || (!is_more && crate::ext::is_native(name, natives)) {
        return How::Native;
    }
    match found.operator.class {
        Class::Host | Class::HostByDefault => How::Host,
        Class::Primitives | Class::Items | Class::ControlFlow => How::Lowered(count),
    }
}
