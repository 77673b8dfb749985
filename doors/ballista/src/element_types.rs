//! Maps element types to Arrow types.

use bb::DataType;
use datafusion::arrow::datatypes::DataType as ArrowType;

/// All element types that Arrow has, with their Arrow types.
const TYPES: &[(DataType, ArrowType)] = &[
    (DataType::Bool, ArrowType::Boolean),
    (DataType::U8, ArrowType::UInt8),
    (DataType::U16, ArrowType::UInt16),
    (DataType::U32, ArrowType::UInt32),
    (DataType::U64, ArrowType::UInt64),
    (DataType::I8, ArrowType::Int8),
    (DataType::I16, ArrowType::Int16),
    (DataType::I32, ArrowType::Int32),
    (DataType::I64, ArrowType::Int64),
    (DataType::F16, ArrowType::Float16),
    (DataType::F32, ArrowType::Float32),
    (DataType::F64, ArrowType::Float64),
    (DataType::String, ArrowType::Utf8),
];

/// Returns the Arrow type of an element type, or `None` if Arrow does not have it.
pub(crate) fn arrow(dtype: DataType) -> Option<&'static ArrowType> {
    TYPES.iter().find(|(known, _)| *known == dtype).map(|(_, arrow)| arrow)
}

/// Returns whether a column has the same element type as a tensor of `dtype`.
pub(crate) fn same_elements(dtype: DataType, arrow_type: &ArrowType) -> bool {
    match arrow_type {
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => dtype == DataType::String,
        other => arrow(dtype) == Some(other),
    }
}
