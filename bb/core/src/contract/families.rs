//! The families that a backend adopted, as tables.

use super::{Backend, Outputs};
use bb_ir::op::{Family, OpSpec, Param};

/// A function that calls an operation of a family by its table row.
type CallByRow<B> = fn(
    &B,
    &'static OpSpec,
    &[Option<&<B as Backend>::Tensor>],
    &[Param<'_>],
) -> Result<Outputs<<B as Backend>::Tensor>, <B as Backend>::Error>;

/// A set of operations of one family, stored as bits by table index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpSet([u64; 4]);

impl OpSet {
    /// The empty set.
    pub(crate) const NONE: OpSet = OpSet([0; 4]);

    /// Returns the set with one more operation.
    ///
    /// # Panics
    ///
    /// If the index is 256 or more, which no family has.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "checked above; `get_mut` is not const")]
    pub const fn with(mut self, index: u16) -> OpSet {
        let word = index as usize / 64;
        assert!(word < 4, "a family has at most 256 operations");
        self.0[word] |= 1 << (index % 64);
        self
    }

    /// Returns the set without an operation.
    pub(crate) fn without(mut self, index: u16) -> OpSet {
        if let Some(word) = self.0.get_mut(usize::from(index) / 64) {
            *word &= !(1 << (index % 64));
        }
        self
    }

    /// Returns the union of the two sets.
    #[must_use]
    pub fn union(mut self, other: OpSet) -> OpSet {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }

    /// Returns the number of operations in the set.
    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether the set contains the operation.
    #[expect(clippy::indexing_slicing, reason = "checked before; `get` is not const")]
    pub const fn contains(self, index: u16) -> bool {
        let word = index as usize / 64;
        word < self.0.len() && self.0[word] & (1 << (index % 64)) != 0
    }
}

/// Lists the operations of a family that have a kernel of the backend. `#[bb::native]` writes this.
///
/// Rust cannot query whether an `impl` overrides a method that has a default. So every `impl` of a family needs
/// `#[bb::native]`, which sees the methods that are written. Without it, the family's trait does not let the `impl`
/// compile.
#[diagnostic::on_unimplemented(
    message = "an extension family is implemented for `{Self}` without `#[bb::native]`",
    label = "write `#[bb::native]` above this `impl`",
    note = "`#[bb::native]` records which methods are written; those of an `impl` without it would never be called"
)]
pub trait Native<Operation: 'static> {
    /// The operations.
    const NATIVE: &'static [Operation];
}

/// A family that a backend adopted: which operations are native, and how to call one.
pub struct FamilyTable<B: Backend + ?Sized> {
    family: Family,
    native: OpSet,
    call: CallByRow<B>,
}

impl<B: Backend + ?Sized> Clone for FamilyTable<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend + ?Sized> Copy for FamilyTable<B> {}

impl<B: Backend + ?Sized> std::fmt::Debug for FamilyTable<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyTable").field("family", &self.family).field("native", &self.native).finish()
    }
}

impl<B: Backend + ?Sized> FamilyTable<B> {
    /// The empty set of operations.
    pub const NONE: OpSet = OpSet([0; 4]);

    /// Creates a table from its parts.
    pub const fn new(family: Family, native: OpSet, call: CallByRow<B>) -> Self {
        FamilyTable { family, native, call }
    }

    /// Returns the family.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Returns the operations that are native.
    pub const fn native(&self) -> OpSet {
        self.native
    }

    /// Returns the table without one native operation, so that the body of that operation runs.
    #[must_use]
    pub(crate) fn without(mut self, index: u16) -> Self {
        self.native = self.native.without(index);
        self
    }

    /// Calls an operation by its row.
    ///
    /// # Errors
    ///
    /// The operation's own errors.
    pub fn call(
        &self,
        on: &B,
        op: &'static OpSpec,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        (self.call)(on, op, inputs, params)
    }
}

/// Returns the table of the operation's family if the backend declares the operation native.
pub(crate) fn native_in<'t, B: Backend + ?Sized>(
    tables: &'t [FamilyTable<B>],
    op: &OpSpec,
) -> Option<&'t FamilyTable<B>> {
    tables.iter().find(|t| t.family == op.family).filter(|t| t.native.contains(op.index))
}
