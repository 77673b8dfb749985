//! Checks the signatures of the constructors that authors name, so that rustc reports clear messages.

use super::Signature;
use crate::{Backend, BoxError, OpenOptions};
use std::marker::PhantomData;

/// The constructor that `new` names, for a backend `B`.
///
/// Its methods exist only if the function takes no arguments. Otherwise rustc finds the methods of `WrongConstructor`
/// through `Deref`. These exist for every function, so that only [`Signature::constructs`] reports an error.
#[derive(Debug)]
pub struct NewFunction<B, F>(F, PhantomData<fn() -> B>);

impl<B, F> NewFunction<B, F> {
    /// Wraps the function.
    pub fn of(function: F) -> NewFunction<B, F> {
        NewFunction(function, PhantomData)
    }
}

impl<B, R, F: FnOnce() -> R> NewFunction<B, F> {
    /// Calls the constructor.
    pub fn made(self) -> R {
        (self.0)()
    }

    /// Returns that the signature is right.
    pub fn signature(&self) -> Signature<true> {
        Signature::RIGHT
    }
}

/// The methods of a constructor with a wrong signature. A program that calls them does not compile.
#[derive(Debug)]
pub struct WrongConstructor<B, F>(PhantomData<(F, fn() -> B)>);

impl<B, F> WrongConstructor<B, F> {
    /// Replaces [`NewFunction::made`] if the signature is wrong.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn made(&self) -> Result<B, crate::Error> {
        Err(crate::Error::Abandoned)
    }

    /// Returns that the signature is wrong.
    pub fn signature(&self) -> Signature<false> {
        Signature::WRONG
    }
}

impl<B, F> std::ops::Deref for NewFunction<B, F> {
    type Target = WrongConstructor<B, F>;

    fn deref(&self) -> &WrongConstructor<B, F> {
        &WrongConstructor(PhantomData)
    }
}

/// Calls the constructor that `open` names. Rustc shows this line if the constructor has another signature.
pub fn opened_by<R>(open_takes_options: fn(&OpenOptions) -> R, options: &OpenOptions) -> R {
    open_takes_options(options)
}

/// Builds a backend with `Default`.
///
/// The method `made` exists only if the backend implements `Default`. Otherwise rustc finds `NoDefault::made` through `Deref`,
/// so that only [`Makes`] reports an error.
#[derive(Debug)]
pub struct ByDefault<B>(PhantomData<fn() -> B>);

impl<B> ByDefault<B> {
    /// The value whose method rustc looks up.
    pub const NEW: Self = ByDefault(PhantomData);
}

impl<B: crate::runtime::Constructed> ByDefault<B> {
    /// Builds a backend with `Default`.
    ///
    /// # Errors
    ///
    /// None.
    pub fn made(&self) -> Result<B, BoxError> {
        Ok(B::construct())
    }
}

/// The method of a type without `Default`. A program that calls it does not compile.
#[derive(Debug)]
pub struct NoDefault<B>(PhantomData<fn() -> B>);

impl<B> NoDefault<B> {
    /// Replaces [`ByDefault::made`] for a type without `Default`.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn made(&self) -> Result<B, BoxError> {
        Err(crate::Error::Abandoned.into())
    }
}

impl<B> std::ops::Deref for ByDefault<B> {
    type Target = NoDefault<B>;

    fn deref(&self) -> &NoDefault<B> {
        &NoDefault(PhantomData)
    }
}

/// Asserts that a backend has `Default`. For a type that is no backend it asserts nothing, because another error
/// reports that.
#[derive(Debug)]
pub struct Makes<B>(PhantomData<fn() -> B>);

impl<B> Makes<B> {
    /// The value whose method rustc looks up.
    pub const NEW: Self = Makes(PhantomData);
}

impl<B: Backend> Makes<B> {
    /// Asserts that the backend has `Default`.
    pub fn by_default(&self)
    where
        B: crate::runtime::Constructed,
    {
    }
}

/// The method of a type that is no backend.
#[derive(Debug)]
pub struct MakesNothing;

impl MakesNothing {
    /// Asserts nothing.
    pub fn by_default(&self) {}
}

impl<B> std::ops::Deref for Makes<B> {
    type Target = MakesNothing;

    fn deref(&self) -> &MakesNothing {
        &MakesNothing
    }
}
