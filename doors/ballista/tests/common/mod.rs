//! Small models, tables, and sessions.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part")]

use bb::DataType;
use bb::ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, attribute_proto, tensor_shape_proto, type_proto,
};
use bb_ballista::{RunSettings, Stores, session};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use prost::Message;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the path of a model file in the repository.
pub fn committed(name: &str) -> String {
    case(name).join("model.onnx").to_str().unwrap().to_owned()
}

/// Returns the folder of a model in the repository.
pub fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models").join(name)
}

/// Reads a tensor that ONNX Runtime computed: its shape, and its elements as bytes.
pub fn stored(model: &str, file: &str) -> (Vec<usize>, Vec<u8>) {
    let bytes = std::fs::read(case(model).join("test_data_set_0").join(file)).unwrap();
    let tensor = TensorProto::decode(bytes.as_slice()).unwrap();
    let raw = tensor.raw_data.clone().map(|raw| raw.to_vec()).filter(|raw| !raw.is_empty());
    let elements = raw.unwrap_or_else(|| {
        let floats = tensor.float_data.iter().flat_map(|x| x.to_le_bytes());
        let integers = tensor.int64_data.iter().flat_map(|x| x.to_le_bytes());
        floats.chain(integers).collect()
    });
    (tensor.dims.iter().map(|n| usize::try_from(*n).unwrap()).collect(), elements)
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

pub fn integers(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks(8).map(|x| i64::from_le_bytes(x.try_into().unwrap())).collect()
}

/// Writes a model to a new file. Returns the path.
pub fn made(name: &str, model: &ModelProto) -> String {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{}-{number}-{name}.onnx", std::process::id()));
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns an extent: a number, or a symbolic dimension if the text begins with a letter.
pub fn tensor(name: &str, dtype: DataType, extents: &[&str]) -> ValueInfoProto {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let dim = |text: &&str| {
        let value = text.parse().map(Value::DimValue).unwrap_or(Value::DimParam((*text).to_owned()));
        Dimension { value: Some(value), denotation: None }
    };
    let shape = TensorShapeProto { dim: extents.iter().map(dim).collect() };
    let value = type_proto::Tensor { elem_type: Some(dtype.to_onnx()), shape: Some(shape) };
    let r#type = TypeProto { value: Some(type_proto::Value::TensorType(value)), ..Default::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(r#type), ..Default::default() }
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (input, output) = (names(inputs), names(outputs));
    NodeProto { op_type: Some(op.to_owned()), input, output, attribute, ..Default::default() }
}

pub fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let r#type = Some(attribute_proto::AttributeType::Ints.into());
    AttributeProto { name: Some(name.to_owned()), ints: ints.to_vec(), r#type, ..Default::default() }
}

pub fn model(input: Vec<ValueInfoProto>, node: Vec<NodeProto>, output: Vec<ValueInfoProto>) -> ModelProto {
    let graph = GraphProto { name: Some("g".to_owned()), input, node, output, ..Default::default() };
    let opset = OperatorSetIdProto { domain: None, version: Some(17) };
    ModelProto { ir_version: Some(8), opset_import: vec![opset], graph: Some(graph), ..Default::default() }
}

/// Creates a model that returns its input.
pub fn identity(dtype: DataType, extents: &[&str]) -> ModelProto {
    let x = tensor("x", dtype, extents);
    model(vec![x], vec![node("Identity", &["x"], &["y"], vec![])], vec![tensor("y", dtype, extents)])
}

/// Creates a model that returns the sum of each row of `width` floats, and each row times two.
pub fn sum_and_double(width: &str) -> ModelProto {
    let x = tensor("x", DataType::F32, &["n", width]);
    let outputs = vec![tensor("sum", DataType::F32, &["n"]), tensor("double", DataType::F32, &["n", width])];
    let keep = AttributeProto {
        name: Some("keepdims".to_owned()),
        i: Some(0),
        r#type: Some(attribute_proto::AttributeType::Int.into()),
        ..Default::default()
    };
    let axes = TensorProto {
        name: Some("axes".to_owned()),
        dims: vec![1],
        data_type: Some(DataType::I64.to_onnx()),
        int64_data: vec![1],
        ..Default::default()
    };
    let nodes = vec![
        node("ReduceSum", &["x", "axes"], &["sum"], vec![keep]),
        node("Add", &["x", "x"], &["double"], vec![]),
    ];
    let mut model = model(vec![x], nodes, outputs);
    model.graph.as_mut().unwrap().initializer.push(axes);
    model
}

/// Returns a session in one process.
pub fn context() -> (SessionContext, RunSettings) {
    let settings = RunSettings::new(Arc::new(Stores::default()));
    let config = session::config().with_target_partitions(2);
    (session::local(&settings, config, None).unwrap(), settings)
}

/// Creates a table from columns.
pub fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Returns a column without metadata.
pub fn column(name: &str, array: ArrayRef) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), true), array)
}

/// Runs a query on a table `t`, and returns all rows in one batch.
pub fn ask(context: &SessionContext, table: RecordBatch, sql: &str) -> Result<RecordBatch> {
    let (context, sql) = (context.clone(), sql.to_owned());
    wait(async move {
        context.deregister_table("t")?;
        context.register_batch("t", table)?;
        let frame = context.sql(&sql).await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await?;
        let joined = datafusion::arrow::compute::concat_batches(
            &batches.first().map_or(schema, |batch| batch.schema()),
            &batches,
        )?;
        Ok(joined)
    })
}

/// Waits on threads with a large stack, which planning needs in builds without optimization.
pub fn wait<T: Send + 'static>(of: impl Future<Output = T> + Send + 'static) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_stack_size(16 << 20).enable_all().build();
    let runtime = runtime.unwrap();
    runtime.block_on(async { tokio::spawn(of).await.unwrap() })
}

/// Returns the message of an error, with its causes.
pub fn refusal(context: &SessionContext, table: RecordBatch, sql: &str) -> String {
    ask(context, table, sql).unwrap_err().to_string()
}
