//! Backends in a crate that renames `bb` and has no prelude.
//!
//! If a path in the macros' output were not absolute, or contained `::bb`, this crate would not compile.
#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![deny(warnings)]

extern crate std;

use ::std::clone::Clone;
use ::std::collections::HashMap;
use ::std::result::Result::{self, Err, Ok};
use ::std::string::String;
use ::tensor_contract::{BackendAttrs, DataType, Error, GraphProto, TensorData};

/// A tensor without elements.
#[derive(::std::clone::Clone)]
pub struct Handle;

impl ::tensor_contract::Tensor for Handle {
    fn dtype(&self) -> DataType {
        DataType::F32
    }

    fn shape(&self) -> &[usize] {
        &[]
    }
}

/// A backend that refuses graphs.
#[derive(::tensor_contract::Backend, ::std::default::Default)]
#[bb(crate = ::tensor_contract, extensions(Nn, Scalar))]
pub struct NoGraph;

impl NoGraph {
    fn run(
        &self,
        _: &GraphProto,
        _: HashMap<String, Handle>,
        _: BackendAttrs<'_>,
    ) -> Result<HashMap<String, Handle>, Error> {
        Err(Error::Abandoned)
    }
}

impl ::tensor_contract::Backend for NoGraph {
    type Tensor = Handle;
    type Error = Error;

    ::tensor_contract::forward_to_execute!(Self::run);

    fn to_host(&self, _: &Handle) -> Result<TensorData, Error> {
        Err(Error::Abandoned)
    }
}

#[::tensor_contract::native]
impl ::tensor_contract::ext::Nn for NoGraph {
    fn relu(&self, x: &Handle) -> Result<Handle, Error> {
        Ok(x.clone())
    }
}

use ::tensor_contract::ext::Scalar;

#[::tensor_contract::native(crate = ::tensor_contract)]
impl Scalar for NoGraph {
    fn maximum(&self, a: &Handle, _: &Handle) -> Result<Handle, Error> {
        Ok(a.clone())
    }
}

/// A backend for elements of one type.
#[derive(::tensor_contract::Backend)]
#[bb(crate = ::tensor_contract, instances("of-f32" = Of<f32>, "of-f64" = self::Of<f64>), new = Self::open)]
pub struct Of<T>(::std::marker::PhantomData<T>);

impl<T> Of<T> {
    fn open() -> Result<Self, Error> {
        Ok(Of(::std::marker::PhantomData))
    }
}

impl<T: ::std::marker::Send + ::std::marker::Sync> ::tensor_contract::Backend for Of<T> {
    type Tensor = Handle;
    type Error = Error;

    ::tensor_contract::forward_to_execute!(refuse);

    fn to_host(&self, _: &Handle) -> Result<TensorData, Error> {
        Err(Error::Abandoned)
    }
}

fn refuse<T>(
    _: &Of<T>,
    _: &GraphProto,
    _: HashMap<String, Handle>,
    _: BackendAttrs<'_>,
) -> Result<HashMap<String, Handle>, Error> {
    Err(Error::Abandoned)
}

#[cfg(test)]
mod tests {
    use ::std::prelude::v1::*;
    use ::std::{assert_eq, matches};
    use ::tensor_contract::Registry;

    #[test]
    fn the_backends_of_this_crate_are_found() {
        let entries: Vec<_> = Registry::global().entries().map(|r| (r.name, r.version, r.path)).collect();
        assert_eq!(
            entries,
            [
                ("no-graph", "3.2.1", "renamed::NoGraph"),
                ("of-f32", "3.2.1", "renamed::Of<f32>"),
                ("of-f64", "3.2.1", "renamed::Of<f64>"),
            ]
        );
        ::std::assert!(matches!(::tensor_contract::backend("of-f64").map(|b| b.name()), Ok("of-f64")));
    }
}
