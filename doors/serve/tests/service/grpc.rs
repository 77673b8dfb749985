//! Tests the protocol over gRPC, with the client that is generated from the schema.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb::conformance::onnx::{compare, read_tensors, tolerance};
use bb::{TensorData, bf16, f16};
use bb_ir::DataType;
use bb_serve::Server;
use bb_serve::protocol::grpc_inference_service_client::GrpcInferenceServiceClient as Client;
use bb_serve::protocol::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use bb_serve::protocol::{
    InferParameter, InferTensorContents, ModelInferRequest, ModelMetadataRequest, ModelReadyRequest,
    RepositoryIndexRequest, ServerLiveRequest, ServerMetadataRequest, ServerReadyRequest,
};
use common::*;
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

fn run<T>(server: &Server, test: impl AsyncFnOnce(Client<Channel>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let to = format!("http://{}", server.grpc());
    runtime.block_on(async {
        let channel = Endpoint::from_shared(to).unwrap().connect().await.unwrap();
        test(Client::new(channel)).await
    })
}

fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..Default::default()
    }
}

fn request(model: &str, inputs: Vec<InferInputTensor>, raw: &[&[u8]]) -> ModelInferRequest {
    let raw_input_contents = raw.iter().map(|bytes| bytes.to_vec().into()).collect();
    ModelInferRequest { model_name: model.to_owned(), inputs, raw_input_contents, ..Default::default() }
}

