//! Operations of vendors: tables of an author's own operations. Models refer to them by domain and name.
//!
//! [`bb::vendor!`](crate::vendor) writes a family in the author's crate, like the families of `bb`, and registers it
//! for plans and models. An operation with a body, built from other operations, runs on every backend. An operation
//! that only declares its result types runs only on backends with a kernel. Patterns specify the steps of a plan that
//! the operation replaces.

use super::{Extended, Extents, FamilyTable, OpSet};
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Backend, Error, Outputs};
use bb_ir::DataType;
use bb_ir::op::{Family, OpSpec, Param};
use bb_ir::opset;
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The element type and the extents of an operand or a result of a vendor's operation.
#[derive(Debug, Clone)]
pub struct VendorType {
    /// The element type.
    pub dtype: DataType,
    /// The extents, outermost first: numbers, or expressions of the model's symbolic dimensions.
    pub extents: Extents,
}

/// Computes the types of the results of an operation without a body, from the types of its operands and its
/// parameters.
pub type TypesOf = fn(&[Option<VendorType>], &[Param<'_>]) -> Result<Vec<VendorType>, Error>;

/// A body or a pattern as a function that records its calls.
#[doc(hidden)]
pub type TracedBody =
    fn(&Tracer, &[Option<&TracedTensor>], &[Param<'_>]) -> Result<Outputs<TracedTensor>, TraceStop>;

/// An operand of the steps that an operation may replace.
#[derive(Debug, Clone)]
pub struct PatternOperand {
    /// The element type.
    pub dtype: DataType,
    /// The extents, outermost first; `None` for an extent that may differ between runs.
    pub extents: SmallVec<[Option<usize>; 4]>,
}

/// Returns whether a kernel supports operands and parameters. If not, the operation does not replace the steps of a
/// pattern.
pub type Accepts = fn(&[Option<PatternOperand>], &[Param<'_>]) -> bool;

/// A function whose recorded steps an operation replaces.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct VendorPattern {
    /// The path of the function, for messages.
    pub name: &'static str,
    /// The function that records the steps.
    pub traced: TracedBody,
    /// The condition on the operands, with at most one entry.
    pub accepts: &'static [Accepts],
}

/// The definition of an operation.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum MadeOf {
    /// The operation has a body of other operations.
    Body(TracedBody),
    /// The operation needs a backend's kernel. The function returns its result types.
    Kernel(TypesOf),
}

/// An operation of a vendor.
#[derive(Debug, Clone, Copy)]
pub struct VendorOperation {
    spec: &'static OpSpec,
    made_of: MadeOf,
    patterns: &'static [VendorPattern],
}

impl VendorOperation {
    /// Creates an operation from its parts. [`bb::vendor!`](crate::vendor) calls this.
    #[doc(hidden)]
    pub const fn new(spec: &'static OpSpec, made_of: MadeOf, patterns: &'static [VendorPattern]) -> Self {
        VendorOperation { spec, made_of, patterns }
    }

    /// Returns the table row.
    pub fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    /// Returns whether the operation has a body, so that it runs on every backend.
    pub fn has_body(&self) -> bool {
        matches!(self.made_of, MadeOf::Body(_))
    }

    /// Returns the definition of the operation.
    pub(crate) fn made_of(&self) -> MadeOf {
        self.made_of
    }

    /// Returns the functions whose steps the operation replaces in plans.
    pub(crate) fn patterns(&self) -> &'static [VendorPattern] {
        self.patterns
    }
}

/// The operations of a domain that [`bb::vendor!`](crate::vendor) declares.
#[derive(Debug, Clone, Copy)]
pub struct VendorFamily {
    domain: &'static str,
    path: &'static str,
    operations: &'static [VendorOperation],
}

inventory::collect!(VendorFamily);

impl VendorFamily {
    /// Creates a family from its parts. [`bb::vendor!`](crate::vendor) calls this.
    ///
    /// # Panics
    ///
    /// At compile time, if the domain has no dot, or belongs to ONNX or Microsoft.
    #[doc(hidden)]
    pub const fn new(
        domain: &'static str,
        path: &'static str,
        operations: &'static [VendorOperation],
    ) -> VendorFamily {
        assert!(
            has_dot(domain.as_bytes()),
            "the domain of a vendor's operations contains a dot, as in `com.example`"
        );
        assert!(!opset::is_reserved(domain), "{}", opset::RESERVED);
        VendorFamily { domain, path, operations }
    }

    /// Returns the domain of the operations in models.
    pub fn domain(&self) -> &'static str {
        self.domain
    }

    /// Returns the path of the family's trait.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the operations, in the order of their table rows.
    pub fn operations(&self) -> &'static [VendorOperation] {
        self.operations
    }
}

const fn has_dot(text: &[u8]) -> bool {
    match text {
        [b'.', ..] => true,
        [_, rest @ ..] => has_dot(rest),
        [] => false,
    }
}

/// Returns the linked families, sorted by domain.
fn linked() -> &'static [VendorFamily] {
    static LINKED: OnceLock<Vec<VendorFamily>> = OnceLock::new();
    LINKED.get_or_init(|| {
        let mut all: Vec<VendorFamily> = inventory::iter::<VendorFamily>().copied().collect();
        all.sort_by_key(|family| (family.domain, family.path));
        all
    })
}

