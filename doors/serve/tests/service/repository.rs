//! Tests the models of a folder, their versions, and loading and unloading them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_ir::DataType;
use bb_serve::protocol::{
    ModelRepositoryParameter, RepositoryIndexRequest, RepositoryModelLoadRequest,
    RepositoryModelUnloadRequest,
};
use bb_serve::{Config, ModelConfig, Server};
use common::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creates a model that multiplies by a number, which distinguishes versions.
fn times(factor: f32) -> bb_ir::proto::ModelProto {
    let (x, y) = (tensor("x", DataType::F32, &["n"]), tensor("y", DataType::F32, &["n"]));
    let mut all = graph(vec![x], vec![node("Mul", &["x", "f"], &["y"], vec![])], vec![y]);
    all.initializer = vec![bb_ir::proto::TensorProto {
        name: Some("f".to_owned()),
        data_type: Some(DataType::F32.to_onnx()),
        float_data: vec![factor],
        ..Default::default()
    }];
    model(all)
}

/// Writes a model to a path in a folder.
fn put(folder: &Path, path: &str, model: &bb_ir::proto::ModelProto) {
    let to = folder.join(path);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(made("put", model).path, to).unwrap();
}

fn with(folder: &Path, change: impl FnOnce(&mut Config)) -> Server {
    let mut config = config(vec![made("stays", &double())]);
    config.repository = Some(folder.to_owned());
    change(&mut config);
    Server::start(config).unwrap()
}

fn change(server: &Server, name: &str, how: &str) -> Answer {
    post(server.http(), &format!("/v2/repository/models/{name}/{how}"), &json!({}))
}

/// Returns the output of a model for the input 1.
fn factor(server: &Server, path: &str) -> Value {
    let x = json!({"name": "x", "datatype": "FP32", "shape": [1], "data": [1]});
    post(server.http(), &format!("/v2/models/{path}/infer"), &json!({"inputs": [x]})).json()["outputs"][0]["data"][0].clone()
}

#[test]
fn the_newest_versions_of_a_folder_are_served() {
    let root = folder("versions");
    for (path, by) in [("1", 1.0), ("2", 2.0), ("10", 10.0), ("03", 3.0), ("x", 4.0), ("11a", 5.0)] {
        put(&root, &format!("m/{path}/model.onnx"), &times(by));
    }
    // A folder without a model is not a version.
    std::fs::create_dir_all(root.join("m/12")).unwrap();
    let of = ModelConfig { name: "m".to_owned(), path: root.join("m"), backend: "cpu".to_owned() };
    let newest = start(vec![of.clone()]);
    assert_eq!(get(newest.http(), "/v2/models/m").json()["versions"], json!(["10"]));
    let mut two = config(vec![of]);
    two.versions = 2;
    let two = Server::start(two).unwrap();
    assert_eq!(get(two.http(), "/v2/models/m").json()["versions"], json!(["2", "10"]));
    assert_eq!((factor(&two, "m"), factor(&two, "m/versions/2")), (json!(10.0), json!(2.0)));
    let refused = post(two.http(), "/v2/models/m/versions/1/infer", &json!({"inputs": []}));
    assert_eq!(refused.status, 404);
    assert!(refused.text().contains("has the versions `2`, `10`, got `1`"), "{}", refused.text());
    let index = raw(two.http(), &request("/v2/repository/index", &[], b"")).unwrap().json();
    assert_eq!((&index[0]["version"], &index[1]["version"]), (&json!("2"), &json!("10")));
    let name = "bb_requests_total{model=\"m\",version=\"2\",protocol=\"http\",outcome=\"ok\"}";
    assert_eq!(metric(&two, name), 1.0);
    let stats = get(two.http(), "/v2/models/m/stats").json();
    assert_eq!(stats["model_stats"].as_array().unwrap().len(), 2);
    assert_eq!(stats["model_stats"][1]["version"], "10");
}

