//! Converts the results of runs to columns. The elements of a batch are copied once, or not at all if one run computed all of them.

use crate::element_types;
use crate::error::Error;
use crate::model::{Form, Output, shape_text};
use crate::types;
use bb::ir::graph::Dim;
use bb::{DataType, TensorData};
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, ListArray, MapArray, StringBuilder, StructArray,
    make_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::arrow::error::ArrowError;
use std::sync::Arc;

/// The results of all runs of one batch, for one output.
pub(crate) struct Results<'a> {
    output: &'a Output,
    /// The number of rows of the batch.
    rows: usize,
    /// The maximum size of the results in bytes, and their current size.
    most: usize,
    bytes: usize,
    chunks: Vec<TensorData>,
    /// The keys of maps. The values are in `chunks`.
    keys: Vec<TensorData>,
}

impl<'a> Results<'a> {
    pub(crate) fn new(output: &'a Output, rows: usize, most: usize) -> Results<'a> {
        Results { output, rows, most, bytes: 0, chunks: Vec::new(), keys: Vec::new() }
    }

    /// Adds the tensor that a run computed for several rows.
    pub(crate) fn push(&mut self, rows: usize, result: TensorData) -> Result<(), Error> {
        let Form::Tensor { dtype, row } = &self.output.form else {
            return Err(self.unlike("maps", rows, "a tensor".to_owned()));
        };
        let fits = result.dtype() == *dtype
            && result.shape().first() == Some(&rows)
            && result.shape().len() == row.len() + 1
            && row.iter().zip(result.shape().iter().skip(1)).all(|(dim, got)| match dim {
                Dim::Known(expected) => expected == got,
                Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => true,
            });
        if !fits {
            let expected = format!("{dtype} with rows of shape {}", shape_text(Some(row)));
            return Err(self.unlike(&expected, rows, format!("{} {:?}", result.dtype(), result.shape())));
        }
        self.count(result.byte_len())?;
        self.chunks.push(result);
        Ok(())
    }

    /// Adds the map of one row.
    pub(crate) fn push_map(&mut self, keys: TensorData, values: TensorData) -> Result<(), Error> {
        let Form::Maps { key, value } = &self.output.form else {
            return Err(self.unlike("a tensor", 1, "a map".to_owned()));
        };
        if keys.dtype() != *key || values.dtype() != *value || keys.len() != values.len() {
            let (expected, got) = (
                format!("maps from {key} to {value}"),
                format!(
                    "a map from {} {:?} to {} {:?}",
                    keys.dtype(),
                    keys.shape(),
                    values.dtype(),
                    values.shape()
                ),
            );
            return Err(self.unlike(&expected, 1, got));
        }
        self.count(keys.byte_len().saturating_add(values.byte_len()))?;
        self.keys.push(keys);
        self.chunks.push(values);
        Ok(())
    }

    /// Returns the error for a result that does not match the model's output.
    pub(crate) fn unlike(&self, expected: &str, rows: usize, got: String) -> Error {
        Error::Output { output: self.output.name.clone(), expected: expected.to_owned(), rows, got }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.most { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> Error {
        Error::ResultSize { output: self.output.name.clone(), rows: self.rows, most: self.most }
    }

    /// Builds the column of all rows.
    pub(crate) fn finish(self) -> Result<ArrayRef, Error> {
        let failed = |source| Error::Arrow { output: self.output.name.clone(), source };
        let field = types::output_field("", self.output);
        match &self.output.form {
            Form::Maps { key, value } => {
                let lengths = self.keys.iter().map(TensorData::len);
                let offsets = offsets(lengths).ok_or_else(|| self.too_large())?;
                let keys = joined(*key, &self.keys).map_err(failed)?;
                let values = joined(*value, &self.chunks).map_err(failed)?;
                let entries = types::entries(keys.data_type(), values.data_type());
                let entries = StructArray::try_new(entries, vec![keys, values], None).map_err(failed)?;
                let ArrowType::Map(entry, sorted) = field.data_type() else {
                    return Err(self.unlike("maps", self.rows, field.data_type().to_string()));
                };
                let maps = MapArray::try_new(entry.clone(), offsets, entries, None, *sorted);
                Ok(Arc::new(maps.map_err(failed)?))
            }
            Form::Tensor { dtype, row } => {
                let elements = joined(*dtype, &self.chunks).map_err(failed)?;
                if row.is_empty() {
                    return Ok(elements);
                }
                if let ArrowType::FixedSizeList(item, size) = field.data_type() {
                    let list = FixedSizeListArray::try_new_with_length(
                        item.clone(),
                        *size,
                        elements,
                        None,
                        self.rows,
                    );
                    return Ok(Arc::new(list.map_err(failed)?));
                }
                // Builds the lists from the innermost to the outermost.
                let mut array = elements;
                for level in (0..row.len()).rev() {
                    let lists = self.chunks.iter().flat_map(|chunk| {
                        let before = chunk.shape().iter().take(level + 1).product();
                        std::iter::repeat_n(chunk.shape().get(level + 1).copied().unwrap_or_default(), before)
                    });
                    let offsets = offsets(lists).ok_or_else(|| self.too_large())?;
                    let item = types::item(array.data_type().clone());
                    array = Arc::new(ListArray::try_new(item, offsets, array, None).map_err(failed)?);
                }
                Ok(array)
            }
        }
    }
}

/// Returns the offsets of lists with these lengths, or `None` if there are too many elements for `i32`.
fn offsets(lengths: impl Iterator<Item = usize>) -> Option<OffsetBuffer<i32>> {
    let (mut end, mut offsets) = (0i32, vec![0i32]);
    for length in lengths {
        end = end.checked_add(i32::try_from(length).ok()?)?;
        offsets.push(end);
    }
    Some(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// Concatenates the elements of all chunks into one array.
fn joined(dtype: DataType, chunks: &[TensorData]) -> Result<ArrayRef, ArrowError> {
    let unknown = || ArrowError::NotYetImplemented(format!("elements of the type {dtype}"));
    let arrow = element_types::arrow(dtype).ok_or_else(unknown)?;
    let damaged = |error: bb::ir::Error| ArrowError::ExternalError(Box::new(error));
    let elements: usize = chunks.iter().map(TensorData::len).sum();
    match dtype {
        DataType::String => {
            let bytes = chunks.iter().map(TensorData::byte_len).sum();
            if i32::try_from(bytes).is_err() {
                return Err(ArrowError::OffsetOverflowError(bytes));
            }
            let mut texts = StringBuilder::with_capacity(elements, bytes);
            chunks.iter().flat_map(TensorData::iter_str).for_each(|text| texts.append_value(text));
            Ok(Arc::new(texts.finish()))
        }
        DataType::Bool => {
            let chunks = chunks
                .iter()
                .map(TensorData::unaligned_bytes)
                .collect::<Result<Vec<_>, _>>()
                .map_err(damaged)?;
            let truths = chunks.into_iter().flatten().map(|byte| *byte != 0);
            Ok(Arc::new(BooleanArray::new(BooleanBuffer::from_iter(truths), None)))
        }
        _ => {
            let buffer = match chunks {
                [one] => {
                    let aligned = one.aligned().map_err(damaged)?;
                    Buffer::from(aligned.bytes().map_err(damaged)?.clone())
                }
                chunks => {
                    let bytes = chunks.iter().map(TensorData::byte_len).sum();
                    let mut all = MutableBuffer::with_capacity(bytes);
                    for chunk in chunks {
                        all.extend_from_slice(chunk.unaligned_bytes().map_err(damaged)?);
                    }
                    all.into()
                }
            };
            let data = datafusion::arrow::array::ArrayData::try_new(
                arrow.clone(),
                elements,
                None,
                0,
                vec![buffer],
                vec![],
            )?;
            Ok(make_array(data))
        }
    }
}
