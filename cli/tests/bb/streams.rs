//! Tests closed and full standard output, and options without effect or with too large values.

use crate::process::{bb, folder, write};
use bb_tests::model::{model, node};

fn one_node() -> Vec<u8> {
    model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[2])])
}

/// Runs a shell command in which `$BB` is the binary and `$MODEL` is a model; returns the status and standard
/// error.
#[cfg(unix)]
fn shell(line: &str) -> (i32, String) {
    // Several tests read the model at the same time.
    static MODEL: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| write(&folder("streams"), "model.onnx", &one_node()));
    let output = std::process::Command::new("sh")
        .args(["-c", line])
        .env("BB", env!("CARGO_BIN_EXE_bb"))
        .env("MODEL", &*MODEL)
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(unix)]
const PRINTING: [&str; 9] = [
    "coverage",
    "coverage --json",
    "coverage --markdown",
    "backends",
    "inspect $MODEL",
    "run $MODEL --random",
    "compare $MODEL --backend cpu --backend reference --per-node",
    "bench $MODEL --runs 1",
    "completions bash",
];

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_quietly() {
    for command in PRINTING.into_iter().chain(["--help", "coverage --help"]) {
        // The command line prints the status itself, because a shell only reports the status of the last
        // command in a pipe.
        let (_, err) = shell(&format!("(sleep 0.1; $BB {command}; echo status $? >&2) | true"));
        assert_eq!(
            err.lines().filter(|line| !line.starts_with("chosen")).collect::<Vec<_>>(),
            ["status 0"],
            "{command}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    for command in PRINTING.into_iter().chain(["--help", "run --help", "--version"]) {
        let (status, err) = shell(&format!("$BB {command} > /dev/full"));
        assert_eq!(status, 1, "{command}: {err}");
        assert!(err.contains("error: cannot print to standard output"), "{command}: {err}");
        assert!(!err.contains("panicked"), "{command}: {err}");
    }
}

#[cfg(unix)]
#[test]
fn closed_streams_are_no_panic() {
    for command in PRINTING {
        let (status, err) = shell(&format!("$BB {command} >&- 2>&-"));
        assert!(status <= 1, "{command}: {status} {err}");
    }
}

#[test]
fn nothing_and_too_much_are_refused() {
    let folder = folder("streams-counts");
    let path = write(&folder, "model.onnx", &one_node());
    let cases = folder.to_str().unwrap();
    for arguments in [
        &["bench", &path, "--runs", "0"][..],
        &["bench", &path, "--threads", "0"],
        &["bench", &path, "--threads", "100000"],
        &["run", &path, "--random", "--threads", "0"],
        &["compare", &path, "--backend", "cpu", "--backend", "cpu", "--threads", "0"],
        &["conformance", cases, "--jobs", "0"],
        &["conformance", cases, "--jobs", "100000"],
        &["conformance", cases, "--timeout", "0"],
        &["run", &path, "--dim", "n=-1"],
        &["run", &path, "--range", "1..0"],
        &["run", &path, "--limit", "nodes=many"],
    ] {
        let ended = bb(arguments);
        assert_eq!(ended.code(), 2, "{arguments:?}: {}{}", ended.out, ended.err);
        assert!(ended.err.starts_with("error: "), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn limits_are_set_by_name() {
    let folder = folder("streams-limits");
    let path = write(&folder, "model.onnx", &one_node());
    for command in ["run", "bench", "inspect"] {
        let ended = bb(&[command, &path, "--limit", "nodes=0"]);
        assert!(ended.code() == 1 && ended.err.contains("nodes"), "{command}: {}", ended.err);
    }
    let ended = bb(&["run", &path, "--random", "--limit", "node=5"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("there is no limit `node`") && ended.err.contains("`nodes`"), "{}", ended.err);
    assert_eq!(bb(&["run", &path, "--random", "--limit", "nodes=1", "--limit", "value_bytes=1G"]).code(), 0);
}

#[test]
fn completions_are_a_script_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ended = bb(&["completions", shell]);
        assert_eq!(ended.code(), 0, "{}", ended.err);
        assert!(ended.out.contains("conformance") && ended.out.contains("fetch"), "{shell}: {}", ended.out);
    }
    assert_eq!(bb(&["completions", "cmd"]).code(), 2);
}

#[test]
fn help_has_an_example_for_each_command() {
    let commands =
        ["run", "inspect", "coverage", "compare", "conformance", "bench", "backends", "completions"];
    for command in commands {
        let ended = bb(&[command, "--help"]);
        assert_eq!(ended.code(), 0);
        assert!(ended.out.contains(&format!("\n  bb {command}")), "{command}: {}", ended.out);
    }
}

#[cfg(unix)]
#[test]
fn paths_need_not_be_unicode() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let folder = folder("streams-bytes");
    let name = |front: &[u8]| OsString::from_vec([front, b"\xFF.bin"].concat());
    let (model, input) = (folder.join(name(b"model")), folder.join(name(b"x")));
    std::fs::write(&model, one_node()).unwrap();
    std::fs::write(&input, bb::TensorData::new(&[2], &[1f32, 2.0]).unwrap().to_npy().unwrap()).unwrap();
    let mut given = OsString::from("x=");
    given.push(&input);
    let ended = bb(&["run".into(), model.into_os_string(), "--input".into(), given]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
}
