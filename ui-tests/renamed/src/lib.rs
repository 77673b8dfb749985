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
                ("chip", "3.2.1", "renamed::vendor::Chip"),
                ("no-graph", "3.2.1", "renamed::NoGraph"),
                ("of-f32", "3.2.1", "renamed::Of<f32>"),
                ("of-f64", "3.2.1", "renamed::Of<f64>"),
            ]
        );
        ::std::assert!(matches!(::tensor_contract::backend("of-f64").map(|b| b.name()), Ok("of-f64")));
    }
}

/// Operations of a vendor, and a backend with a kernel for one.
pub mod vendor {
    use super::Handle;
    use ::std::clone::Clone;
    use ::std::option::Option::{self, None};
    use ::std::result::Result::{self, Ok};
    use ::tensor_contract::Error;
    use ::tensor_contract::ext::{Ops, PatternOperand, VendorType};
    use ::tensor_contract::ir::op::Param;

    fn half<B: Ops + ?::std::marker::Sized>(
        on: &B,
        x: &B::Tensor,
        y: Option<&B::Tensor>,
        options: HalfOptions<'_>,
    ) -> Result<B::Tensor, B::Error> {
        let _unused = (y, options);
        on.neg(x)
    }

    fn joined<B: Ops + ?::std::marker::Sized>(
        on: &B,
        xs: &[&B::Tensor],
        axis: i64,
    ) -> Result<::std::vec::Vec<B::Tensor>, B::Error> {
        Ok(::std::vec![on.concat(xs, axis)?])
    }

    fn none(_: &[Option<VendorType>], _: &[Param<'_>]) -> Result<::std::vec::Vec<VendorType>, Error> {
        Ok(::std::vec::Vec::new())
    }

    fn never(_: &[Option<PatternOperand>], _: &[Param<'_>]) -> bool {
        false
    }

    ::tensor_contract::vendor! {
        /// Operations.
        pub trait Renamed(RenamedOp, RenamedCalls) in "com.example.renamed" {
            /// Halves.
            Half 1 = half(x: Tensor, y: Optional) with options: HalfOptions<'a> {
                /// A factor.
                factor: Float = 0.5,
                /// Axes.
                axes: Ints = &[],
                /// A word.
                word: Text = "none",
            } -> Tensor => body: half, pattern: half where never;

            /// Joins.
            Joined 1 = joined(xs: Tensors; axis: Int) -> Tensors => body: joined;

            /// Has no body.
            Kernel 1 = kernel(x: Tensor) -> Tensor => types: none;
        }
    }

    /// A backend with a kernel.
    #[derive(::tensor_contract::Backend, ::std::default::Default)]
    #[bb(crate = ::tensor_contract, vendors(self::Renamed))]
    pub struct Chip;

    impl ::tensor_contract::Backend for Chip {
        type Tensor = Handle;
        type Error = Error;

        ::tensor_contract::forward_to_execute!(Self::run);

        fn to_host(&self, _: &Handle) -> Result<::tensor_contract::TensorData, Error> {
            Result::Err(Error::Abandoned)
        }
    }

    impl Chip {
        fn run(
            &self,
            _: &::tensor_contract::GraphProto,
            _: ::std::collections::HashMap<::std::string::String, Handle>,
            _: ::tensor_contract::BackendAttrs<'_>,
        ) -> Result<::std::collections::HashMap<::std::string::String, Handle>, Error> {
            Result::Err(Error::Abandoned)
        }
    }

    #[::tensor_contract::native(crate = ::tensor_contract, operations = RenamedOp)]
    impl Renamed for Chip {
        fn kernel(&self, x: &Handle) -> Result<Handle, Error> {
            let _none: Option<()> = None;
            Ok(x.clone())
        }
    }
}
