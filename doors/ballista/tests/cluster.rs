//! Tests clusters of processes on this machine.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use bb::DataType;
use bb_ballista::{RunSettings, Stores, cluster, session};
use common::{committed, identity, made, tensor, wait};
use datafusion::arrow::array::{
    ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Float64Type, Int64Type, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum time of a query.
const QUERY: Duration = Duration::from_secs(180);

/// A child process that is killed when this is dropped.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn spawn(args: &[&str]) -> (Owned, String) {
    let program = env!("CARGO_BIN_EXE_bb-ballista");
    let mut command = Command::new(program);
    command.args(args).arg("--until-input-ends");
    let mut process = Owned(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (process, line.trim().to_owned())
}

/// A scheduler and executors, each with a separate folder.
struct Cluster {
    executors: Vec<(Owned, tempfile::TempDir)>,
    address: String,
    _scheduler: Owned,
}

impl Cluster {
    fn start(executors: usize, options: &[&str]) -> Cluster {
        let (scheduler, said) = spawn(&["scheduler", "--listen", "127.0.0.1:0", "--executor-timeout", "4"]);
        let address = said.strip_prefix("scheduler ").unwrap().to_owned();
        let start = |_| {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let mut args = vec!["executor", "--scheduler", &address, "--slots", "1", "--threads", "1"];
            args.extend(["--heartbeat", "1", "--folder", folder.path().to_str().unwrap()]);
            args.extend(options);
            (spawn(&args).0, folder)
        };
        let executors = (0..executors).map(start).collect();
        Cluster { executors, address, _scheduler: scheduler }
    }

    /// Returns a client with a table `t`.
    fn client(&self, table: &Path, partitions: usize) -> SessionContext {
        let (url, table) = (format!("df://{}", self.address), table.to_str().unwrap().to_owned());
        wait(async move {
            let settings = RunSettings::new(Arc::new(Stores::default()));
            let config = session::cluster_config()
                .with_target_partitions(partitions)
                .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
            let context = cluster::client(&url, config, &settings).await.unwrap();
            context.register_parquet("t", &table, ParquetReadOptions::default()).await.unwrap();
            context
        })
    }

    fn ids(&self) -> BTreeSet<i64> {
        self.executors.iter().map(|(process, _)| i64::from(process.0.id())).collect()
    }

    /// Waits until all executors have computed rows.
    fn warm(&self, context: &SessionContext) {
        let start = Instant::now();
        while start.elapsed() < QUERY {
            let got = ask(context, "SELECT DISTINCT bb_process() AS p FROM t").unwrap();
            if got.column(0).as_primitive::<Int64Type>().values().iter().copied().collect::<BTreeSet<_>>()
                == self.ids()
            {
                return;
            }
        }
        panic!("not all executors came to work");
    }
}

/// Runs a query, and returns all rows in one batch.
fn ask(context: &SessionContext, sql: &str) -> Result<RecordBatch, String> {
    let (context, sql) = (context.clone(), sql.to_owned());
    wait(async move { asked(&context, &sql).await })
}

async fn asked(context: &SessionContext, sql: &str) -> Result<RecordBatch, String> {
    let query = async {
        let frame = context.sql(sql).await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await?;
        let schema = batches.first().map_or(schema, |batch| batch.schema());
        Ok::<_, datafusion::error::DataFusionError>(concat_batches(&schema, &batches)?)
    };
    let done = tokio::time::timeout(QUERY, query).await.map_err(|_| "the query takes too long".to_owned())?;
    done.map_err(|error| bb_ballista::reason(&error))
}

/// Sorts the rows by the first column, which contains each number from 0 on once.
fn ordered(batch: &RecordBatch) -> RecordBatch {
    let ids = batch.column(0).as_primitive::<Int64Type>().values();
    let mut order: Vec<u64> = (0..ids.len() as u64).collect();
    order.sort_by_key(|index| ids[usize::try_from(*index).unwrap()]);
    let sorted = take_record_batch(batch, &datafusion::arrow::array::UInt64Array::from(order)).unwrap();
    let expected: Vec<i64> = (0..).take(ids.len()).collect();
    assert_eq!(
        sorted.column(0).as_primitive::<Int64Type>().values(),
        &expected,
        "rows are missing or there twice"
    );
    sorted
}

/// Writes a table `id, x` with points of `width` numbers, row group by row group. The numbers are small integers, so that their sums are
/// exact in any order.
fn points(name: &str, rows: usize, width: usize) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}.parquet", std::process::id()));
    let item = Arc::new(Field::new("item", ArrowType::Float32, true));
    let list = ArrowType::FixedSizeList(item.clone(), i32::try_from(width).unwrap());
    let fields = vec![Field::new("id", ArrowType::Int64, false), Field::new("x", list, false)];
    let schema = Arc::new(Schema::new(fields));
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    let group = 5000;
    for start in (0..rows).step_by(group) {
        let ids: Vec<usize> = (start..rows.min(start + group)).collect();
        let numbers =
            ids.iter().flat_map(|id| (0..width).map(move |column| ((id * 31 + column * 7) % 100) as f32));
        let values: ArrayRef = Arc::new(Float32Array::from(numbers.collect::<Vec<_>>()));
        let x = FixedSizeListArray::new(item.clone(), i32::try_from(width).unwrap(), values, None);
        let ids = Int64Array::from(ids.iter().map(|id| i64::try_from(*id).unwrap()).collect::<Vec<_>>());
        writer
            .write(&RecordBatch::try_new(schema.clone(), vec![Arc::new(ids), Arc::new(x)]).unwrap())
            .unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    path
}

