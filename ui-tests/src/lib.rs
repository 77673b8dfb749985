//! Shared parts of the cases: a tensor without elements, a macro that writes a backend's `impl`, and one that forwards its methods.
//!
//! No case computes anything; cases compile, or show a message.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// A tensor without elements.
#[derive(Debug, Clone)]
pub struct Handle;

impl bb::Tensor for Handle {
    fn dtype(&self) -> bb::DataType {
        bb::DataType::F32
    }

    fn shape(&self) -> &[usize] {
        &[]
    }
}

/// Tensors by name.
pub type Named = HashMap<String, Handle>;

/// Writes `impl bb::Backend` for a type: `backend!(Cpu)`, `backend!(<T> Cpu<T>)`.
#[macro_export]
macro_rules! backend {
    (<$param:ident> $backend:ty) => {
        $crate::backend!(@ [<$param: ::core::marker::Send + ::core::marker::Sync>] $backend);
    };
    (@ [$($generics:tt)*] $backend:ty) => {
        impl $($generics)* ::bb::Backend for $backend {
            type Tensor = $crate::Handle;
            type Error = ::bb::Error;

            ::bb::forward_to_execute!($crate::refuse);

            fn to_host(&self, _x: &$crate::Handle) -> ::core::result::Result<::bb::TensorData, ::bb::Error> {
                $crate::no_elements()
            }
        }
    };
    ($backend:ty) => {
        $crate::backend!(@ [] $backend);
    };
}

/// Calls `bb::forward_to_execute!` with a function and the methods of all primitives except `matmul`:
/// `forward_except_matmul!(Self::run);`
#[macro_export]
macro_rules! forward_except_matmul {
    ([$($run:tt)*] $( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $crate::forward_except_matmul!(@ [$($run)*] [] $($method)*);
    };
    (@ [$($run:tt)*] [$($listed:ident)*] matmul $($rest:ident)*) => {
        $crate::forward_except_matmul!(@ [$($run)*] [$($listed)*] $($rest)*);
    };
    (@ [$($run:tt)*] [$($listed:ident)*] $method:ident $($rest:ident)*) => {
        $crate::forward_except_matmul!(@ [$($run)*] [$($listed)* $method] $($rest)*);
    };
    (@ [$($run:tt)*] [$($listed:ident)*]) => {
        ::bb::forward_to_execute!($($run)*; $($listed),*);
    };
    ($($run:tt)*) => {
        ::bb::ir::for_each_primitive!($crate::forward_except_matmul, $($run)*);
    };
}

/// A function with the signature for graphs; it returns an error.
///
/// # Errors
///
/// Always.
pub fn refuse<B>(
    _on: &B,
    _graph: &bb::GraphProto,
    _inputs: Named,
    _attrs: bb::BackendAttrs<'_>,
) -> Result<Named, bb::Error> {
    Err(bb::Error::Abandoned)
}

/// A function with the signature for copying to the host; it returns an error.
///
/// # Errors
///
/// Always.
pub fn no_elements() -> Result<bb::TensorData, bb::Error> {
    Err(bb::Error::Abandoned)
}
