//! Encodes and decodes parameters of operations.

use super::{Compact, Reader, Writer};
use crate::Error;
use crate::op::{Param, RoundMode};
use std::borrow::Cow;

crate::__compact!(enum RoundMode: "a rounding mode" { 0 => Up, 1 => Down, 2 => Nearest });

/// Implements the encoding of a parameter that may be borrowed or owned.
macro_rules! owned {
    ($( $borrowed:ty = $owned:ty; )*) => { $(
        impl Compact for Cow<'static, $borrowed> {
            fn write(&self, to: &mut Writer) {
                self.as_ref().to_owned().write(to);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Error> {
                <$owned>::read(from).map(Cow::Owned)
            }
        }
    )* };
}

owned! {
    [i64] = Vec<i64>;
    [f64] = Vec<f64>;
    [usize] = Vec<usize>;
    str = String;
    crate::TensorData = crate::TensorData;
}

crate::__compact!(enum Param<'static>: "a parameter" {
    0 => Int(v),
    1 => OptInt(v),
    2 => Float(v),
    3 => OptFloat(v),
    4 => Bool(v),
    5 => Ints(v),
    6 => Floats(v),
    7 => Extents(v),
    8 => Type(v),
    9 => OptType(v),
    10 => Round(v),
    11 => Text(v),
    12 => Data(v),
});
