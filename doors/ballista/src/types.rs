//! Converts element types and shapes to Arrow types.

use crate::element_types::{arrow, same_elements};
use crate::error::Error;
use crate::model::{Form, Input, Model, Output, shape_text};
use bb::ir::graph::Dim;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields};
use std::collections::HashMap;
use std::sync::Arc;

/// The metadata keys for the name and the metadata of an Arrow extension type.
pub(crate) const EXTENSION: &str = "ARROW:extension:name";
pub(crate) const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
/// The extension type of tensors that have the same shape in all rows.
pub(crate) const FIXED_SHAPE_TENSOR: &str = "arrow.fixed_shape_tensor";

/// Returns the field of the elements of a list.
pub(crate) fn item(of: ArrowType) -> FieldRef {
    // Uses the name and nullability of the lists in DataFusion's own functions, so that these accept the lists without a cast.
    Arc::new(Field::new("item", of, true))
}

/// Returns the number of elements of one row, if all its extents are known.
pub(crate) fn fixed_size(row: &[Dim]) -> Option<i32> {
    let mut size = 1usize;
    for dim in row {
        let Dim::Known(n) = dim else { return None };
        size = size.checked_mul(*n)?;
    }
    i32::try_from(size).ok()
}

/// Returns the fields of the entries of a map.
pub(crate) fn entries(key: &ArrowType, value: &ArrowType) -> Fields {
    Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)])
}

/// Returns the field of an output.
pub(crate) fn output_field(name: &str, output: &Output) -> Field {
    let null = ArrowType::Null;
    match &output.form {
        Form::Maps { key, value } => {
            let entries = entries(arrow(*key).unwrap_or(&null), arrow(*value).unwrap_or(&null));
            let entries = Arc::new(Field::new("entries", ArrowType::Struct(entries), false));
            Field::new(name, ArrowType::Map(entries, false), false)
        }
        Form::Tensor { dtype, row } => {
            let element = arrow(*dtype).unwrap_or(&null).clone();
            if row.is_empty() {
                return Field::new(name, element, false);
            }
            let Some(size) = fixed_size(row) else {
                let list = row.iter().fold(element, |inner, _| ArrowType::List(item(inner)));
                return Field::new(name, list, false);
            };
            let extents = row.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
            let metadata = HashMap::from([
                (EXTENSION.to_owned(), FIXED_SHAPE_TENSOR.to_owned()),
                (EXTENSION_METADATA.to_owned(), format!("{{\"shape\":[{extents}]}}")),
            ]);
            Field::new(name, ArrowType::FixedSizeList(item(element), size), false).with_metadata(metadata)
        }
    }
}

/// Returns the field of the result: the field of the only output, or a struct of all outputs.
pub(crate) fn result_field(name: &str, model: &Model) -> Field {
    match model.outputs.as_slice() {
        [output] => output_field(name, output),
        outputs => {
            let fields: Fields = outputs.iter().map(|output| output_field(&output.name, output)).collect();
            Field::new(name, ArrowType::Struct(fields), false)
        }
    }
}

/// Checks the type of a column against an input. Extents that the type does not determine are not checked.
pub(crate) fn check_column(input: &Input, field: &Field) -> Result<(), Error> {
    let mut of = field.data_type();
    let mut extents = Vec::new();
    loop {
        of = match of {
            ArrowType::FixedSizeList(inner, size) => {
                extents.push(usize::try_from(*size).ok());
                inner.data_type()
            }
            ArrowType::List(inner) | ArrowType::LargeList(inner) => {
                extents.push(None);
                inner.data_type()
            }
            _ => break,
        };
    }
    let fits_shape = input.is_scalar() && extents.is_empty() || fit(input, &extents).is_some();
    if !same_elements(input.dtype, of) {
        return Err(Error::Column {
            input: input.name.clone(),
            dtype: input.dtype,
            got: Box::new(field.data_type().clone()),
            cure: cure(input, extents.len()),
        });
    }
    if !fits_shape {
        return Err(shape_error(input, extents));
    }
    Ok(())
}

/// Returns an SQL expression that casts a column to the type that the input requires.
fn cure(input: &Input, depth: usize) -> String {
    let element = arrow(input.dtype).map(ArrowType::to_string).unwrap_or_default();
    let depth = input.row().map_or(depth, |row| if depth == 0 && row.len() == 1 { 0 } else { row.len() });
    let list = (0..depth).fold(element, |inner, _| format!("List({inner})"));
    format!("arrow_cast(column, '{list}')")
}

pub(crate) fn shape_error(input: &Input, got: Vec<Option<usize>>) -> Error {
    Error::Shape { input: input.name.clone(), expected: shape_text(input.row()), got }
}

/// The reshaping of a column's lists to rows of an input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The lists are not reshaped.
    Same,
    /// A single number becomes a row with this number of extents, all 1.
    Ones(usize),
    /// A flat list becomes a row with these extents.
    Unflattened(Vec<usize>),
}

/// Compares the known extents of a row of a column with the extents of an input row.
pub(crate) fn fit(input: &Input, got: &[Option<usize>]) -> Option<Fit> {
    let Some(row) = input.row() else { return Some(Fit::Same) };
    let agrees = |dim: &Dim, got: Option<usize>| match (dim, got) {
        (Dim::Known(expected), Some(got)) => *expected == got,
        _ => true,
    };
    if row.len() == got.len() && row.iter().zip(got).all(|(dim, got)| agrees(dim, *got)) {
        return Some(Fit::Same);
    }
    if got.is_empty() && row.iter().all(|dim| agrees(dim, Some(1))) {
        return Some(Fit::Ones(row.len()));
    }
    let known: Option<Vec<usize>> =
        row.iter().map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }).collect();
    match (got, known) {
        ([flat], Some(known)) if row.len() > 1 => {
            let size = known.iter().try_fold(1usize, |size, n| size.checked_mul(*n))?;
            flat.is_none_or(|flat| flat == size).then_some(Fit::Unflattened(known))
        }
        _ => None,
    }
}
