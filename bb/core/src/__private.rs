//! The names that the macros of `bb` expand to. They are not part of the stable API.

mod constructor;

pub use constructor::{ByDefault, Makes, NewFunction, opened_by};

pub use crate::call::{Operands, no_more_params, only};
pub use crate::contract::OnnxValue;
pub use crate::forward::{Constructs, ForwardedCall, ForwardedGraph, Signature, Types, kept, once, one_node};
pub use crate::plan::{compile_whole_graph, execute_itself as execute_planned};
pub use bb_derive::{at, vendor_rows};
pub use bb_ir as ir;
pub use bb_ir::for_each_primitive;
pub use inventory;
pub use smallvec::SmallVec;

pub use crate::ext::FamilyTable;
pub use crate::ext::vendor::{MadeOf, TracedBody, VendorPattern};
pub use crate::runtime::{
    BackendRuntime, Created, Declared, DerivedEnum, DerivedStruct, Device, IsBackend, Listed, OpenOptions,
    Registration, Start,
};
pub use crate::{Backend, BoxError, OpenOption};
pub use std::boxed::Box;
pub use std::option::Option;
pub use std::primitive::{bool, str};
pub use std::result::Result;
pub use std::sync::Arc;
pub use std::vec::Vec;
pub use std::{concat, env, module_path};

pub use crate::ext::OpSet;
pub use crate::layer::{
    self, Delegate, InnerBackend, IsInner, IsLayer, Layer, LayerError, LayerTensor, Written as WrittenMethods,
};
pub use crate::trace::{TraceStop, TracedTensor, Tracer};

/// Expands to its tokens, which are the output of the derive.
#[doc(hidden)]
#[macro_export]
macro_rules! __derived {
    ($($derived:tt)*) => { $($derived)* };
}

/// The inputs or outputs of a graph, by name.
pub type Named<T> = std::collections::HashMap<String, T>;

use crate::Outputs;
use crate::ext::{Extended, Native};
use crate::runtime::Identity;
pub use bb_ir::op::Family;
use bb_ir::op::{OpSpec, Param};
use std::marker::PhantomData;

/// Determines at compile time whether a backend implements a family; `Operation` is the family's enum of operations.
///
/// If the bounds of the inherent `impl` hold, its constant takes precedence over the constant of the trait
/// [`NotWritten`].
#[derive(Debug)]
pub struct Written<B, Operation>(PhantomData<(B, Operation)>);

impl<B: Native<Operation>, Operation: 'static> Written<B, Operation> {
    /// The backend implements the family.
    pub const WRITTEN: bool = true;
}

/// Provides the constant if [`Written`] has no inherent constant for the types.
pub trait NotWritten {
    /// The backend does not implement the family.
    const WRITTEN: bool = false;
}

impl<B, Operation> NotWritten for Written<B, Operation> {}

/// Returns true if the derive of a backend lists a family.
pub const fn names_family<B: Declared>(family: Family) -> bool {
    let mut tables = B::FAMILIES;
    while let [first, rest @ ..] = tables {
        if first.family().is(family) {
            return true;
        }
        tables = rest;
    }
    false
}

/// Returns whether a list of native operations has a family.
pub const fn lists_family(natives: &[(Family, OpSet)], family: Family) -> bool {
    let mut natives = natives;
    while let [first, rest @ ..] = natives {
        if first.0.is(family) {
            return true;
        }
        natives = rest;
    }
    false
}

/// Returns a hash of a family's name, as an argument of [`NamedFamily`].
pub const fn family_key(family: Family) -> u64 {
    bb_ir::wire::hash_name(family.name())
}

/// Returns true at compile time if the derive of a backend names a family; `KEY` is the family's [`family_key`].
#[derive(Debug)]
pub struct NamedFamily<B, const KEY: u64>(PhantomData<B>);

impl<B: Declared, const KEY: u64> NamedFamily<B, KEY> {
    /// Whether the derive names the family.
    pub const NAMED: bool = {
        let (mut tables, mut named) = (B::FAMILIES, false);
        while let [first, rest @ ..] = tables {
            named = named || family_key(first.family()) == KEY;
            tables = rest;
        }
        named
    };
}

/// Provides the constant if [`NamedFamily`] has no inherent one. Then the type is no backend, which another error
/// reports.
pub trait NoBackend {
    /// True, so that no second error is reported.
    const NAMED: bool = true;
}

impl<B, const KEY: u64> NoBackend for NamedFamily<B, KEY> {}

/// An operand of a forwarded method.
#[derive(Debug)]
pub enum Operand<'a, T> {
    /// A single operand, which may be absent.
    One(Option<&'a T>),
    /// A list of operands.
    Many(&'a [&'a T]),
}

