//! Names of element types in the protocol.

use bb::DataType;

/// All element types of the protocol, with their names.
const NAMES: &[(DataType, &str)] = &[
    (DataType::Bool, "BOOL"),
    (DataType::U8, "UINT8"),
    (DataType::U16, "UINT16"),
    (DataType::U32, "UINT32"),
    (DataType::U64, "UINT64"),
    (DataType::I8, "INT8"),
    (DataType::I16, "INT16"),
    (DataType::I32, "INT32"),
    (DataType::I64, "INT64"),
    (DataType::F16, "FP16"),
    (DataType::F32, "FP32"),
    (DataType::F64, "FP64"),
    (DataType::BF16, "BF16"),
    (DataType::String, "BYTES"),
];

/// Returns the name of a type in the protocol, or `None` if the protocol does not have the type.
pub(crate) fn name(dtype: DataType) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == dtype).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_one_type() {
        let types: Vec<_> = DataType::ALL.iter().filter_map(|dtype| name(*dtype)).collect();
        assert_eq!(types.len(), NAMES.len());
        let distinct: std::collections::HashSet<_> = types.iter().collect();
        assert_eq!(distinct.len(), NAMES.len());
        assert_eq!(name(DataType::C64), None);
    }
}
