//! Macros that select a Rust type for an element type that is known only at run time. For example, `numbers!("add", dtype, T => …)`
//! evaluates its last argument with `T` as the Rust type that stores elements of `dtype`.
//!
//! Each macro supports a set of element types. For a type outside this set, it returns an error with the names of the operation and
//! of the type.

/// Selects the Rust type from rows of the form `element types => Rust type`.
macro_rules! choose {
    ($op:expr, $dtype:expr, $T:ident => $body:expr, { $( $($variant:ident)|+ => $type:ty, )* }) => {
        match $dtype {
            $( $(bb::DataType::$variant)|+ => { type $T = $type; $body } )*
            dtype => Err(bb::ir::Error::Unsupported { op: $op, dtype }.into()),
        }
    };
}

/// Supports every element type, including storage types.
macro_rules! any {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        choose!($op, $dtype, $T => $body, {
            F16 => bb::f16, BF16 => bb::bf16, F32 => f32, F64 => f64,
            I8 => i8, I16 => i16, I32 => i32, I64 => i64,
            U8 => u8, U16 => u16, U32 => u32, U64 => u64,
            Bool => bool,
            String => std::sync::Arc<[u8]>,
            F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 | F6E2M3 | F6E3M2 | F4E2M1 => [u8; 1],
            U4 | I4 | U2 | I2 => [u8; 1],
            C64 => [u8; 8],
            C128 => [u8; 16],
        })
    };
}

/// Supports the floats and the integers.
macro_rules! numbers {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        choose!($op, $dtype, $T => $body, {
            F16 => bb::f16, BF16 => bb::bf16, F32 => f32, F64 => f64,
            I8 => i8, I16 => i16, I32 => i32, I64 => i64,
            U8 => u8, U16 => u16, U32 => u32, U64 => u64,
        })
    };
}

/// Supports the floats.
macro_rules! floats {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        choose!($op, $dtype, $T => $body, { F16 => bb::f16, BF16 => bb::bf16, F32 => f32, F64 => f64, })
    };
}

/// Supports the integers.
macro_rules! integers {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        choose!($op, $dtype, $T => $body, {
            I8 => i8, I16 => i16, I32 => i32, I64 => i64,
            U8 => u8, U16 => u16, U32 => u32, U64 => u64,
        })
    };
}

/// Supports the ordered types: the numbers, and bool with false below true.
macro_rules! ordered {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        choose!($op, $dtype, $T => $body, {
            F16 => bb::f16, BF16 => bb::bf16, F32 => f32, F64 => f64,
            I8 => i8, I16 => i16, I32 => i32, I64 => i64,
            U8 => u8, U16 => u16, U32 => u32, U64 => u64,
            Bool => bool,
        })
    };
}

/// Supports the types that `equal` compares: the compute types and strings.
macro_rules! equatable {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        choose!($op, $dtype, $T => $body, {
            F16 => bb::f16, BF16 => bb::bf16, F32 => f32, F64 => f64,
            I8 => i8, I16 => i16, I32 => i32, I64 => i64,
            U8 => u8, U16 => u16, U32 => u32, U64 => u64,
            Bool => bool,
            String => std::sync::Arc<[u8]>,
        })
    };
}
