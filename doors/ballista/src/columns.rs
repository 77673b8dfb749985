//! Converts the columns of a batch to tensors. Numbers are not copied.

use crate::element_types;
use crate::error::Error;
use crate::model::Input;
use crate::types::{self, EXTENSION, EXTENSION_METADATA, FIXED_SHAPE_TENSOR, Fit};
use bb::ir::StringsBuilder;
use bb::{DataType, RowInput, TensorData};
use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, LargeStringArray, OffsetSizeTrait, StringArray, StringViewArray,
};
use datafusion::arrow::buffer::{Buffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};

/// The elements of an input for all rows of a batch.
pub(crate) struct Column<'a> {
    input: &'a Input,
    /// The extents of one row.
    row: Vec<usize>,
    elements: ColumnData,
}

enum ColumnData {
    /// Numbers and booleans, in the memory layout of a tensor.
    Bytes(Bytes),
    /// Strings.
    Texts(ArrayRef),
    /// One value for all rows.
    Once(TensorData),
}

/// Memory of an Arrow buffer, which tensors borrow.
struct ArrowBytes(Buffer);

impl AsRef<[u8]> for ArrowBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl<'a> Column<'a> {
    /// Reads a literal for an input without a dimension for rows.
    pub(crate) fn once(input: &'a Input, array: &ArrayRef) -> Result<Column<'a>, Error> {
        let elements = elements(input, array, 1)?;
        let column = Column { input, row: Vec::new(), elements };
        let value = column.tensor(0, 1)?.reshaped(&[]).map_err(tensor(input))?;
        Ok(Column { input, row: Vec::new(), elements: ColumnData::Once(value) })
    }

    /// Reads a column, whose rows become the rows of the input.
    pub(crate) fn of(input: &'a Input, array: &ArrayRef, field: &Field) -> Result<Column<'a>, Error> {
        let (mut array, mut row) = (array.clone(), Vec::new());
        // The number of elements of `array` in one row.
        let mut inside = 1usize;
        loop {
            no_nulls(input, &array, inside)?;
            let (values, size) = match array.data_type() {
                ArrowType::FixedSizeList(_, size) => {
                    let list = array.as_fixed_size_list();
                    // Arrow has checked that the size is not negative.
                    let size = usize::try_from(*size).unwrap_or_default();
                    (list.values().clone(), size)
                }
                ArrowType::List(_) => {
                    let list = array.as_list::<i32>();
                    equal_lists(input, list.offsets(), list.values(), inside)?
                }
                ArrowType::LargeList(_) => {
                    let list = array.as_list::<i64>();
                    equal_lists(input, list.offsets(), list.values(), inside)?
                }
                _ => break,
            };
            row.push(size);
            inside = inside.saturating_mul(size);
            array = values;
        }
        if let [size] = row.as_slice()
            && let Some(shape) = tensor_shape(input, field, *size)?
        {
            row = shape;
        }
        let known: Vec<Option<usize>> = row.iter().copied().map(Some).collect();
        match types::fit(input, &known) {
            Some(Fit::Same) => {}
            Some(Fit::Ones(rank)) => row = vec![1; rank],
            Some(Fit::Unflattened(extents)) => row = extents,
            None => return Err(types::shape_error(input, known)),
        }
        let elements = elements(input, &array, inside)?;
        Ok(Column { input, row, elements })
    }

    /// Returns the approximate size of one row in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        element_bytes(self.input.dtype).saturating_mul(self.inside())
    }

    /// Returns the structure of the input for the proof that rows are independent.
    pub(crate) fn row_input(&self) -> RowInput {
        match &self.elements {
            ColumnData::Once(value) => RowInput::Shared(value.shape().to_vec()),
            _ => RowInput::Rows(self.row.clone()),
        }
    }

    /// Returns the number of elements of one row.
    fn inside(&self) -> usize {
        self.row.iter().fold(1usize, |n, extent| n.saturating_mul(*extent))
    }

    /// Returns a range of rows as a tensor.
    pub(crate) fn tensor(&self, start: usize, rows: usize) -> Result<TensorData, Error> {
        let inside = self.inside();
        let shape: Vec<usize> = std::iter::once(rows).chain(self.row.iter().copied()).collect();
        let made = match &self.elements {
            ColumnData::Once(value) => return Ok(value.clone()),
            ColumnData::Bytes(bytes) => {
                let size = inside * (self.input.dtype.bits() / 8);
                TensorData::adopt(self.input.dtype, &shape, bytes.slice(start * size..(start + rows) * size))
            }
            ColumnData::Texts(array) => texts(&array.slice(start * inside, rows * inside), &shape),
        };
        made.map_err(tensor(self.input))
    }
}

/// Returns the size of an element in bytes. For strings, this is an estimate.
pub(crate) fn element_bytes(dtype: DataType) -> usize {
    if dtype == DataType::String { 32 } else { dtype.bits().div_ceil(8) }
}

fn tensor(input: &Input) -> impl Fn(bb::ir::Error) -> Error {
    move |source| Error::Tensor { input: input.name.clone(), source }
}

/// Returns an error if a column contains nulls. `inside` is the number of elements of one row.
fn no_nulls(input: &Input, array: &ArrayRef, inside: usize) -> Result<(), Error> {
    let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(()) };
    let first = (0..nulls.len()).find(|index| nulls.is_null(*index)).unwrap_or_default();
    Err(Error::Null { input: input.name.clone(), row: first / inside.max(1) })
}

