//! Every family on every backend: native operations are the backend's own, all others run their default bodies.

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
    /// How many native operations and bodies the thread is in. Plans call native operations without counting.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The most native operations and bodies that may be inside each other: a native operation calls a body, which calls few others. More are
/// a native operation that calls itself. The bound is small, because the stack of a thread must hold all of them.
const MOST_DEEP: usize = 16;

/// Calls an operation of a family by its row.
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

    /// Returns the set with the operations of another.
    #[must_use]
    pub fn union(mut self, other: OpSet) -> OpSet {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }

    /// Returns how many operations the set has.
    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set has no operation.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether the set has the operation.
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

    /// Makes a table of its parts.
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

/// A backend with every extension family.
///
/// Operations that the backend declares native are its own; all others run their default bodies on it. A body is traced for
/// the types, extents and parameters of a call, and the trace is kept for the calls that follow.
///
/// # Backends that lack element types
///
/// If the backend lacks element types ([`Backend::types`]), its methods still get only those that it has, as when a
/// runtime calls. A body that needs `i64` computes with it, held in an integer of the backend or on the host. A result
/// is a tensor of the backend, for instance of `i32` where the row says `i64`. A result that no type of the backend
/// holds exactly is a [`NarrowError`](crate::NarrowError).
///
/// # Examples
///
/// The default body of an operation, within a native method that has a kernel for some operands only:
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
/// A backend that adopted every family calls the body of [`declining`](Extended::declining), which runs its other
/// kernels.
#[derive(Debug)]
pub struct Extended<'a, B: Backend + ?Sized> {
    on: &'a B,
    tables: &'a [FamilyTable<B>],
    /// Whether the operation that is called runs its body, even if it is native.
    declines: bool,
}

impl<'a, B: Backend + ?Sized> Extended<'a, B> {
    /// Extends a backend with the families that it adopted.
    pub const fn new(on: &'a B, tables: &'a [FamilyTable<B>]) -> Self {
        Extended { on, tables, declines: false }
    }

    /// Returns the backend.
    pub const fn backend(&self) -> &'a B {
        self.on
    }

    /// Calls an operation of a family: the backend's own if it declares one, otherwise the body.
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
    /// Extends a backend that adopted every family, for its kernels that decline operands: the operation that is called runs
    /// its body, and native operations in the body are the backend's own.
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

/// Forwards the primitives.
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