/// Runs a query on plain DataFusion in this process.
fn local(table: &Path, sql: &str) -> RecordBatch {
    let (context, _) = common::context();
    let (table, sql) = (table.to_str().unwrap().to_owned(), sql.to_owned());
    wait(async move {
        context.register_parquet("t", &table, ParquetReadOptions::default()).await.unwrap();
        asked(&context, &sql).await.unwrap()
    })
}

#[test]
fn two_executors_give_what_one_process_gives() {
    let table = points("two", 100_000, 12);
    let cluster = Cluster::start(2, &[]);
    let context = cluster.client(&table, 8);
    cluster.warm(&context);
    let model = committed("skl_random_forest");
    let sql = format!("SELECT id, bb_run('{model}', x) AS y FROM t");
    let with_process = format!("SELECT *, bb_process() AS p FROM ({sql})");
    let got = ordered(&ask(&context, &with_process).unwrap());
    let workers: BTreeSet<i64> = got.column(2).as_primitive::<Int64Type>().values().iter().copied().collect();
    assert_eq!(workers, cluster.ids());
    assert_eq!(got.project(&[0, 1]).unwrap().columns(), ordered(&local(&table, &sql)).columns());
    // Grouping needs a second stage. Its plans contain functions for lists and structs.
    let sql = format!(
        "SELECT y['label'] AS label, count(*) AS n, max(y['probabilities'][1]) AS p
         FROM ({sql}) GROUP BY y['label'] ORDER BY label"
    );
    assert_eq!(ask(&context, &sql).unwrap().columns(), local(&table, &sql).columns());
}

#[test]
fn every_kind_of_result_passes_between_processes() {
    let table = points("kinds", 20_000, 4);
    let cluster = Cluster::start(2, &[]);
    let context = cluster.client(&table, 4);
    let matrix = made("matrix", &identity(DataType::F32, &["n", "2", "2"]));
    let lists = made("lists", &identity(DataType::F32, &["n", "w"]));
    let texts = made("texts", &identity(DataType::String, &["n"]));
    for value in [
        format!("bb_run('{matrix}', x)"),
        format!("bb_run('{lists}', x)"),
        format!("bb_run('{texts}', concat('row ', id))"),
        format!("bb_run('{}', x)", committed("skl_ovo")),
    ] {
        let sql = format!("SELECT id, {value} AS y FROM t");
        let (got, expected) = (ask(&context, &sql).unwrap(), local(&table, &sql));
        assert_eq!(ordered(&got).columns(), ordered(&expected).columns(), "{value}");
    }
    let texts = ask(&context, &format!("SELECT bb_run('{texts}', 'a') AS y FROM t LIMIT 1")).unwrap();
    assert_eq!(texts.column(0).as_string_opt::<i32>(), Some(&StringArray::from(vec!["a"])));
    // The command writes the shape of a tensor to the file.
    let output =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-kinds-out.parquet", std::process::id()));
    let program = env!("CARGO_BIN_EXE_bb-ballista");
    let sql = format!("SELECT id, bb_run('{matrix}', x) AS y FROM t");
    let table = format!("t={}", table.display());
    let args = ["query", "--scheduler", &cluster.address, &sql, "--table", &table, "--output"];
    let done = Command::new(program).args(args).arg(&output).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let written = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&output).unwrap()).unwrap();
    let metadata = written.schema().field(1).metadata().clone();
    assert_eq!(metadata.get("ARROW:extension:metadata").map(String::as_str), Some(r#"{"shape":[2,2]}"#));
    let rows: usize = written.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 20_000);
}