#[test]
fn health_and_metadata() {
    let server = start(vec![committed("skl_random_forest"), made("double", &double())]);
    run(&server, async |mut client| {
        assert!(client.server_live(ServerLiveRequest {}).await.unwrap().into_inner().live);
        assert!(client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
        let ready = ModelReadyRequest { name: "double".to_owned(), version: "1".to_owned() };
        assert!(client.model_ready(ready).await.unwrap().into_inner().ready);
        let about = client.server_metadata(ServerMetadataRequest {}).await.unwrap().into_inner();
        let extensions =
            ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"];
        assert_eq!(about.extensions, extensions);
        let ask = ModelMetadataRequest { name: "double".to_owned(), version: String::new() };
        let model = client.model_metadata(ask).await.unwrap().into_inner();
        assert_eq!(
            (model.platform.as_str(), model.versions.as_slice()),
            ("bb_cpu", ["1".to_owned()].as_slice())
        );
        assert_eq!((model.inputs[0].name.as_str(), model.inputs[0].datatype.as_str()), ("x", "FP32"));
        assert_eq!(model.inputs[0].shape, [-1, -1]);
        let index = client.repository_index(RepositoryIndexRequest::default()).await.unwrap().into_inner();
        assert_eq!(index.models.len(), 2);
    });
}

/// The expected outputs are ONNX Runtime's, from files next to the models.
#[test]
fn outputs_are_those_of_onnx_runtime() {
    let names = ["skl_random_forest", "surfaces_gbr", "silero_vad_op16"];
    let server = start(names.iter().map(|name| committed(name)).collect());
    for name in names {
        let folder = case(name).join("test_data_set_0");
        let (inputs, expected) =
            (read_tensors(&folder, "input").unwrap(), read_tensors(&folder, "output").unwrap());
        run(&server, async |mut client| {
            let ask = ModelMetadataRequest { name: name.to_owned(), version: String::new() };
            let model = client.model_metadata(ask).await.unwrap().into_inner();
            let extent = |n: &usize| i64::try_from(*n).unwrap();
            let ports = model.inputs.iter().zip(&inputs).map(|(port, x)| {
                input(&port.name, &port.datatype, &x.shape().iter().map(extent).collect::<Vec<_>>())
            });
            let raw: Vec<&[u8]> = inputs.iter().map(|x| x.bytes().unwrap().as_ref()).collect();
            let ask = ModelInferRequest { id: "7".to_owned(), ..request(name, ports.collect(), &raw) };
            let answer = client.model_infer(ask).await.unwrap().into_inner();
            assert_eq!((answer.id.as_str(), answer.model_version.as_str()), ("7", "1"));
            let outputs = answer.outputs.iter().zip(answer.raw_output_contents);
            for ((output, raw), expected) in outputs.zip(&expected) {
                let shape: Vec<usize> = output.shape.iter().map(|n| usize::try_from(*n).unwrap()).collect();
                let got = TensorData::adopt(expected.dtype(), &shape, raw).unwrap();
                compare(expected, &got, tolerance(&case(name)).unwrap()).unwrap();
            }
        });
    }
}

#[test]
fn every_type_comes_and_goes_raw_and_in_lists() {
    let contents = InferTensorContents::default;
    let rows: Vec<(DataType, &str, Option<InferTensorContents>, Vec<u8>)> = vec![
        (
            DataType::Bool,
            "BOOL",
            Some(InferTensorContents { bool_contents: vec![true, false], ..contents() }),
            vec![1, 0],
        ),
        (
            DataType::U8,
            "UINT8",
            Some(InferTensorContents { uint_contents: vec![0, 255], ..contents() }),
            vec![0, 255],
        ),
        (
            DataType::U16,
            "UINT16",
            Some(InferTensorContents { uint_contents: vec![1, 65535], ..contents() }),
            [1u16.to_le_bytes(), u16::MAX.to_le_bytes()].concat(),
        ),
        (
            DataType::U32,
            "UINT32",
            Some(InferTensorContents { uint_contents: vec![1, u32::MAX], ..contents() }),
            [1u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat(),
        ),
        (
            DataType::U64,
            "UINT64",
            Some(InferTensorContents { uint64_contents: vec![1, u64::MAX], ..contents() }),
            [1u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat(),
        ),
        (
            DataType::I8,
            "INT8",
            Some(InferTensorContents { int_contents: vec![-128, 127], ..contents() }),
            vec![0x80, 0x7f],
        ),
        (
            DataType::I16,
            "INT16",
            Some(InferTensorContents { int_contents: vec![-2, 5], ..contents() }),
            [(-2i16).to_le_bytes(), 5i16.to_le_bytes()].concat(),
        ),
        (
            DataType::I32,
            "INT32",
            Some(InferTensorContents { int_contents: vec![-7, 9], ..contents() }),
            [(-7i32).to_le_bytes(), 9i32.to_le_bytes()].concat(),
        ),
        (
            DataType::I64,
            "INT64",
            Some(InferTensorContents { int64_contents: vec![i64::MIN, 5], ..contents() }),
            [i64::MIN.to_le_bytes(), 5i64.to_le_bytes()].concat(),
        ),
        (
            DataType::F32,
            "FP32",
            Some(InferTensorContents { fp32_contents: vec![0.1, f32::NEG_INFINITY], ..contents() }),
            [0.1f32.to_le_bytes(), f32::NEG_INFINITY.to_le_bytes()].concat(),
        ),
        (
            DataType::F64,
            "FP64",
            Some(InferTensorContents { fp64_contents: vec![0.1, -1e300], ..contents() }),
            [0.1f64.to_le_bytes(), (-1e300f64).to_le_bytes()].concat(),
        ),
        (
            DataType::String,
            "BYTES",
            Some(InferTensorContents { bytes_contents: vec!["".into(), "ä".into()], ..contents() }),
            [[0, 0, 0, 0, 2, 0, 0, 0].as_slice(), "ä".as_bytes()].concat(),
        ),
        (DataType::F16, "FP16", None, [f16::from_f32(0.5).to_le_bytes(), f16::MIN.to_le_bytes()].concat()),
        (
            DataType::BF16,
            "BF16",
            None,
            [bf16::from_f32(0.5).to_le_bytes(), bf16::from_f32(-2.0).to_le_bytes()].concat(),
        ),
    ];
    let server = start(rows.iter().map(|(dtype, name, ..)| made(name, &identity(*dtype))).collect());
    run(&server, async |mut client| {
        for (_, name, contents, bytes) in &rows {
            let x = input("x", name, &[1, 2]);
            let answer =
                client.model_infer(request(name, vec![x.clone()], &[bytes])).await.unwrap().into_inner();
            assert_eq!(answer.raw_output_contents, std::slice::from_ref(bytes), "{name}");
            assert_eq!(
                (answer.outputs[0].datatype.as_str(), answer.outputs[0].shape.as_slice()),
                (*name, [1, 2].as_slice())
            );
            let Some(contents) = contents else { continue };
            let x = InferInputTensor { contents: Some(contents.clone()), ..x };
            let answer = client.model_infer(request(name, vec![x], &[])).await.unwrap().into_inner();
            assert!(answer.raw_output_contents.is_empty());
            assert_eq!(answer.outputs[0].contents.as_ref(), Some(contents), "{name}");
        }
    });
}

type Change = fn(&mut ModelInferRequest);

#[test]
fn every_malformed_request_gets_an_error_of_the_protocol() {
    let invalid = Code::InvalidArgument;
    let wrong: Vec<(&str, Change, Code, &str)> = vec![
        ("an unknown model", |r| r.model_name = "none".to_owned(), Code::NotFound, "no model `none`"),
        ("an unknown version", |r| r.model_version = "3".to_owned(), Code::NotFound, "only version `1`"),
        (
            "no inputs",
            |r| {
                r.inputs.clear();
                r.raw_input_contents.clear();
            },
            invalid,
            "needs the input `x`",
        ),
        ("an unknown input", |r| r.inputs[0].name = "z".to_owned(), invalid, "no input `z`"),
        ("another type", |r| r.inputs[0].datatype = "INT8".to_owned(), invalid, "got `INT8`"),
        ("another rank", |r| r.inputs[0].shape = vec![2], invalid, "got [2]"),
        ("a negative extent", |r| r.inputs[0].shape = vec![-1, 2], invalid, "got [-1, 2]"),
        ("extents that overflow", |r| r.inputs[0].shape = vec![i64::MAX, i64::MAX], invalid, "got ["),
        ("too few bytes", |r| r.raw_input_contents[0] = vec![0; 7].into(), invalid, "are 8 bytes; got 7"),
        ("too many bytes", |r| r.raw_input_contents[0] = vec![0; 9].into(), invalid, "are 8 bytes; got 9"),
        (
            "raw bytes of no input",
            |r| r.raw_input_contents.push(vec![].into()),
            invalid,
            "2 inputs are raw, of 1",
        ),
        ("no elements", |r| r.raw_input_contents.clear(), invalid, "has no data"),
        (
            "elements twice",
            |r| r.inputs[0].contents = Some(InferTensorContents::default()),
            invalid,
            "has data twice",
        ),
        (
            "elements in another list",
            |r| {
                r.raw_input_contents.clear();
                r.inputs[0].contents =
                    Some(InferTensorContents { int_contents: vec![1, 2], ..Default::default() });
            },
            invalid,
            "in the list of `contents` for FP32",
        ),
        (
            "too few elements",
            |r| {
                r.raw_input_contents.clear();
                r.inputs[0].contents =
                    Some(InferTensorContents { fp32_contents: vec![1.0], ..Default::default() });
            },
            invalid,
            "are 2 elements; got 1",
        ),
        (
            "an input twice",
            |r| {
                r.inputs.push(r.inputs[0].clone());
                r.raw_input_contents.push(vec![0; 8].into());
            },
            invalid,
            "given twice",
        ),
        ("too many inputs", |r| r.inputs = vec![InferInputTensor::default(); 5000], invalid, "2049 fields"),
        (
            "an unknown output",
            |r| r.outputs.push(InferRequestedOutputTensor { name: "q".to_owned(), ..Default::default() }),
            invalid,
            "no output `q`",
        ),
        (
            "an output twice",
            |r| {
                let y = InferRequestedOutputTensor { name: "y".to_owned(), ..Default::default() };
                r.outputs = vec![y.clone(), y];
            },
            invalid,
            "asked for twice",
        ),
        (
            "a priority that is no number",
            |r| {
                r.parameters.insert("priority".to_owned(), InferParameter::default());
            },
            invalid,
            "`priority`",
        ),
        (
            "a timeout that is no number",
            |r| {
                r.parameters.insert("timeout".to_owned(), InferParameter::default());
            },
            invalid,
            "microseconds",
        ),
        (
            "a parameter of an input",
            |r| {
                r.inputs[0].parameters.insert("shared_memory_region".to_owned(), InferParameter::default());
            },
            invalid,
            "input `x` is in shared memory",
        ),
        (
            "a parameter of an output",
            |r| {
                let parameters = [("classification".to_owned(), InferParameter::default())].into();
                r.outputs.push(InferRequestedOutputTensor { name: "y".to_owned(), parameters });
            },
            invalid,
            "`classification`",
        ),
    ];
    let server = start(vec![made("double", &double())]);
    run(&server, async |mut client| {
        let good = || request("double", vec![input("x", "FP32", &[1, 2])], &[&[0; 8]]);
        for (what, change, code, message) in &wrong {
            let mut request = good();
            change(&mut request);
            let status = client.model_infer(request).await.unwrap_err();
            assert_eq!(status.code(), *code, "{what}: {}", status.message());
            assert!(status.message().contains(message), "{what}: {}", status.message());
        }
        client.model_infer(good()).await.unwrap();
        // As over HTTP, a missing model is reported as not ready.
        for (name, version) in [("none", ""), ("double", "2")] {
            let unknown = ModelReadyRequest { name: name.to_owned(), version: version.to_owned() };
            assert!(!client.model_ready(unknown).await.unwrap().into_inner().ready);
        }
    });
    assert_eq!(metric(&server, "bb_held_bytes"), 0.0);
    println!("{} malformed requests", wrong.len());
}

#[test]
fn texts_that_are_cut_off_are_refused_and_others_come_back_as_they_are() {
    let server = start(vec![made("words", &identity(DataType::String))]);
    run(&server, async |mut client| {
        for raw in [[9, 0, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[0; 4], &[0; 12]] {
            let ask = request("words", vec![input("x", "BYTES", &[1, 2])], &[raw]);
            assert_eq!(client.model_infer(ask).await.unwrap_err().code(), Code::InvalidArgument);
        }
        let raw = [1, 0, 0, 0, 0xff, 0, 0, 0, 0];
        let answer = client.model_infer(request("words", vec![input("x", "BYTES", &[1, 2])], &[&raw]));
        assert_eq!(answer.await.unwrap().into_inner().raw_output_contents, [raw.to_vec()]);
    });
}

#[test]
fn messages_that_are_too_large_are_refused_before_they_are_read() {
    let mut config = config(vec![made("double", &double())]);
    config.request_bytes = 1 << 16;
    config.held_bytes = 1 << 17;
    let server = Server::start(config).unwrap();
    run(&server, async |mut client| {
        let ask = request("double", vec![input("x", "FP32", &[1, 1 << 20])], &[&vec![0; 4 << 20]]);
        let status = client.model_infer(ask).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains("more than 65536 bytes"), "{status}");
        let ask = request("double", vec![input("x", "FP32", &[1, 2])], &[&[0; 8]]);
        client.model_infer(ask).await.unwrap();
    });
}

fn count(to: i64) -> ModelInferRequest {
    request("count", vec![input("n", "INT64", &[])], &[&to.to_le_bytes()])
}

#[test]
fn deadlines_of_the_client_and_clients_that_go_end_runs() {
    let server = start(vec![made("count", &counting())]);
    run(&server, async |mut client| {
        let mut late = tonic::Request::new(count(1_000_000));
        late.set_timeout(Duration::from_millis(100));
        let start = Instant::now();
        let status = client.model_infer(late).await.unwrap_err();
        assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
        // Dropping the future resets the stream.
        let gone = client.model_infer(count(1_000_000));
        assert!(tokio::time::timeout(Duration::from_millis(100), gone).await.is_err());
        let answer = client.model_infer(count(7)).await.unwrap().into_inner();
        assert_eq!(answer.raw_output_contents, [7i64.to_le_bytes().to_vec()]);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    });
}

#[test]
fn a_full_queue_is_an_exhausted_resource() {
    let mut config = config(vec![made("count", &counting())]);
    config.queue = 1;
    let server = Server::start(config).unwrap();
    run(&server, async |client| {
        let (mut running, mut waiting, mut refused) = (client.clone(), client.clone(), client);
        let running = tokio::spawn(async move { running.model_infer(count(1_000_000)).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let waiting = tokio::spawn(async move { waiting.model_infer(count(1_000_000)).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let status = refused.model_infer(count(1)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        running.abort();
        waiting.abort();
    });
}
