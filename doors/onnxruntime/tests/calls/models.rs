//! Runs real models through the crate `ort`, and compares them with runs on bb directly.

use crate::{data, environment};
use bb::ir::proto::TensorProto;
use bb::{DataType, TensorData, Value};
use ort::session::Session;
use ort::value::{DynValue, Tensor, TensorElementType, ValueType};
use std::borrow::Cow;
use std::path::Path;

fn inputs(folder: &Path) -> Vec<TensorData> {
    let file = |at: usize| std::fs::read(folder.join(format!("test_data_set_0/input_{at}.pb"))).ok();
    let tensor = |bytes: Vec<u8>| -> TensorData {
        let proto: TensorProto = prost::Message::decode(bytes.as_slice()).unwrap();
        TensorData::from_proto(&proto).unwrap()
    };
    (0..).map_while(file).map(tensor).collect()
}

fn value(data: &TensorData) -> DynValue {
    fn of<T>(data: &TensorData) -> DynValue
    where
        T: bb::Element + ort::value::PrimitiveTensorElementType + Clone + std::fmt::Debug + 'static,
    {
        let elements = data.as_slice::<T>().unwrap().to_vec();
        Tensor::from_array((data.shape().to_vec(), elements)).unwrap().into_dyn()
    }
    match data.dtype() {
        DataType::F32 => of::<f32>(data),
        DataType::F64 => of::<f64>(data),
        DataType::I64 => of::<i64>(data),
        DataType::I32 => of::<i32>(data),
        DataType::U8 => of::<u8>(data),
        other => panic!("no model here has inputs of {other}"),
    }
}

fn same(name: &str, through: &DynValue, direct: &TensorData) {
    let ValueType::Tensor { ty, .. } = through.dtype() else { panic!("{name} is no tensor") };
    match ty {
        TensorElementType::Float32 => {
            let (shape, elements) = through.try_extract_tensor::<f32>().unwrap();
            let extents: Vec<i64> = direct.shape().iter().map(|&extent| extent as i64).collect();
            assert_eq!(**shape, extents, "{name}");
            assert_eq!(elements, direct.as_slice::<f32>().unwrap(), "{name}");
        }
        TensorElementType::Int64 => {
            assert_eq!(
                through.try_extract_tensor::<i64>().unwrap().1,
                direct.as_slice::<i64>().unwrap(),
                "{name}"
            );
        }
        other => panic!("{name} is of {other}"),
    }
}

/// The results through the crate are bitwise equal to the results of the backend, because both run the same code.
#[test]
fn models_give_what_they_give_on_bb() {
    let cpu = bb::backend("cpu").unwrap();
    for model in ["surfaces_gbr", "magika", "silero_vad_op16", "skl_pls"] {
        let folder = data("models").join(model);
        let inputs = inputs(&folder);
        assert!(!inputs.is_empty(), "{model}");
        let module = bb::Module::load(folder.join("model.onnx")).unwrap();
        let ready = cpu.compile(module, &bb::CompileOptions::default()).unwrap();
        let values: Vec<Value> = inputs.iter().map(|x| cpu.runtime().constant(x).unwrap()).collect();
        let direct = ready.run(&values.iter().map(Some).collect::<Vec<_>>()).unwrap();

        let mut session =
            Session::builder(environment()).unwrap().commit_from_file(folder.join("model.onnx")).unwrap();
        let names: Vec<String> = session.inputs().iter().map(|input| input.name().to_owned()).collect();
        let ports: Vec<&str> = ready.inputs().iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ports, "{model}");
        let feeds: Vec<(Cow<'_, str>, DynValue)> =
            names.iter().zip(&inputs).map(|(name, x)| (name.as_str().into(), value(x))).collect();
        let outputs = session.run(feeds).unwrap();
        for (port, direct) in ready.outputs().iter().zip(&direct) {
            same(
                &format!("{model}: {}", port.name),
                &outputs[port.name.as_str()],
                &cpu.to_host(direct).unwrap(),
            );
        }
    }
}

#[test]
fn a_session_says_what_its_model_is() {
    let file = data("models/silero_vad_op16/model.onnx");
    let session = Session::builder(environment()).unwrap().commit_from_file(file).unwrap();
    let described: Vec<String> =
        session.inputs().iter().map(|input| format!("{}: {}", input.name(), input.dtype())).collect();
    assert_eq!(
        described,
        ["input: Tensor<f32>(dyn, dyn)", "state: Tensor<f32>(2, dyn, 128)", "sr: Tensor<i64>()"]
    );
    let outputs: Vec<&str> = session.outputs().iter().map(|output| output.name()).collect();
    assert_eq!(outputs, ["output", "stateN"]);
    assert!(session.overridable_initializers().is_empty());
    let metadata = session.metadata().unwrap();
    assert_eq!(metadata.producer().as_deref(), Some("spox"));
    assert_eq!(metadata.version(), Some(0));
    assert_eq!((metadata.custom("no such key"), metadata.custom_keys().unwrap()), (None, Vec::new()));
}

#[test]
fn threads_dimensions_and_backends_are_options() {
    let file = data("models/surfaces_gbr/model.onnx");
    let one = |builder: ort::session::builder::SessionBuilder| {
        let mut session = builder.clone().commit_from_file(&file).unwrap();
        let point =
            Tensor::from_array(([1usize, 4], vec![0.57730556f32, 0.506829, 0.14141674, 0.8114217])).unwrap();
        let outputs = session.run(ort::inputs!["input" => point]).unwrap();
        outputs["variable"].try_extract_tensor::<f32>().unwrap().1[0]
    };
    let builder = || Session::builder(environment()).unwrap();
    let plain = one(builder());
    assert!((plain - 0.26850086).abs() < 1e-5);
    assert_eq!(one(builder().with_intra_threads(2).unwrap().with_inter_threads(1).unwrap()), plain);
    assert_eq!(one(builder().with_config_entry("session.use_env_allocators", "1").unwrap()), plain);
    let reference = one(builder().with_config_entry("bb.backend", "reference").unwrap());
    assert!((plain - reference).abs() < 1e-5);
    // The reference backend does not have the option for threads, which programs for ONNX Runtime set for any backend.
    let both = builder().with_config_entry("bb.backend", "reference").unwrap().with_intra_threads(3).unwrap();
    assert_eq!(one(both), reference);
    assert_eq!(one(builder().with_dimension_override("no such name", 3).unwrap()), plain);
}

#[test]
fn a_function_for_messages_is_told_where_a_model_runs() {
    use ort::logging::LogLevel;
    use std::sync::{Arc, Mutex};
    let told = Arc::new(Mutex::new(Vec::<(LogLevel, String)>::new()));
    let kept = told.clone();
    let logger: ort::logging::LoggerFunction =
        Arc::new(move |level, _, _, _, message: &str| kept.lock().unwrap().push((level, message.to_owned())));
    let file = data("models/surfaces_gbr/model.onnx");
    let open = |level| {
        let builder = Session::builder(environment()).unwrap().with_logger(logger.clone()).unwrap();
        builder.with_log_level(level).unwrap().commit_from_file(&file).unwrap();
        std::mem::take(&mut *told.lock().unwrap())
    };
    let verbose = open(LogLevel::Verbose);
    assert!(
        verbose.iter().any(|(_, message)| message.contains("placed on [CPUExecutionProvider]")),
        "{verbose:?}"
    );
    assert!(open(LogLevel::Error).is_empty());
}
