//! Runs every family on every backend: native operations call the backend's kernels, all others run their default
//! bodies.

use super::Ops;
use super::erased::{WithFamilies, refuses_types, run_body, run_narrowed};
use crate::contract::nested;
use crate::{Backend, BackendAttrs, Error, Outputs};
use bb_ir::TensorData;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use std::cell::Cell;
use std::collections::HashMap;

thread_local! {
    /// The number of nested native operations and bodies on this thread. Plans call native operations without counting.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The maximum nesting depth of native operations and bodies. A native operation that calls a body needs only a few
/// levels, so more levels mean that it calls itself. The limit is low, because all levels must fit on the thread's
/// stack.
const MOST_DEEP: usize = 16;

/// A function that calls an operation of a family by its table row.
type CallByRow<B> = fn(
    &B,
    &'static OpSpec,
    &[Option<&<B as Backend>::Tensor>],
    &[Param<'_>],
) -> Result<Outputs<<B as Backend>::Tensor>, <B as Backend>::Error>;

/// A set of operations of one family, stored as bits that are indexed by table index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpSet([u64; 4]);

impl OpSet {
    /// The empty set.
    pub(crate) const NONE: OpSet = OpSet([0; 4]);

    /// Returns the set with an additional operation.
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

    /// Returns the set without the operation.
    pub(crate) fn without(mut self, index: u16) -> OpSet {
        if let Some(word) = self.0.get_mut(usize::from(index) / 64) {
            *word &= !(1 << (index % 64));
        }
        self
    }

    /// Returns the union of two sets.
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

/// Lists the operations of a family that the backend has kernels for. `#[bb::native]` implements this.
///
/// Rust cannot query whether an `impl` overrides a method that has a default. So every `impl` of a family needs
/// `#[bb::native]`, which sees the written methods. Without it, the `impl` does not compile.
#[diagnostic::on_unimplemented(
    message = "an extension family is implemented for `{Self}` without `#[bb::native]`",
    label = "write `#[bb::native]` above this `impl`",
    note = "`#[bb::native]` records which methods are written; those of an `impl` without it would never be called"
)]
pub trait Native<Operation: 'static> {
    /// The operations.
    const NATIVE: &'static [Operation];
}

/// A family that a backend implements: its native operations, and the function that calls them.
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

    /// Returns the table without one native operation, so that its body runs instead.
    #[must_use]
    pub(crate) fn without(mut self, index: u16) -> Self {
        self.native = self.native.without(index);
        self
    }

    /// Calls an operation by its table row.
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

/// A backend with every extension family.
///
/// Operations that the backend declares native call its kernels; all others run their default bodies on it. A body is
/// traced for the types, extents and parameters of a call, and the trace is cached for later calls.
///
/// # Backends that lack element types
///
/// If the backend lacks element types ([`Backend::types`]), its methods still get only types that it supports, as in a
/// call by a runtime. A body may compute with `i64`, which is then stored in an integer type of the backend or on the
/// host. A result is a tensor of the backend, for example of `i32` where the operation defines `i64`. If no type of the
/// backend can represent a result exactly, the call returns a [`NarrowError`](crate::NarrowError).
///
/// # Examples
///
/// This native method has a kernel for some operands only, and runs the default body for the others:
///
/// ```text
/// fn conv(&self, x: &Tensor, w: &Tensor, b: Option<&Tensor>, options: ConvOptions<'_>) -> Result<Tensor, Error> {
///     match self.fast(x, w, b, options) {
///         Some(y) => y,
///         None => Extended::new(self, &[]).conv(x, w, b, options),
///     }
/// }
/// ```
///
/// A backend that implements every family uses [`declining`](Extended::declining) instead, so that the body calls its
/// other kernels.
#[derive(Debug)]
pub struct Extended<'a, B: Backend + ?Sized> {
    on: &'a B,
    tables: &'a [FamilyTable<B>],
    /// Whether the called operation runs its body even if it is native.
    declines: bool,
}

impl<'a, B: Backend + ?Sized> Extended<'a, B> {
    /// Extends a backend with the families that it implements.
    pub const fn new(on: &'a B, tables: &'a [FamilyTable<B>]) -> Self {
        Extended { on, tables, declines: false }
    }

    /// Returns the backend.
    pub const fn backend(&self) -> &'a B {
        self.on
    }

    /// Calls an operation of a family: the backend's kernel if it declares one, otherwise the body.
    ///
    /// # Errors
    ///
    /// [`Error::EndlessNative`]; the operation's own errors.
    pub fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        let endless = || Error::EndlessNative { op: op.method };
        if !self.declines
            && let Some(table) = native_in(self.tables, op)
        {
            return nested(&DEPTH, MOST_DEEP, endless, || table.call(self.on, op, inputs, params));
        }
        let on = WithFamilies::new(self.on, self.tables);
        let body = || crate::contract::inside(|| run_body(&on, op, inputs, params));
        nested(&DEPTH, MOST_DEEP, endless, body)
    }
}

impl<'a, B: Ops + ?Sized + 'static> Extended<'a, B> {
    /// Extends a backend that implements every family, for kernels that do not support some operands: the called
    /// operation runs its body, and native operations inside the body call the backend's kernels.
    pub const fn declining(on: &'a B) -> Self {
        Extended { on, tables: super::tables::<B>(), declines: true }
    }
}

impl<B: Backend + ?Sized> Extended<'_, B> {
    /// Calls a primitive of a backend that lacks element types.
    #[cold]
    fn narrowed(
        &self,
        op: Primitive,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        run_narrowed(&WithFamilies::new(self.on, self.tables), op, inputs, params)
    }
}

/// Returns the table of the operation's family if the backend declares the operation native.
pub(crate) fn native_in<'t, B: Backend + ?Sized>(
    tables: &'t [FamilyTable<B>],
    op: &OpSpec,
) -> Option<&'t FamilyTable<B>> {
    tables.iter().find(|t| t.family == op.family).filter(|t| t.native.contains(op.index))
}

/// Forwards the primitives to the backend.
macro_rules! forward {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        #[diagnostic::do_not_recommend]
        impl<B: Backend + ?Sized> Backend for Extended<'_, B> {
            type Tensor = B::Tensor;
            type Error = B::Error;

            $(
                fn $method(&self $(, $input: crate::__input_type!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<crate::__output_type!($output), Self::Error> {
                    if !refuses_types(self.on) {
                        return self.on.$method($($input,)* $($($param,)+)?);
                    }
                    let outputs = self.narrowed(
                        Primitive::$name,
                        &crate::call::list_operands!($($kind $input),*),
                        &crate::call::list_params!($($($pkind $param),+)?),
                    )?;
                    crate::call::unwrap_output!($output, stringify!($method), outputs)
                }
            )*

            fn to_host(&self, x: &B::Tensor) -> Result<TensorData, B::Error> {
                self.on.to_host(x)
            }

            fn types(&self) -> bb_ir::DataTypes {
                self.on.types()
            }

            fn runs_whole_graphs(&self) -> bool {
                self.on.runs_whole_graphs()
            }

            fn runs_primitive(&self, op: bb_ir::op::Primitive) -> bool {
                self.on.runs_primitive(op)
            }

            fn execute(
                &self,
                graph: &GraphProto,
                inputs: HashMap<String, B::Tensor>,
                attrs: BackendAttrs<'_>,
            ) -> Result<HashMap<String, B::Tensor>, B::Error> {
                self.on.execute(graph, inputs, attrs)
            }
        }
    };
}

bb_ir::for_each_primitive!(forward);