/// Converts an argument to an operand, by its kind in a row.
#[allow(non_snake_case, reason = "named after the kinds in a row")]
pub mod operand {
    use super::Operand;

    /// Wraps a required operand.
    pub fn Tensor<T>(x: &T) -> Operand<'_, T> {
        Operand::One(Some(x))
    }

    /// Wraps an operand that may be absent.
    pub fn Optional<T>(x: Option<&T>) -> Operand<'_, T> {
        Operand::One(x)
    }

    /// Wraps a list of operands.
    pub fn Tensors<'a, T>(xs: &'a [&'a T]) -> Operand<'a, T> {
        Operand::Many(xs)
    }
}

/// Collects operands in order.
pub fn operands<'a, T>(operands: &[Operand<'a, T>]) -> SmallVec<[Option<&'a T>; 4]> {
    let mut list = SmallVec::new();
    for operand in operands {
        match operand {
            Operand::One(x) => list.push(*x),
            Operand::Many(xs) => list.extend(xs.iter().map(|x| Some(*x))),
        }
    }
    list
}

/// Converts the results of a call to the return type of a method, by its kind in a row.
#[allow(non_snake_case, reason = "named after the kinds in a row")]
pub mod outputs {
    use crate::{Backend, Outputs};

    /// Returns the only result.
    ///
    /// # Errors
    ///
    /// [`Error::Results`](crate::Error::Results) if the number of results is not 1.
    pub fn Tensor<B: Backend + ?Sized>(outputs: Outputs<B::Tensor>) -> Result<B::Tensor, B::Error> {
        Ok(crate::call::only("forwarded operation", outputs)?)
    }

    /// Returns all results.
    ///
    /// # Errors
    ///
    /// None.
    pub fn Tensors<B: Backend + ?Sized>(outputs: Outputs<B::Tensor>) -> Result<Vec<B::Tensor>, B::Error> {
        Ok(outputs.into_vec())
    }
}

/// Starts a backend under a name. For element types that the backend lacks, the runtime converts to a type that it has,
/// if that is exact.
pub fn start<B: Declared>(backend: B, how: Start) -> Arc<dyn BackendRuntime> {
    let identity = Identity { name: how.name, version: B::VERSION, path: B::PATH };
    crate::runtime::start(backend, identity, B::FAMILIES, how.narrow_floats)
}

/// Constructs a backend with options, as the registry does.
///
/// # Errors
///
/// As [`Runtime::open_with`](crate::Runtime::open_with).
pub fn constructed<B: Declared>(options: &OpenOptions) -> Result<B, crate::Error> {
    crate::Runtime::<B>::constructed(options)
}

/// Returns the registration of a struct that has the derive.
pub const fn of_struct<B: DerivedStruct>() -> Registration {
    Registration::of::<B>()
}

/// Returns the registration of an enum that has the derive.
pub const fn of_enum<B: DerivedEnum>() -> Registration {
    Registration::of::<B>()
}

/// Calls a vendor's operation on a backend: the native kernel from the tables if there is one, otherwise the body.
///
/// # Errors
///
/// The operation's own.
pub fn vendor_call<B: Backend + ?Sized>(
    on: &B,
    op: &'static OpSpec,
    tables: &[FamilyTable<B>],
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    Extended::new(on, tables).call(op, inputs, params)
}

/// Runs the body of a vendor's operation, for a backend that did not write the method. The body calls the backend's own
/// methods for the operations of the table that the backend wrote.
///
/// # Errors
///
/// The body's own.
pub fn vendor_body<B: Backend + ?Sized>(
    on: &B,
    op: &'static OpSpec,
    table: FamilyTable<B>,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    vendor_call(on, op, &[table.without(op.index)], inputs, params)
}

/// The enum of a vendor's operations.
pub trait VendorOp: 'static {
    /// The family of the operations.
    const FAMILY: Family;
}

/// Determines at compile time whether the derive of a backend names a vendor's family.
#[derive(Debug)]
pub struct NamedVendor<B, Operation>(PhantomData<(B, Operation)>);

impl<B: Declared, Operation: VendorOp> NamedVendor<B, Operation> {
    /// Whether the derive names the family.
    pub const NAMED: bool = names_family::<B>(Operation::FAMILY);
}

/// Provides the constant if [`NamedVendor`] has no inherent one: the type is not registered, so the family need not be
/// named.
pub trait NotRegistered {
    /// True, so that no error is reported.
    const NAMED: bool = true;
}

impl<B, Operation> NotRegistered for NamedVendor<B, Operation> {}