/// Creates a model that sums each number 20000 times, which takes a long time.
fn slow() -> String {
    let constant = |name: &str, dims: &[i64], values: &[i64]| bb::ir::proto::TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::I64.to_onnx()),
        int64_data: values.to_vec(),
        ..Default::default()
    };
    let nodes = vec![
        common::node("Expand", &["x", "wide"], &["many"], vec![]),
        common::node("ReduceSum", &["many", "axes"], &["y"], vec![]),
    ];
    let x = tensor("x", DataType::F32, &["n", "1"]);
    let mut model = common::model(vec![x], nodes, vec![tensor("y", DataType::F32, &["n", "1"])]);
    let constants = [constant("wide", &[2], &[1, 20_000]), constant("axes", &[1], &[1])];
    model.graph.as_mut().unwrap().initializer.extend(constants);
    made("slow", &model)
}

#[test]
fn a_query_survives_an_executor() {
    let rows = 60_000;
    let table = points("killed", rows, 1);
    let mut cluster = Cluster::start(2, &[]);
    let context = cluster.client(&table, 12);
    cluster.warm(&context);
    let sql = format!("SELECT id, bb_run('{}#batch=100', x)[1] AS y, bb_process() AS p FROM t", slow());
    let query = {
        let (context, sql) = (context.clone(), sql.clone());
        std::thread::spawn(move || ask(&context, &sql))
    };
    // A new file in the executor's folder shows that the executor has finished a task and works on the next one.
    let (mut victim, folder) = cluster.executors.remove(0);
    let before = files(folder.path());
    let start = Instant::now();
    while files(folder.path()) <= before {
        assert!(start.elapsed() < QUERY && !query.is_finished(), "the executor did nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!query.is_finished());
    // SIGKILL, so the process cannot shut down properly.
    victim.0.kill().unwrap();
    victim.0.wait().unwrap();
    // Its results are deleted, too.
    drop(folder);
    let killed = Instant::now();
    let got = ordered(&query.join().unwrap().unwrap());
    println!("complete {:.1} s after the executor was killed", killed.elapsed().as_secs_f64());
    let expected: Vec<f32> = (0..rows).map(|id| ((id * 31) % 100) as f32 * 20_000.0).collect();
    assert_eq!(got.num_rows(), rows);
    assert_eq!(got.column(1).as_primitive::<datafusion::arrow::datatypes::Float32Type>().values(), &expected);
    // The remaining executor computed all results, because the others were lost.
    let workers: BTreeSet<i64> = got.column(2).as_primitive::<Int64Type>().values().iter().copied().collect();
    assert_eq!(workers, cluster.ids());
}

/// Returns the number of files below a folder.
fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_an_executor_is_bounded_by_batches_and_not_by_the_table() {
    let (rows, width) = (1_500_000, 64);
    let table = points("large", rows, width);
    let cluster = Cluster::start(1, &["--memory", "67108864"]);
    let context = cluster.client(&table, 4);
    let model = made("sums", &common::sum_and_double("64"));
    let sql = format!("SELECT count(*), sum(CAST(bb_run('{model}', x)['sum'] AS DOUBLE)) FROM t");
    let got = ask(&context, &sql).unwrap();
    assert_eq!(got.column(0).as_primitive::<Int64Type>().value(0), i64::try_from(rows).unwrap());
    let sum: usize =
        (0..rows).map(|id| (0..width).map(|column| (id * 31 + column * 7) % 100).sum::<usize>()).sum();
    assert_eq!(got.column(1).as_primitive::<Float64Type>().value(0), sum as f64);
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.executors[0].0.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: usize = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    let (peak, table) = (peak / 1024, rows * (8 + 4 * width) / (1 << 20));
    println!("a table of {table} MiB, an executor of at most {peak} MiB");
    assert!(peak < table / 2, "a table of {table} MiB, an executor of {peak} MiB");
}

#[test]
fn an_executor_refuses_a_model_that_is_not_the_planned_one() {
    let table = points("planned", 1000, 2);
    let cluster = Cluster::start(1, &[]);
    let context = cluster.client(&table, 2);
    cluster.warm(&context);
    let model = made("planned", &identity(DataType::F32, &["n", "2"]));
    let other = made("other", &identity(DataType::F32, &["n", "w"]));
    let sql = format!("SELECT bb_run('{model}', x) AS y FROM t");
    // The client has read the first model, and adds its hash to the plan.
    let message = wait(async move {
        let frame = context.sql(&sql).await.unwrap();
        let (state, plan) = frame.into_parts();
        let planned = state.optimize(&plan).unwrap();
        let first = bb_ballista::ModelHash::of(&std::fs::read(&model).unwrap());
        std::fs::copy(&other, &model).unwrap();
        let second = bb_ballista::ModelHash::of(&std::fs::read(&model).unwrap());
        let frame = datafusion::dataframe::DataFrame::new(state, planned);
        let error = tokio::time::timeout(QUERY, frame.collect()).await.unwrap().unwrap_err().to_string();
        assert!(error.contains(&first.to_string()) && error.contains(&second.to_string()), "{error}");
        error
    });
    assert!(message.contains("has the SHA-256 hash"), "{message}");
}

/// Serves one file over HTTP for a limited number of requests. Returns its address.
#[cfg(feature = "http")]
fn served(file: Vec<u8>) -> String {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(1000) {
            let Ok(mut stream) = stream else { continue };
            let mut request = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while lines.read_line(&mut request).is_ok_and(|n| n > 2) {}
            let found = request.contains(" /models/sums.onnx ");
            let (status, body) =
                if found { ("200 OK", file.as_slice()) } else { ("404 Not Found", &[] as &[u8]) };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"one\"\r\n\
                 Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let body = if request.starts_with("HEAD") { &[] } else { body };
            // The client may have closed the connection.
            let _sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    format!("http://{address}/models")
}

#[cfg(feature = "http")]
#[test]
fn all_processes_fetch_a_model_by_its_url() {
    let table = points("fetched", 20_000, 4);
    let file = std::fs::read(made("fetched", &common::sum_and_double("4"))).unwrap();
    let url = served(file);
    let cluster = Cluster::start(2, &[]);
    let context = cluster.client(&table, 4);
    let sql = format!("SELECT id, bb_run('{url}/sums.onnx', x)['sum'] AS y FROM t");
    let got = ordered(&ask(&context, &sql).unwrap());
    let expected: Vec<f32> =
        (0..20_000).map(|id| (0..4).map(|column| ((id * 31 + column * 7) % 100) as f32).sum()).collect();
    assert_eq!(got.column(1).as_primitive::<datafusion::arrow::datatypes::Float32Type>().values(), &expected);
    let message = ask(&context, &format!("SELECT bb_run('{url}/none.onnx', x) AS y FROM t")).unwrap_err();
    assert!(message.contains("cannot fetch the model") && message.contains("none.onnx"), "{message}");
}

#[test]
fn what_an_executor_refuses_reaches_the_client() {
    let table = points("refused", 1000, 2);
    let cluster = Cluster::start(1, &[]);
    let context = cluster.client(&table, 2);
    let model = made("refused", &identity(DataType::F32, &["n"]));
    // The null occurs only where the model runs.
    let sql = format!("SELECT bb_run('{model}', CASE WHEN id = 7 THEN NULL ELSE x[1] END) AS y FROM t");
    let message = ask(&context, &sql).unwrap_err();
    let expected = "a task of the query failed: the column for the input `x` is null in row 7 of a batch; filter nulls or write \
                    coalesce(…)";
    assert_eq!(message, expected);
    // Checks an error that is not from a model, too.
    let message = ask(&context, "SELECT 1 / (id - 7) AS y FROM t").unwrap_err();
    assert_eq!(message.to_lowercase(), "a task of the query failed: divide by zero");
}

#[cfg(unix)]
#[test]
fn a_scheduler_that_is_told_to_end_ends_without_an_error() {
    let (mut scheduler, _) = spawn(&["scheduler", "--listen", "127.0.0.1:0"]);
    let id = scheduler.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(scheduler.0.wait().unwrap().code(), Some(0));
}
