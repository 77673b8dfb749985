//! The interface between a program and the backend that it is compiled for.
//!
//! A [`Program`](super::program::Program) is not generic over its backend. So planning, and all of a run except the loop over
//! instructions, is compiled only once. A program reaches the backend through a [`Target`], which the generic code creates for
//! each call: [`Typed`] for a backend with kernels, [`Untyped`] if the cost of erased tensors does not matter.

use super::Profile;
use super::claims::Claims;
use super::failure::{Failure, Where};
use super::interpreter::{PlanOutputs, Prepared, Unprepared};
use super::kernels::Material;
use super::lir::Plan;
use super::origin::Origins;
use super::run_state::RunState;
use super::watch::Silent;
use crate::contract::AskedOperand;
use crate::erased::typed_constants;
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor, Kernels, WithFamilies, foreign, own};
use crate::{Backend, Error, Kernel, PrepareStep};
use bb_ir::graph::Graph;
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// A failure on a backend whose type is erased.
pub(super) type ErasedFailure = Box<Failure<ErasedError>>;

/// A plan with its constants and kernels, in the type that its [`Target`] expects.
pub(super) type AnyPrepared = Box<dyn Any + Send + Sync>;

/// A backend that runs plans.
pub(super) trait Target {
    /// Returns the backend, for single operations and whole graphs.
    fn backend(&self) -> ErasedBackend<'_>;

    /// Lets the backend prepare a kernel for a step.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    fn prepare(&self, step: &PrepareStep<'_, ErasedTensor>) -> Result<Option<MadeKernel>, ErasedError>;

    /// Combines a plan with its constants and kernels.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the constants and kernels belong to another backend.
    fn prepared(
        &self,
        plan: Plan,
        material: &Material,
        origins: Origins,
        claims: Claims,
    ) -> Result<AnyPrepared, Error>;

    /// Runs a plan that [`prepared`](Self::prepared) returned.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    fn run(
        &self,
        prepared: &AnyPrepared,
        material: &Material,
        live: &[&ErasedTensor],
        graph: &Graph,
        state: &mut RunState,
        profile: Option<&mut Profile>,
    ) -> Result<PlanOutputs<ErasedTensor>, ErasedFailure>;
}

/// A kernel that a backend prepared, in the type that its [`Target`] expects.
pub(super) struct MadeKernel {
    pub(super) kernel: Box<dyn Any + Send + Sync>,
    /// The bytes of the kernel, without the constants that it reads.
    pub(super) bytes: usize,
    /// For each constant operand, whether runs must pass it to the kernel.
    pub(super) reads: SmallVec<[bool; 4]>,
    /// The properties of each operand that the backend queried while it prepared the kernel.
    pub(super) asked: SmallVec<[Option<AskedOperand>; 4]>,
}

/// A plan on a backend of the type `B`.
pub(super) type TypedPlan<B> = Prepared<<B as Backend>::Tensor, dyn Kernel<B>>;

/// Returns a plan as its concrete type.
///
/// # Errors
///
/// [`Error::Internal`] if the plan was prepared for another target.
#[inline]
pub(super) fn own_plan<P: 'static>(prepared: &AnyPrepared) -> Result<&P, Error> {
    prepared.downcast_ref().ok_or_else(|| Error::excluded("a plan of the backend that runs it"))
}

/// A backend whose type is known: plans run on the backend's own tensors.
pub(super) struct Typed<'a, B: Backend + ?Sized + 'static>(pub(super) WithFamilies<'a, B>);

impl<B: Backend + ?Sized + 'static> Target for Typed<'_, B> {
    fn backend(&self) -> ErasedBackend<'_> {
        ErasedBackend(&self.0)
    }

    fn prepare(&self, step: &PrepareStep<'_, ErasedTensor>) -> Result<Option<MadeKernel>, ErasedError> {
        let constants = typed_constants::<B::Tensor>(step)?;
        let typed = step.with_constants(&constants);
        let Some(kernel) = self.0.on.prepare(&typed).map_err(own::<B>)? else { return Ok(None) };
        Ok(Some(MadeKernel {
            bytes: kernel.bytes(),
            reads: (0..typed.operands().len()).map(|operand| kernel.reads(operand)).collect(),
            asked: typed.asked(),
            kernel: Box::new(Arc::<dyn Kernel<B>>::from(kernel)),
        }))
    }

    fn prepared(
        &self,
        plan: Plan,
        material: &Material,
        origins: Origins,
        claims: Claims,
    ) -> Result<AnyPrepared, Error> {
        let typed = |x: &ErasedTensor| x.get::<B::Tensor>();
        Ok(Box::new(TypedPlan::<B>::new(plan, material, origins, claims, typed)?))
    }

    fn run(
        &self,
        prepared: &AnyPrepared,
        material: &Material,
        live: &[&ErasedTensor],
        graph: &Graph,
        state: &mut RunState,
        profile: Option<&mut Profile>,
    ) -> Result<PlanOutputs<ErasedTensor>, ErasedFailure> {
        let erased =
            |failure: Failure<B::Error>| Box::new(Failure { at: failure.at, error: own::<B>(failure.error) });
        let internal = |error: Error| Box::new(Failure { at: Where::Graph, error: error.into() });
        let plan = own_plan::<TypedPlan<B>>(prepared).map_err(internal)?;
        let mut owned: SmallVec<[B::Tensor; 8]> = SmallVec::with_capacity(live.len());
        for (index, x) in live.iter().enumerate() {
            owned.push(x.get().ok_or_else(|| internal(foreign("run", index)))?);
        }
        let typed: SmallVec<[&B::Tensor; 8]> = owned.iter().collect();
        let (on, natives) = (self.0.on, self.0.tables);
        let results = match profile {
            None => plan.run(on, natives, material, &typed, graph, state, &mut Silent),
            Some(profile) => plan.run(on, natives, material, &typed, graph, state, profile),
        };
        Ok(results.map_err(erased)?.into_iter().map(ErasedTensor::new).collect())
    }
}

/// A backend whose type is erased: plans run on erased tensors, and no kernels are prepared.
pub(super) struct Untyped<'a>(pub(super) &'a dyn Kernels);

impl Target for Untyped<'_> {
    fn backend(&self) -> ErasedBackend<'_> {
        ErasedBackend(self.0)
    }

    fn prepare(&self, _step: &PrepareStep<'_, ErasedTensor>) -> Result<Option<MadeKernel>, ErasedError> {
        Ok(None)
    }

    fn prepared(
        &self,
        plan: Plan,
        material: &Material,
        origins: Origins,
        claims: Claims,
    ) -> Result<AnyPrepared, Error> {
        let same = |x: &ErasedTensor| Some(x.clone());
        Ok(Box::new(Prepared::<ErasedTensor, Unprepared>::new(plan, material, origins, claims, same)?))
    }

    fn run(
        &self,
        prepared: &AnyPrepared,
        material: &Material,
        live: &[&ErasedTensor],
        graph: &Graph,
        state: &mut RunState,
        profile: Option<&mut Profile>,
    ) -> Result<PlanOutputs<ErasedTensor>, ErasedFailure> {
        let internal = |error: Error| Box::new(Failure { at: Where::Graph, error: error.into() });
        let plan = own_plan::<Prepared<ErasedTensor, Unprepared>>(prepared).map_err(internal)?;
        let on = &self.backend();
        let results = match profile {
            None => plan.run(on, &[], material, live, graph, state, &mut Silent),
            Some(profile) => plan.run(on, &[], material, live, graph, state, profile),
        };
        results.map_err(Box::new)
    }
}
