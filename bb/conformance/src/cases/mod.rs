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

// The public items of these modules are the cases.
pub use arithmetic::*;
pub use cast::*;
pub use comparison::*;
pub use extents::*;
pub use gather::*;
pub use matmul::*;
pub use parts::*;
pub use powers::*;
pub use reduce::*;
pub use truth::*;

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