/// Lists the families of vendors that are linked into the program, sorted by domain.
///
/// # Examples
///
/// ```
/// for family in bb::ext::vendor_families() {
///     println!("{} {} operations", family.domain(), family.operations().len());
/// }
/// ```
pub fn vendor_families() -> impl Iterator<Item = &'static VendorFamily> {
    linked().iter()
}

/// Returns the family of a domain; `None` if no linked crate defines it, or if two do, because the link order must not
/// matter.
pub(crate) fn family(domain: &str) -> Option<&'static VendorFamily> {
    match of_domain(domain) {
        [only] => Some(only),
        _ => None,
    }
}

/// Returns the paths of two families that have the same domain.
pub(crate) fn duplicate(domain: &str) -> Option<[&'static str; 2]> {
    match of_domain(domain) {
        [first, second, ..] => Some([first.path, second.path]),
        _ => None,
    }
}

fn of_domain(domain: &str) -> &'static [VendorFamily] {
    let all = linked();
    let start = all.partition_point(|family| family.domain < domain);
    let end = all.partition_point(|family| family.domain <= domain);
    all.get(start..end).unwrap_or_default()
}

/// Returns the table rows of a domain.
pub(crate) fn rows(domain: &str) -> Vec<&'static OpSpec> {
    let family = family(domain);
    family.into_iter().flat_map(|family| family.operations).map(|operation| operation.spec).collect()
}

/// Returns the operation of a table row; `None` if it is not a vendor's operation.
pub(crate) fn operation(spec: &OpSpec) -> Option<&'static VendorOperation> {
    let Family::Vendor(domain) = spec.family else { return None };
    family(domain)?.operations.get(usize::from(spec.index))
}

/// Returns the operation of a vendor's table row.
///
/// # Errors
///
/// [`Error::VendorTwice`] if two linked crates define the domain; [`Error::UnknownIndex`] if none does.
pub(crate) fn required(spec: &'static OpSpec) -> Result<&'static VendorOperation, Error> {
    let domain = spec.family.name();
    match (operation(spec), duplicate(domain)) {
        (Some(operation), _) => Ok(operation),
        (None, Some(paths)) => Err(Error::VendorTwice { domain, paths }),
        (None, None) => Err(Error::unknown_row(spec)),
    }
}

/// Finds the operation that a model refers to.
pub(crate) fn find(domain: &str, name: &str) -> Option<&'static VendorOperation> {
    family(domain)?.operations.iter().find(|operation| operation.spec.name == name)
}

/// Returns the operation as a set of native operations.
pub(crate) fn alone(spec: &OpSpec) -> (Family, OpSet) {
    (spec.family, OpSet::NONE.with(spec.index))
}

/// Returns the error for an operation that has neither a body nor a kernel.
pub(crate) fn no_body(spec: &'static OpSpec) -> Error {
    Error::NoBody { domain: spec.family.name(), name: spec.name, method: spec.method }
}

/// Traces the body of an operation.
///
/// # Errors
///
/// [`Error::NoBody`] if there is no body; the errors of the body.
pub(super) fn call_body(
    on: &Tracer,
    op: &'static OpSpec,
    inputs: &[Option<&TracedTensor>],
    params: &[Param<'_>],
) -> Result<Outputs<TracedTensor>, TraceStop> {
    match required(op)?.made_of {
        MadeOf::Body(body) => body(on, inputs, params),
        MadeOf::Kernel(_) => Err(no_body(op).into()),
    }
}

/// The enum of a vendor's operations.
pub trait VendorOp: 'static {
    /// The family of the operations.
    const FAMILY: Family;
}

/// Calls an operation of a vendor on a backend: a native one of the tables, or the body.
///
/// # Errors
///
/// The errors of the operation.
pub fn vendor_call<B: Backend + ?Sized>(
    on: &B,
    op: &'static OpSpec,
    tables: &[FamilyTable<B>],
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    Extended::new(on, tables).call(op, inputs, params)
}

/// Runs the body of an operation of a vendor, for a backend that did not write the method. Other operations of the table that
/// the backend wrote are its own.
///
/// # Errors
///
/// The errors of the body.
pub fn vendor_body<B: Backend + ?Sized>(
    on: &B,
    op: &'static OpSpec,
    table: FamilyTable<B>,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    vendor_call(on, op, &[table.without(op.index)], inputs, params)
}
