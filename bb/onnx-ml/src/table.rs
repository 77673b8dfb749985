//! The table of the crate's operators, which the planner finds when the crate is linked.

use super::*;
use bb_core::__private::inventory;
use bb_core::operator::OperatorTable;
use bb_onnx::shared::operator_table;

operator_table! {
    ensemble,
    features,
    labels,
    linear,
    maps,
    svm,
}

inventory::submit! {
    OperatorTable { splits_rows: maps::splits_rows, ..OperatorTable::new(find, served) }
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn rows_begin_where_versions_do() {
        assert_eq!(TABLE.unversioned(), []);
    }
}