#[test]
fn models_are_loaded_replaced_and_unloaded() {
    let root = folder("load");
    put(&root, "m/1/model.onnx", &times(2.0));
    put(&root, "flat/model.onnx", &times(3.0));
    put(&root, "single.onnx", &times(4.0));
    let server = with(&root, |config| config.load = vec!["flat".to_owned()]);
    assert_eq!(factor(&server, "flat"), json!(3.0));
    let ready = |name: &str| get(server.http(), &format!("/v2/models/{name}/ready")).status;
    assert_eq!((ready("m"), ready("single")), (404, 404));
    for name in ["m", "single"] {
        assert_eq!(change(&server, name, "load").status, 200);
        assert_eq!(ready(name), 200);
    }
    assert_eq!((factor(&server, "m"), factor(&server, "single")), (json!(2.0), json!(4.0)));
    // A newer version replaces the older version.
    put(&root, "m/2/model.onnx", &times(7.0));
    assert_eq!(change(&server, "m", "load").status, 200);
    assert_eq!(factor(&server, "m"), json!(7.0));
    assert_eq!(change(&server, "m", "unload").status, 200);
    assert_eq!(ready("m"), 404);
    assert_eq!(change(&server, "m", "unload").status, 404);
    let index = raw(server.http(), &request("/v2/repository/index", &[], b"{}")).unwrap().json();
    let state = |name: &str| {
        let row = index.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        (row["state"].as_str().unwrap().to_owned(), row["reason"].as_str().unwrap().to_owned())
    };
    assert_eq!(state("m"), ("UNAVAILABLE".to_owned(), "unloaded".to_owned()));
    assert_eq!(state("single"), ("READY".to_owned(), String::new()));
    let ready =
        raw(server.http(), &request("/v2/repository/index", &[], b"{\"ready\": true}")).unwrap().json();
    assert_eq!(ready.as_array().unwrap().len(), 3, "{ready}");
    by_grpc(&server, async |mut client| {
        let name = || "m".to_owned();
        let load = RepositoryModelLoadRequest { model_name: name(), ..Default::default() };
        client.repository_model_load(load.clone()).await.unwrap();
        let index = client.repository_index(RepositoryIndexRequest::default()).await.unwrap().into_inner();
        assert!(index.models.iter().any(|row| row.name == "m" && row.version == "2" && row.state == "READY"));
        let unload = RepositoryModelUnloadRequest { model_name: name(), ..Default::default() };
        client.repository_model_unload(unload).await.unwrap();
        let parameters = [("config".to_owned(), ModelRepositoryParameter::default())].into();
        let refused = client.repository_model_load(RepositoryModelLoadRequest { parameters, ..load }).await;
        assert_eq!(refused.unwrap_err().code(), tonic::Code::InvalidArgument);
    });
}

#[test]
fn only_the_folder_is_read() {
    let outside = folder("outside");
    put(&outside, "secret/1/model.onnx", &times(2.0));
    put(&outside, "secret.onnx", &times(2.0));
    let root = folder("inside");
    put(&root, "m/1/model.onnx", &times(2.0));
    std::fs::write(root.join("broken.onnx"), "no model").unwrap();
    std::fs::create_dir(root.join("empty")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(outside.join("secret"), root.join("folder")).unwrap();
        symlink(outside.join("secret.onnx"), root.join("file.onnx")).unwrap();
        std::fs::create_dir(root.join("version")).unwrap();
        symlink(outside.join("secret/1"), root.join("version/1")).unwrap();
        symlink(root.join("m"), root.join("within")).unwrap();
    }
    let lines = Lines::default();
    let server = with(&root, |config| config.log = Some(bb_serve::RequestLog::new(lines.clone())));
    let name = outside.file_name().unwrap().to_str().unwrap().to_owned();
    for name in ["..", ".", "%2e%2e", "..%2F..", &format!("..%2F{name}%2Fsecret"), "m%2F1", "none", "%00"] {
        let refused = change(&server, name, "load");
        assert_eq!(refused.status, 404, "{name}: {}", refused.text());
    }
    for name in ["folder", "file", "version"] {
        let refused = change(&server, name, "load");
        if cfg!(unix) {
            assert_eq!(refused.status, 400, "{name}: {}", refused.text());
            assert!(refused.text().contains("leads out of the repository"), "{name}: {}", refused.text());
        }
    }
    if cfg!(unix) {
        assert_eq!(change(&server, "within", "load").status, 200);
    }
    let paths = [root.parent().unwrap().to_str().unwrap(), outside.to_str().unwrap()];
    let shows_none = |text: &str| assert!(!paths.iter().any(|path| text.contains(path)), "{text}");
    for name in ["broken", "empty", "version"] {
        let refused = change(&server, name, "load");
        assert_eq!(refused.status, 400, "{name}: {}", refused.text());
        shows_none(&refused.text());
    }
    // The server's log contains the paths.
    let logged = lines.wait(15);
    assert!(logged.contains(root.join("broken.onnx").to_str().unwrap()), "{logged}");
    let index = raw(server.http(), &request("/v2/repository/index", &[], b"{}")).unwrap();
    assert!(index.text().contains("broken"), "{}", index.text());
    shows_none(&index.text());
    by_grpc(&server, async |mut client| {
        for model_name in ["broken", "empty", "version"].map(str::to_owned) {
            let load = RepositoryModelLoadRequest { model_name, ..Default::default() };
            shows_none(client.repository_model_load(load).await.unwrap_err().message());
        }
    });
    // Models that were configured at start cannot be changed.
    for how in ["load", "unload"] {
        assert_eq!(change(&server, "stays", how).status, 403);
    }
    let parameters = json!({"parameters": {"config": "{}"}});
    assert_eq!(post(server.http(), "/v2/repository/models/m/load", &parameters).status, 400);
    let without = start(vec![made("double", &double())]);
    for how in ["load", "unload"] {
        let refused = change(&without, "double", how);
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.text().contains("without a repository"), "{}", refused.text());
    }
}

