//! The test cases of primitives, one function per primitive. Together they define the results of the
//! primitives.

mod arithmetic;
mod cast;
mod comparison;
mod definition;
mod extents;
mod gather;
mod matmul;
mod parts;
mod powers;
mod reduce;
mod truth;

pub use arithmetic::{abs, add, div, mul, neg, sub};
pub use cast::{cast, constant};
pub use comparison::{equal, greater, less};
pub use extents::{identity, reshape, squeeze, transpose, unsqueeze};
pub use gather::gather;
pub use matmul::matmul;
pub use parts::{concat, slice, split};
pub use powers::{exp, log, pow, sqrt};
pub use reduce::{reduce_max, reduce_mean, reduce_min, reduce_sum};
pub use truth::r#where;

use super::subject::Subject;
use bb_ir::op::Primitive;

/// Generates [`run`] from the op table, so that a primitive without a case is a compile error.
macro_rules! run {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// Runs the case of one primitive.
        ///
        /// # Panics
        ///
        /// If the backend fails the case.
        pub fn run(op: Primitive, on: &Subject<'_>) {
            use super::cases;
            match op { $( Primitive::$name => cases::$method(on), )* }
        }
    };
}

bb_ir::for_each_primitive!(run);
