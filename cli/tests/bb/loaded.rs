//! Tests that libraries of backends are taken in, and that a build without the feature says so.

use crate::process::{bb, bb_with};

#[cfg(not(feature = "loaded"))]
#[test]
fn a_build_that_loads_nothing_says_so() {
    let ended = bb_with(&["backends"], &[("BB_BACKEND_PATH", "libmine.so")]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("build with `--features loaded`"), "{}", ended.err);
    assert_eq!(bb(&["backends"]).code(), 0);
}

#[cfg(feature = "loaded")]
#[test]
fn a_library_is_listed_and_runs_models() {
    use crate::process::folder;
    use std::path::Path;
    let door = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/c");
    let library = folder("loaded").join("libplain.so");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-std=c11", "-O2", "-shared", "-fPIC", "-I"])
        .arg(door.join("include"))
        .arg(door.join("examples/plain.c"));
    let built = cc.arg("-o").arg(&library).arg("-lm").status();
    assert!(
        built.expect("no compiler for C: install one (`apt-get install gcc`), so that `cc` runs").success()
    );
    let library = library.to_str().unwrap();

    let listed = bb(&["backends", "--json", "--load", library]).json();
    let plain = listed.as_array().unwrap().iter().find(|backend| backend["name"] == "plain").unwrap();
    assert_eq!((&plain["version"], &plain["status"]), (&"1.0.0".into(), &"available".into()));
    let model = door.join("../../tests/data/models/surfaces_gbr/model.onnx");
    for backend in ["plain", "first_of(plain, cpu)", "metrics+plain"] {
        let run = ["run", model.to_str().unwrap(), "--random", "1", "--backend", backend];
        let ended = bb_with(&run, &[("BB_BACKEND_PATH", library)]);
        assert_eq!(ended.code(), 0, "{backend}: {}", ended.err);
    }
    let ended = bb_with(&["backends"], &[("BB_BACKEND_PATH", "absent.so")]);
    assert!(ended.code() == 1 && ended.err.contains("`absent.so`"), "{}", ended.err);
    assert_eq!(bb(&["backends", "--load", "absent.so"]).code(), 1);
}