/// Returns the elements of lists, and their common length.
fn equal_lists<O: OffsetSizeTrait>(
    input: &Input,
    offsets: &OffsetBuffer<O>,
    values: &ArrayRef,
    inside: usize,
) -> Result<(ArrayRef, usize), Error> {
    let mut lengths = offsets.lengths().enumerate();
    let Some((_, expected)) = lengths.next() else { return Ok((values.slice(0, 0), 0)) };
    if let Some((index, got)) = lengths.find(|(_, length)| *length != expected) {
        return Err(Error::Ragged { input: input.name.clone(), row: index / inside.max(1), expected, got });
    }
    let start = offsets.first().map_or(0, |first| first.as_usize());
    Ok((values.slice(start, expected * (offsets.len() - 1)), expected))
}

/// Returns the shape of the lists that the metadata of a column declares.
fn tensor_shape(input: &Input, field: &Field, size: usize) -> Result<Option<Vec<usize>>, Error> {
    let metadata = field.metadata();
    if metadata.get(EXTENSION).is_none_or(|name| name != FIXED_SHAPE_TENSOR) {
        return Ok(None);
    }
    let text = metadata.get(EXTENSION_METADATA).map_or("", String::as_str);
    let refuse = || Error::TensorMetadata { input: input.name.clone(), metadata: text.to_owned(), size };
    let json: serde_json::Value = serde_json::from_str(text).map_err(|_| refuse())?;
    let list = |name: &str| -> Option<Vec<usize>> {
        let list = json.get(name)?.as_array()?.iter();
        list.map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect()
    };
    let shape = list("shape").ok_or_else(refuse)?;
    let elements = shape.iter().try_fold(1usize, |n, extent| n.checked_mul(*extent));
    // A permuted tensor stores its elements in an order that `bb` does not support.
    let permuted = json.get("permutation").is_some_and(|permutation| {
        !permutation.is_null() && list("permutation") != Some((0..shape.len()).collect())
    });
    if elements != Some(size) || permuted {
        return Err(refuse());
    }
    Ok(Some(shape))
}

/// Reads the elements of a column that has no lists.
fn elements(input: &Input, array: &ArrayRef, inside: usize) -> Result<ColumnData, Error> {
    no_nulls(input, array, inside)?;
    if !element_types::same_elements(input.dtype, array.data_type()) {
        // The types were checked when the query was planned. In a cluster, a batch may differ from the plan, so they are checked again.
        types::check_column(input, &Field::new("", array.data_type().clone(), true))?;
    }
    if let Some(truths) = array.as_any().downcast_ref::<BooleanArray>() {
        return Ok(ColumnData::Bytes(truths.values().iter().map(u8::from).collect::<Vec<_>>().into()));
    }
    if input.dtype == DataType::String {
        return Ok(ColumnData::Texts(array.clone()));
    }
    let data = array.to_data();
    let size = input.dtype.bits() / 8;
    let Some(buffer) = data.buffers().first() else { return Ok(ColumnData::Bytes(Bytes::new())) };
    let buffer = buffer.slice_with_length(data.offset() * size, data.len() * size);
    Ok(ColumnData::Bytes(Bytes::from_owner(ArrowBytes(buffer))))
}

fn texts(array: &ArrayRef, shape: &[usize]) -> Result<TensorData, bb::ir::Error> {
    let mut texts = StringsBuilder::with_room("reading texts", array.len())?;
    let any = array.as_any();
    // There are no nulls here, so `flatten` skips nothing.
    if let Some(array) = any.downcast_ref::<StringArray>() {
        array.iter().flatten().try_for_each(|text| texts.push(text))?;
    } else if let Some(array) = any.downcast_ref::<LargeStringArray>() {
        array.iter().flatten().try_for_each(|text| texts.push(text))?;
    } else if let Some(array) = any.downcast_ref::<StringViewArray>() {
        array.iter().flatten().try_for_each(|text| texts.push(text))?;
    }
    texts.finish(shape)
}
