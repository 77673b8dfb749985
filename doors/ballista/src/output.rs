//! Writes the results of queries as a table, CSV or Parquet.

use crate::command_error::CommandError;
use bb::ir::text::printable;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use futures::StreamExt as _;
use std::fs::File;
use std::path::Path;

/// Prints at most `most` rows as a table.
pub(crate) async fn print(mut stream: SendableRecordBatchStream, most: usize) -> Result<(), CommandError> {
    // Starts with an empty batch, so that the column names of an empty result are printed, too.
    let mut shown = vec![RecordBatch::new_empty(stream.schema())];
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let room = most.saturating_sub(rows).min(batch.num_rows());
        rows += batch.num_rows();
        // Copies the rows, because a slice would keep the whole batch in memory.
        if room > 0 {
            shown.push(datafusion::arrow::compute::concat_batches(&batch.schema(), &[batch.slice(0, room)])?);
        }
    }
    println!("{}", printable(&pretty_format_batches(&shown)?.to_string()));
    if rows > most {
        println!("{} more rows; --most-rows or --output shows them", rows - most);
    }
    Ok(())
}

/// Writes all rows to a file. The file appears only once it is complete.
pub(crate) async fn write(
    mut stream: SendableRecordBatchStream,
    schema: SchemaRef,
    path: &Path,
) -> Result<(), CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder)?;
    let mut to = OutputWriter::new(file.reopen()?, schema.clone(), path)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        // The cluster drops the columns' metadata, so the schema of the plan is set again.
        to.write(&RecordBatch::try_new(schema.clone(), batch.columns().to_vec())?)?;
    }
    to.finish()?;
    file.persist(path)?;
    println!("{rows} rows in {}", path.display());
    Ok(())
}

enum OutputWriter {
    Parquet(Box<ArrowWriter<File>>),
    Csv(Box<datafusion::arrow::csv::Writer<File>>),
}

impl OutputWriter {
    fn new(file: File, schema: SchemaRef, path: &Path) -> Result<OutputWriter, CommandError> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => Ok(OutputWriter::Parquet(Box::new(ArrowWriter::try_new(file, schema, None)?))),
            Some("csv") => Ok(OutputWriter::Csv(Box::new(datafusion::arrow::csv::Writer::new(file)))),
            _ => Err(format!("expected a file that ends in .parquet or .csv; got {}", path.display()).into()),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        match self {
            OutputWriter::Parquet(to) => Ok(to.write(batch)?),
            OutputWriter::Csv(to) => Ok(to.write(batch)?),
        }
    }

    fn finish(self) -> Result<(), CommandError> {
        if let OutputWriter::Parquet(to) = self {
            to.close()?;
        }
        Ok(())
    }
}
