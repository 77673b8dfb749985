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

/// Builds a library from the backend written in C, with lines of C before it.
#[cfg(feature = "loaded")]
fn plain(door: &std::path::Path, name: &str, before: &str) -> std::path::PathBuf {
    let folder = crate::process::folder(name);
    let (source, library) = (folder.join("source.c"), folder.join("libplain.so"));
    std::fs::write(&source, format!("{before}\n#include \"plain.c\"\n")).unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-std=c11", "-O2", "-shared", "-fPIC", "-I"])
        .arg(door.join("include"))
        .arg("-I")
        .arg(door.join("examples"))
        .arg(&source);
    let built = cc.arg("-o").arg(&library).arg("-lm").status();
    assert!(
        built.expect("no compiler for C: install one (`apt-get install gcc`), so that `cc` runs").success()
    );
    library
}

#[cfg(all(feature = "loaded", unix))]
#[test]
fn a_crash_names_the_test_that_ran() {
    let door = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/c");
    let aborts = "#include <math.h>\n#include <stdlib.h>\n#define exp(v) (abort(), (v))";
    let library = plain(&door, "crash", aborts);
    let run = ["conformance", "--primitives", "--backend", "plain", "--filter", "exp"];
    let ended = bb_with(&run, &[("BB_BACKEND_PATH", library.to_str().unwrap())]);
    assert!(ended.err.contains("error: the process crashed while `exp` ran"), "{}", ended.err);
}

#[cfg(feature = "loaded")]
#[test]
fn a_library_is_listed_and_runs_models() {
    let door = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/c");
    let library = plain(&door, "loaded", "");
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
