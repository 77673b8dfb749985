//! Tests errors through the crate `ort`.

use crate::{data, environment};
use ort::ErrorCode;
use ort::session::{RunOptions, Session};
use ort::value::Tensor;

fn surfaces() -> Session {
    let file = data("models/surfaces_gbr/model.onnx");
    Session::builder(environment()).unwrap().commit_from_file(file).unwrap()
}

fn point(columns: usize) -> Tensor<f32> {
    Tensor::from_array(([1, columns], vec![0.5f32; columns])).unwrap()
}

#[track_caller]
fn expect<T>(result: ort::Result<T>, code: ErrorCode, text: &str) {
    let Err(error) = result else { panic!("it succeeded") };
    assert!(error.code() == code && error.message().contains(text), "{error:?}");
}

#[test]
fn wrong_inputs_are_told_by_name() {
    let mut session = surfaces();
    expect(session.run(ort::inputs!["point" => point(4)]), ErrorCode::InvalidArgument, "`point`");
    expect(session.run(ort::inputs!["input" => point(5)]), ErrorCode::InvalidArgument, "`input`");
    let integers = Tensor::from_array(([1usize, 4], vec![1i64; 4])).unwrap();
    expect(session.run(ort::inputs!["input" => integers]), ErrorCode::InvalidArgument, "i64");
    let none: Vec<(std::borrow::Cow<'_, str>, ort::value::DynValue)> = Vec::new();
    expect(session.run(none), ErrorCode::InvalidArgument, "`input`");
    assert!(session.run(ort::inputs!["input" => point(4)]).is_ok(), "the session still runs");
}

#[test]
fn what_is_no_model_is_an_error_of_its_own() {
    let load = |bytes: &[u8]| Session::builder(environment()).unwrap().commit_from_memory(bytes);
    expect(load(b"this is no model"), ErrorCode::InvalidProtobuf, "");
    expect(load(&[]), ErrorCode::InvalidProtobuf, "empty");
    let model = std::fs::read(data("models/surfaces_gbr/model.onnx")).unwrap();
    for length in [1, 10, 100, model.len() / 2, model.len() - 1] {
        assert!(load(&model[..length]).is_err(), "{length}");
    }
}

#[test]
fn a_run_that_is_stopped_ends_with_an_error() {
    let mut session = surfaces();
    let options = RunOptions::new().unwrap();
    options.terminate().unwrap();
    expect(
        session.run_with_options(ort::inputs!["input" => point(4)], &options),
        ErrorCode::GenericFailure,
        "cancelled",
    );
    let again = RunOptions::new().unwrap();
    assert!(session.run_with_options(ort::inputs!["input" => point(4)], &again).is_ok());
}

#[test]
fn settings_of_bb_are_checked() {
    let builder = || Session::builder(environment()).unwrap();
    let file = data("models/surfaces_gbr/model.onnx");
    let named = builder().with_config_entry("bb.backend", "no such backend").unwrap().commit_from_file(&file);
    expect(named, ErrorCode::InvalidArgument, "no such backend");
    // A program that loads the library gets no advice for Rust programs.
    crate::raw::api();
    let named = builder().with_config_entry("bb.backend", "no such backend").unwrap().commit_from_file(&file);
    let message = named.err().unwrap().message().to_owned();
    assert!(message.contains("BB_BACKEND_PATH") && !message.contains("derive"), "{message}");
    let limited =
        builder().with_config_entry("bb.limits.model_bytes", "100").unwrap().commit_from_file(&file);
    expect(
        limited,
        ErrorCode::GenericFailure,
        "at most 100 allowed by the limit `bb.limits.model_bytes`, got ",
    );
    let Err(error) = builder().with_config_entry("bb.backnd", "cpu") else { panic!("it is known") };
    assert!(error.message().contains("`bb.backend`"), "{error:?}");
}
