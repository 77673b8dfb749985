//! Implements Rust's operators on values: `+`, `-`, `*`, `/` and the unary `-`.
//!
//! An operation can fail, so an operator returns a `Result`: `(&a + &b)?`. A chain of operators needs one `?` for each
//! operation, as in `(&(&a + &b)? * &c)?`. In a chain, methods are easier to read: `a.add(&b)?.mul(&c)?`.

use super::Value;
use crate::Error;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Implements an operator for every combination of values and references to values.
macro_rules! operators {
    ($($trait:ident = $method:ident;)+) => { $(
        operators!{ $trait $method [&Value, &Value] [&Value, Value] [Value, &Value] [Value, Value] }
    )+ };
    ($trait:ident $method:ident $([$left:ty, $right:ty])+) => { $(
        impl $trait<$right> for $left {
            type Output = Result<Value, Error>;

            fn $method(self, right: $right) -> Result<Value, Error> {
                Value::$method(&self, &right)
            }
        }
    )+ };
}

operators! {
    Add = add;
    Sub = sub;
    Mul = mul;
    Div = div;
}

impl Neg for &Value {
    type Output = Result<Value, Error>;

    fn neg(self) -> Result<Value, Error> {
        Value::neg(self)
    }
}

impl Neg for Value {
    type Output = Result<Value, Error>;

    fn neg(self) -> Result<Value, Error> {
        Value::neg(&self)
    }
}
