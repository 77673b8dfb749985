//! Declarations of the operations that a backend implements.

use super::{Family, OpSpec, Primitive};

/// A family of operations that a backend implements completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomicOpsetDecl {
    /// The family.
    pub family: Family,
    /// The operations, in the order of the family's table.
    pub ops: Vec<AtomicOpDecl>,
}

/// An operation that a backend implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicOpDecl {
    /// The row of the operation in the family's table.
    pub spec: &'static OpSpec,
    /// Whether the backend has a kernel for the operation; otherwise a body of primitives computes it.
    pub native: bool,
}

/// Continues an FNV-1a-64 hash; start with [`FNV_START`].
///
/// Source: Fowler, Noll and Vo, "The FNV Non-Cryptographic Hash Algorithm".
const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        hash = (hash ^ *first as u64).wrapping_mul(0x100_0000_01b3);
        rest = tail;
    }
    hash
}

/// The FNV-1a-64 hash of the empty string.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

impl OpSpec {
    /// Returns a hash of the row's name, index, opset, operands, parameters and result, so that a changed row has
    /// another signature.
    pub const fn signature(&self) -> u64 {
        const fn text(hash: u64, text: &str) -> u64 {
            fnv(fnv(hash, text.as_bytes()), &[0])
        }
        let mut hash = fnv(text(FNV_START, self.name), &self.index.to_le_bytes());
        hash = fnv(fnv(hash, &self.since.to_le_bytes()), &[self.output as u8]);
        let mut inputs = self.inputs;
        while let [(name, arity), rest @ ..] = inputs {
            hash = fnv(text(hash, name), &[*arity as u8]);
            inputs = rest;
        }
        hash = fnv(hash, &[0xff]);
        let mut params = self.params;
        while let [param, rest @ ..] = params {
            hash = text(text(hash, param.name), param.kind.name());
            params = rest;
        }
        hash
    }
}

/// Returns a hash of the [`signature`](OpSpec::signature)s of the first `count` primitives.
pub const fn primitives_fingerprint(count: usize) -> u64 {
    let (mut hash, mut rows, mut left) = (FNV_START, Primitive::ALL, count);
    while let [first, rest @ ..] = rows
        && left > 0
    {
        hash = fnv(hash, &first.spec().signature().to_le_bytes());
        (rows, left) = (rest, left - 1);
    }
    hash
}

impl AtomicOpsetDecl {
    /// Returns a hash of the family's name and of the operations: their names, indices, operands and parameters, and
    /// whether they are native.
    pub fn fingerprint(&self) -> u64 {
        self.ops.iter().fold(fnv(FNV_START, self.family.name().as_bytes()), |hash, op| {
            let hash = fnv(hash, op.spec.name.as_bytes());
            let hash = fnv(hash, &op.spec.index.to_le_bytes());
            let hash = fnv(hash, &[u8::from(op.native), op.spec.output as u8]);
            let hash = op
                .spec
                .inputs
                .iter()
                .fold(hash, |h, (name, arity)| fnv(fnv(h, name.as_bytes()), &[*arity as u8]));
            op.spec.params.iter().fold(hash, |h, p| fnv(fnv(h, p.name.as_bytes()), p.kind.name().as_bytes()))
        })
    }
}

/// Returns a hash of all names and operations.
pub fn fingerprint<'a>(
    names: impl IntoIterator<Item = &'a str>,
    opsets: impl IntoIterator<Item = AtomicOpsetDecl>,
) -> u64 {
    // The separator distinguishes the names `ab`, `c` from `a`, `bc`.
    let hash = names.into_iter().fold(FNV_START, |hash, name| fnv(fnv(hash, name.as_bytes()), &[0]));
    opsets.into_iter().fold(hash, |hash, opset| fnv(hash, &opset.fingerprint().to_le_bytes()))
}
