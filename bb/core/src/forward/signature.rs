//! Checks the signatures of functions that authors name, so that rustc reports clear messages.
//!
//! A type has the methods of a correct function only if the signature is correct. Otherwise rustc finds methods with
//! the same names behind `Deref`, which exist for every function, so that a wrong signature causes only one error.

use super::Types;
use crate::{Backend, BackendAttrs, Error, Outputs};
use bb_ir::op::{Param, Primitive};
use bb_ir::proto::GraphProto;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Deref;

/// A call of the function in [`forward_to_call!`](crate::forward_to_call).
///
/// Its methods exist only if the function has the correct signature. Otherwise rustc finds the methods of
/// `WrongFunction`, which exist for every function, so that only [`Signature::takes_calls`] reports an error.
#[derive(Debug)]
pub struct ForwardedCall<'a, B: Types + ?Sized, F> {
    /// The backend.
    pub on: &'a B,
    /// The function.
    pub call: F,
    /// The operation.
    pub op: Primitive,
    /// The operands.
    pub inputs: &'a [Option<&'a B::Tensor>],
    /// The parameters.
    pub params: &'a [Param<'a>],
}

impl<'a, B: Types + ?Sized, F> ForwardedCall<'a, B, F>
where
    F: FnOnce(
        &'a B,
        Primitive,
        &'a [Option<&'a B::Tensor>],
        &'a [Param<'a>],
    ) -> Result<Outputs<B::Tensor>, B::Error>,
{
    /// Calls the function.
    ///
    /// # Errors
    ///
    /// The errors of the function.
    #[inline]
    pub fn call(self) -> Result<Outputs<B::Tensor>, B::Error> {
        (self.call)(self.on, self.op, self.inputs, self.params)
    }

    /// Returns that the signature is right.
    pub fn signature(&self) -> Signature<true> {
        Signature::RIGHT
    }
}

/// A call of the function in [`forward_to_execute!`](crate::forward_to_execute). It works like [`ForwardedCall`].
#[derive(Debug)]
pub struct ForwardedGraph<'a, B: Types + ?Sized, F> {
    /// The backend.
    pub on: &'a B,
    /// The function.
    pub run: F,
    /// The graph.
    pub graph: &'a GraphProto,
    /// The inputs.
    pub inputs: HashMap<String, B::Tensor>,
    /// The attributes.
    pub attrs: BackendAttrs<'a>,
}

impl<'a, B: Types + ?Sized, F> ForwardedGraph<'a, B, F>
where
    F: FnOnce(
        &'a B,
        &'a GraphProto,
        HashMap<String, B::Tensor>,
        BackendAttrs<'a>,
    ) -> Result<HashMap<String, B::Tensor>, B::Error>,
{
    /// Calls the function.
    ///
    /// # Errors
    ///
    /// The errors of the function.
    #[inline]
    pub fn run(self) -> Result<HashMap<String, B::Tensor>, B::Error> {
        (self.run)(self.on, self.graph, self.inputs, self.attrs)
    }

    /// Returns that the signature is right.
    pub fn signature(&self) -> Signature<true> {
        Signature::RIGHT
    }
}

/// Whether a function has the right signature.
#[derive(Debug)]
pub struct Signature<const RIGHT: bool>(());

// These are methods, because in a free function rustc would infer `RIGHT` from the bound.
impl<const RIGHT: bool> Signature<RIGHT> {
    /// Asserts that the function has the signature for [`forward_to_call!`](crate::forward_to_call).
    pub fn takes_calls(&self)
    where
        Self: TakesCalls,
    {
    }

    /// Asserts that the function has the signature for [`forward_to_execute!`](crate::forward_to_execute).
    pub fn takes_graphs(&self)
    where
        Self: TakesGraphs,
    {
    }

    /// Asserts that the constructor of a backend `B` takes no arguments.
    pub fn constructs<B>(&self)
    where
        Self: Constructs<B>,
    {
    }
}

impl Signature<true> {
    /// The value for a correct signature.
    pub const RIGHT: Self = Signature(());
}

impl Signature<false> {
    /// The value for a wrong signature.
    pub const WRONG: Self = Signature(());
}

/// The methods of a call whose function has a wrong signature. A program that calls them does not compile.
#[derive(Debug)]
pub struct WrongFunction<B: ?Sized, F>(PhantomData<F>, PhantomData<fn(&B)>);

impl<B: Backend + ?Sized, F> WrongFunction<B, F> {
    /// Returns that the signature is wrong.
    pub fn signature(&self) -> Signature<false> {
        Signature::WRONG
    }

    /// Replaces [`ForwardedCall::call`] if the signature is wrong.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn call(&self) -> Result<Outputs<B::Tensor>, B::Error> {
        Err(Error::Abandoned.into())
    }

    /// Replaces [`ForwardedGraph::run`] if the signature is wrong.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn run(&self) -> Result<HashMap<String, B::Tensor>, B::Error> {
        Err(Error::Abandoned.into())
    }
}

impl<B: Types + ?Sized, F> Deref for ForwardedCall<'_, B, F> {
    type Target = WrongFunction<B, F>;

    fn deref(&self) -> &WrongFunction<B, F> {
        &WrongFunction(PhantomData, PhantomData)
    }
}

impl<B: Types + ?Sized, F> Deref for ForwardedGraph<'_, B, F> {
    type Target = WrongFunction<B, F>;

    fn deref(&self) -> &WrongFunction<B, F> {
        &WrongFunction(PhantomData, PhantomData)
    }
}

/// The [`Signature`] of a constructor that takes no arguments.
#[diagnostic::on_unimplemented(
    message = "`#[bb(new = path)]` takes a function `fn() -> {B}` or `fn() -> Result<{B}, E>`",
    label = "this function has another signature",
    note = "a constructor that takes options is given by `#[bb(open = path, options(…))]`: `fn(&bb::OpenOptions) -> {B}`"
)]
pub trait Constructs<B> {}

#[diagnostic::do_not_recommend]
impl<B> Constructs<B> for Signature<true> {}

/// The [`Signature`] of a function for [`forward_to_call!`](crate::forward_to_call).
#[diagnostic::on_unimplemented(
    message = "the function of `forward_to_call!` is `fn call(&self, op: bb::Primitive, inputs: &[Option<&Self::Tensor>], params: \
               &[bb::ir::op::Param<'_>]) -> Result<bb::Outputs<Self::Tensor>, Self::Error>`",
    label = "this function has another signature"
)]
pub trait TakesCalls {}

#[diagnostic::do_not_recommend]
impl TakesCalls for Signature<true> {}

/// The [`Signature`] of a function for [`forward_to_execute!`](crate::forward_to_execute).
#[diagnostic::on_unimplemented(
    message = "the function of `forward_to_execute!` is `fn run(&self, graph: &bb::GraphProto, inputs: HashMap<String, Self::Tensor>, \
               attrs: bb::BackendAttrs<'_>) -> Result<HashMap<String, Self::Tensor>, Self::Error>`",
    label = "this function has another signature"
)]
pub trait TakesGraphs {}

#[diagnostic::do_not_recommend]
impl TakesGraphs for Signature<true> {}
