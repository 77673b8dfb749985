//! The SQL function that returns the process that computes a row.

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Returns the function `bb_process()`, whose result is the id of the process that computes the row. It serves for diagnosis.
pub fn bb_process() -> ScalarUDF {
    // The function is volatile, so that executors evaluate it instead of the planner.
    ScalarUDF::new_from_impl(ProcessFunction { signature: Signature::nullary(Volatility::Volatile) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ProcessFunction {
    signature: Signature,
}

impl ScalarUDFImpl for ProcessFunction {
    fn name(&self) -> &str {
        "bb_process"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = std::iter::repeat_n(i64::from(std::process::id()), args.number_rows);
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
        Ok(ColumnarValue::Array(rows))
    }
}
