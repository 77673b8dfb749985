//! Runs every family on every backend: native operations call the backend's kernels, all others run their default
//! bodies.

use crate::contract::{FamilyTable, native_in, nested};
use crate::erased::{ErasedError, ErasedTensor, Kernels, RunsBodies, WithFamilies, run_body, run_narrowed};
use crate::{Backend, BackendAttrs, Error, Outputs};
use bb_ir::TensorData;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use std::cell::Cell;
use std::collections::HashMap;

thread_local! {
    /// The number of nested native operations and bodies on this thread. Calls by plans are not counted.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The maximum nesting depth of native operations and bodies. A native operation that calls a body needs only a few
/// levels, so more levels mean that it calls itself. The limit is low, because all levels must fit on the thread's
/// stack.
const MOST_DEEP: usize = 16;

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

    /// Extends a backend for one of its native methods that has no kernel for the passed operands. The called operation
    /// runs its body, although it is native.
    pub(crate) const fn declined(on: &'a B, tables: &'a [FamilyTable<B>]) -> Self {
        Extended { on, tables, declines: true }
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

/// Calls an operation of any family on a type-erased backend: the backend's kernel if there is one, otherwise the body.
///
/// # Errors
///
/// [`Error::EndlessNative`]; the operation's own errors.
pub(crate) fn call_erased(
    on: &dyn Kernels,
    op: &'static OpSpec,
    inputs: &[Option<&ErasedTensor>],
    params: &[Param<'_>],
) -> Result<Outputs<ErasedTensor>, ErasedError> {
    if let (Family::Primitive, Some(primitive)) = (op.family, Primitive::from_index(op.index)) {
        return on.primitive(primitive, inputs, params);
    }
    let endless = || Error::EndlessNative { op: op.method };
    let native = || on.native(op, inputs, params).transpose();
    match nested(&DEPTH, MOST_DEEP, endless, native)? {
        Some(results) => Ok(results),
        None => {
            let body = || crate::contract::inside(|| on.run_body(op, inputs, params));
            nested(&DEPTH, MOST_DEEP, endless, body)
        }
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

/// Implements [`Backend`] by forwarding the primitives to the inner backend.
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
                    if self.on.has_every_type() {
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

            fn has_every_type(&self) -> bool {
                self.on.has_every_type()
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
