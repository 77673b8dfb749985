//! The table of the demonstration, and the results of a model on it, computed without a query engine.

use crate::command_error::CommandError;
use bb::ir::graph::{Dim, ValueType};
use bb::{CompileOptions, DataType, ErasedExecutable, Module, Port, TensorData};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch,
};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Int64Type, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The rows of a row group, and of a run of the model.
const GROUP: usize = 1 << 15;

/// Returns element `index` of all points: one of 2^24 numbers from -4 to 4, by SplitMix64.
fn element(index: u64) -> f32 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // 24 bits have an exact float.
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
    let unit = ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32;
    unit * 8.0 - 4.0
}

/// Returns the elements of some points.
fn elements(start: usize, rows: usize, width: usize) -> Vec<f32> {
    (start * width..(start + rows) * width).map(|index| element(index as u64)).collect()
}

/// Writes a table `id, x` with points of `width` numbers, row group by row group. Returns the bytes of the columns in memory.
pub(crate) fn write(path: &Path, rows: usize, width: usize) -> Result<usize, CommandError> {
    let size = i32::try_from(width)?;
    let item = Arc::new(Field::new("item", ArrowType::Float32, true));
    let metadata = HashMap::from([
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), format!("{{\"shape\":[{width}]}}")),
    ]);
    let x = Field::new("x", ArrowType::FixedSizeList(item.clone(), size), false).with_metadata(metadata);
    let schema = Arc::new(Schema::new(vec![Field::new("id", ArrowType::Int64, false), x]));
    // Random numbers repeat too seldom for a dictionary.
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = std::fs::File::create(path)?;
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))?;
    let mut bytes = 0;
    for start in (0..rows).step_by(GROUP) {
        let now = GROUP.min(rows - start);
        let ids = (start..start + now).map(i64::try_from).collect::<Result<Vec<_>, _>>()?;
        let values: ArrayRef = Arc::new(Float32Array::from(elements(start, now, width)));
        let x = FixedSizeListArray::try_new(item.clone(), size, values, None)?;
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(ids)), Arc::new(x)])?;
        bytes += batch.get_array_memory_size();
        writer.write(&batch)?;
        writer.flush()?;
    }
    writer.close()?;
    Ok(bytes)
}

/// A model of points, run by a backend without an engine of queries.
pub(crate) struct PointModel {
    executable: Arc<dyn ErasedExecutable>,
    on: bb::BackendHandle,
    /// The numbers of a point.
    pub(crate) width: usize,
}

impl PointModel {
    /// Loads a model with one input `[rows, width]` of `f32`, whose outputs are tensors of numbers.
    pub(crate) fn load(path: &Path, backend: &str) -> Result<PointModel, CommandError> {
        let on = bb::backend(backend)?;
        let executable = on.compile(Module::load(path)?, &CompileOptions::default())?;
        let width = match executable.inputs() {
            [Port { ty: ValueType::Tensor { dtype: DataType::F32, shape: Some(dims) }, .. }] => {
                match dims.as_slice() {
                    [_, Dim::Known(width)] => Some(*width),
                    _ => None,
                }
            }
            _ => None,
        };
        let width = width.ok_or("the demonstration needs a model with one input [rows, NUMBER] of f32")?;
        Ok(PointModel { executable, on, width })
    }

    /// Runs the model on all points of a table. Returns the results and the time of the runs.
    pub(crate) fn expect(&self, rows: usize) -> Result<(Expected, Duration), CommandError> {
        let mut took = Duration::ZERO;
        let mut outputs: Vec<(usize, Vec<u8>)> =
            self.executable.outputs().iter().map(|_| (0, Vec::new())).collect();
        for start in (0..rows).step_by(GROUP) {
            let now = GROUP.min(rows - start);
            let x = self.on.tensor(&[now, self.width], &elements(start, now, self.width))?;
            let begin = Instant::now();
            let results = self.executable.run(&[Some(&x)])?;
            took += begin.elapsed();
            for (all, result) in outputs.iter_mut().zip(results) {
                let result: TensorData = self.on.to_host(&result)?;
                all.0 = result.byte_len() / now;
                all.1.extend_from_slice(result.unaligned_bytes()?);
            }
        }
        Ok((Expected { rows, outputs }, took))
    }
}

/// The bytes of one row of each output, and of all rows.
pub(crate) struct Expected {
    rows: usize,
    outputs: Vec<(usize, Vec<u8>)>,
}

/// Comparison of a query's results with the expected results.
pub(crate) struct Comparison<'a> {
    expected: &'a Expected,
    seen: Vec<bool>,
    /// The rows by the process that computed them.
    pub(crate) by_process: BTreeMap<i64, usize>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn with(expected: &'a Expected) -> Comparison<'a> {
        Comparison { expected, seen: vec![false; expected.rows], by_process: BTreeMap::new() }
    }

    /// Compares a batch with the columns `id`, `y`, and the id of the process.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        let [ids, y, processes] = batch.columns() else { return Err("expected three columns".into()) };
        let ids: &ScalarBuffer<i64> = ids.as_primitive::<Int64Type>().values();
        let columns = y.as_struct_opt().map_or_else(|| vec![y.clone()], |y| y.columns().to_vec());
        let columns: Vec<Vec<u8>> = columns.iter().map(bytes).collect();
        for (row, id) in ids.iter().enumerate() {
            let index = usize::try_from(*id)?;
            match self.seen.get_mut(index) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(format!("row {id} is there twice or should not be there").into()),
            }
            for ((size, expected), got) in self.expected.outputs.iter().zip(&columns) {
                if expected.get(index * size..(index + 1) * size) != got.get(row * size..(row + 1) * size) {
                    return Err(format!("row {id} differs from what the backend computes").into());
                }
            }
        }
        for process in processes.as_primitive::<Int64Type>().values() {
            *self.by_process.entry(*process).or_default() += 1;
        }
        Ok(())
    }

    /// Refuses a result with missing rows.
    pub(crate) fn finish(&self) -> Result<(), CommandError> {
        match self.seen.iter().filter(|seen| !**seen).count() {
            0 => Ok(()),
            missing => Err(format!("{missing} rows are missing").into()),
        }
    }
}

/// Returns the elements of a column of numbers, or of lists of them.
fn bytes(array: &ArrayRef) -> Vec<u8> {
    let array = array.as_fixed_size_list_opt().map_or_else(|| array.clone(), |list| list.values().clone());
    let data = array.to_data();
    let size = array.data_type().primitive_width().unwrap_or_default();
    let all = data.buffers().first().map_or(&[] as &[u8], |buffer| buffer.as_slice());
    all.get(data.offset() * size..(data.offset() + data.len()) * size).unwrap_or_default().to_vec()
}
