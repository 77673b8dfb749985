//! Type-erased backends, for code of this crate that is compiled only once for all backends.
//!
//! Running backends, layers, traced bodies (`ext/body.rs`), constants, loops and the conformance cases call backends through [`Kernels`].
//! Each of these calls is indirect, so the interpreter of plans calls backends through their own types.

mod borrowed;
mod holding;
mod kernels;
mod narrow_tensor;
mod owned;
mod plans;
pub(crate) mod range;
mod tensor;

pub use borrowed::WithFamilies;
pub(crate) use borrowed::{erased_named, typed_named};
pub(crate) use holding::Holding;
pub use kernels::{ErasedCompiled, ErasedKernel, Kernels};
pub(crate) use narrow_tensor::NarrowTensor;
pub(crate) use narrow_tensor::TensorPlace;
pub use owned::Owned;
pub(crate) use owned::typed_constants;
pub(crate) use plans::{KeepsPlans, Plans, narrowed_plans, plans_of};
pub(crate) use tensor::AnyTensor;
pub use tensor::{ErasedError, ErasedTensor, boxed, foreign, own};

use crate::{Backend, Error, Outputs, ResultMaker, Tensor};
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::{DataTypes, TensorData};
use smallvec::SmallVec;

/// A type-erased backend with every extension family. Native operations call the backend's kernels; all others run
/// their bodies.
#[derive(Clone, Copy)]
pub struct ErasedBackend<'a>(#[doc(hidden)] pub &'a dyn Kernels);

impl dyn Kernels + '_ {
    /// Copies a tensor to the backend.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub(crate) fn constant(&self, x: &TensorData) -> Result<ErasedTensor, ErasedError> {
        Backend::constant(&ErasedBackend(self), x)
    }
}

impl std::fmt::Debug for ErasedBackend<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ErasedBackend")
    }
}

impl ErasedBackend<'_> {
    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        // Checks before each primitive whether the run must end, because a caller may call thousands of primitives.
        crate::RunOptions::check_current()?;
        self.0.primitive(op, inputs, params)
    }
}

#[diagnostic::do_not_recommend]
impl Backend for ErasedBackend<'_> {
    type Tensor = ErasedTensor;
    type Error = ErasedError;

    fn wrapped(error: &ErasedError) -> Option<&Error> {
        error.as_bb()
    }

    fn wrapped_in<'a>(&self, error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
        match error.downcast_ref::<ErasedError>() {
            Some(error) => error.as_bb().or_else(|| self.0.wrapped(error.inner())),
            None => self.0.wrapped(error),
        }
    }

    crate::forward_to_call!(Self::apply);

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        self.0.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.0.types()
    }

    fn has_every_type(&self) -> bool {
        !self.0.refuses_types()
    }

    fn maker_of(&self, spec: &'static OpSpec) -> ResultMaker {
        self.0.maker_of(spec)
    }
}

/// Runs bodies of operations, and primitives on operands of element types that a backend lacks.
///
/// The module that emulates element types (`narrow`) implements this trait for `dyn Kernels`. So the tables of families depend neither on
/// that module nor on the bodies.
pub(crate) trait RunsBodies {
    /// Runs the body of an operation. Inside the body, operations that the backend declares native are called.
    ///
    /// # Errors
    ///
    /// The errors of the body and of the backend.
    fn run_body(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError>;

    /// Calls a primitive with operands and parameters of any type, if the emulation is exact.
    ///
    /// # Errors
    ///
    /// The backend's errors; [`NarrowError`](crate::NarrowError).
    fn run_narrowed(
        &self,
        op: Primitive,
        inputs: &[Option<ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError>;
}

/// Runs the body of an operation on a backend. Inside the body, operations that the backend declares native are called.
///
/// # Errors
///
/// The errors of the body and of the backend.
pub(crate) fn run_body<B: Backend + ?Sized>(
    on: &WithFamilies<'_, B>,
    op: &'static OpSpec,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let inputs = erased(inputs);
    let inputs: SmallVec<[Option<&ErasedTensor>; 4]> = inputs.iter().map(Option::as_ref).collect();
    let on: &dyn Kernels = on;
    let results = on.run_body(op, &inputs, params).map_err(ErasedError::typed::<B>)?;
    typed::<B>(op.method, &results)
}

/// Calls a primitive on a backend that lacks element types. Operands and parameters may have any type, if the emulation
/// is exact.
///
/// # Errors
///
/// The backend's errors; [`NarrowError`](crate::NarrowError).
pub(crate) fn run_narrowed<B: Backend + ?Sized>(
    on: &WithFamilies<'_, B>,
    op: Primitive,
    inputs: &[Option<&B::Tensor>],
    params: &[Param<'_>],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let on: &dyn Kernels = on;
    let results = on.run_narrowed(op, &erased(inputs), params).map_err(ErasedError::typed::<B>)?;
    typed::<B>(op.spec().method, &results)
}

/// The operands of a call on a type-erased backend.
type Erased = SmallVec<[Option<ErasedTensor>; 4]>;

fn erased<T: Tensor>(inputs: &[Option<&T>]) -> Erased {
    inputs.iter().map(|x| x.map(|x| ErasedTensor::new(x.clone()))).collect()
}

/// Restores the type of results.
fn typed<B: Backend + ?Sized>(
    op: &'static str,
    results: &[ErasedTensor],
) -> Result<Outputs<B::Tensor>, B::Error> {
    let mut typed = Outputs::with_capacity(results.len());
    for (index, result) in results.iter().enumerate() {
        typed.push(result.get().ok_or_else(|| foreign(op, index))?);
    }
    Ok(typed)
}