/// The limits also apply to models that are loaded later.
#[test]
fn limits_hold_for_loaded_models() {
    let root = folder("limits");
    put(&root, "m.onnx", &times(2.0));
    let server = with(&root, |config| {
        config.models.clear();
        config.limits.model_bytes = 10;
    });
    let refused = change(&server, "m", "load");
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("10"), "{}", refused.text());
    let index = raw(server.http(), &request("/v2/repository/index", &[], b"{}")).unwrap().json();
    assert_eq!(index[0]["state"], "UNAVAILABLE");
    assert!(index[0]["reason"].as_str().unwrap().contains("10"), "{index}");
}

#[test]
fn what_was_asked_before_is_answered() {
    let root = folder("leaving");
    put(&root, "count.onnx", &counting());
    let server = with(&root, |config| config.load = vec!["count".to_owned()]);
    let count = json!({"inputs": [{"name": "n", "datatype": "INT64", "shape": [], "data": [20_000]}]});
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..4).map(|_| scope.spawn(|| post(server.http(), "/v2/models/count/infer", &count))).collect();
        while metric(&server, "bb_queue_seconds_count{model=\"count\"}")
            + metric(&server, "bb_queue_length{model=\"count\"}")
            < 4.0
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(change(&server, "count", "unload").status, 200);
        assert_eq!(post(server.http(), "/v2/models/count/infer", &count).status, 404);
        for answer in asked {
            let answer = answer.join().unwrap();
            assert_eq!(answer.json()["outputs"][0]["data"], json!([20_000]), "{}", answer.text());
        }
    });
    assert!(server.shut_down().finished);
}

/// Threads and memory of removed models are released.
#[test]
fn loading_again_and_again_leaves_nothing() {
    let root: PathBuf = folder("again");
    put(&root, "m.onnx", &times(2.0));
    let server = with(&root, |_| ());
    let threads = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let named = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let of = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm")).ok();
        (status.len(), named.filter_map(of).filter(|name| name.trim() == "bb-m").count())
    };
    for _ in 0..20 {
        let mut loaded = change(&server, "m", "load");
        while loaded.status == 429 {
            std::thread::sleep(Duration::from_millis(2));
            loaded = change(&server, "m", "load");
        }
        assert_eq!(loaded.status, 200, "{}", loaded.text());
    }
    assert_eq!(factor(&server, "m"), json!(2.0));
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while threads().1 > 1 {
        assert!(std::time::Instant::now() < until, "{} threads", threads().1);
        std::thread::sleep(Duration::from_millis(10));
    }
}
