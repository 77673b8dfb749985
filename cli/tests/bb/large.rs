//! Tests that commands take time in proportion to a model's size, whichever of its dimensions is large, and that the search for
//! extents ends.
//!
//! `BB_LARGE=1` measures all dimensions with all commands, and a greater number multiplies the counts.

use crate::process::{bb, folder, write};
use bb_tests::large::{Dimension, dimensions};
use bb_tests::model::{model, node, with_int};
use std::process::Command;
use std::time::Instant;

/// The dimensions with many inputs, outputs, extents, or operands of one node, because commands choose extents and elements.
const MEASURED: [&str; 14] = [
    "inputs",
    "outputs",
    "initializers_as_defaults",
    "nodes_in_a_fan",
    "sum_operands",
    "split_results",
    "ifs",
    "extents_of_inputs",
    "extents_without_names",
    "extents_joined",
    "extents_joined_at_once",
    "extents_broadcast",
    "extents_equal",
    "extents_flattened",
];

/// The dimensions that this does not measure: a limit bounds their counts, their time grows with the product of two counts, or
/// their results grow faster than the model.
const LEFT_OUT: [&str; 10] = [
    "einsum_letters",
    "extents_doubled",
    "extents_of_one_input",
    "functions_nested",
    "host_nodes_in_a_fan",
    "ifs_nested",
    "loops_in_a_fan",
    "loops_nested",
    "rank",
    "sequence_reads",
];

/// Runs `bb` in an address space of 8 GiB, and returns its exit status and the seconds that it computed for.
fn seconds(arguments: &[&str]) -> (i32, f64) {
    let script = "ulimit -v 8388608; \"$0\" \"$@\" > /dev/null 2>&1; echo $?; times";
    let ran =
        Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_bb")]).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let status =
        text.lines().next().and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    // The last line has the times of children, as in `0m1.250s 0m0.030s`.
    let of_children = text.lines().nth(2).unwrap_or_else(|| panic!("{text}"));
    let time = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    (status, of_children.split_whitespace().map(time).sum())
}

/// The seconds that are too few to be compared.
const LITTLE: f64 = 0.2;

/// Measures a command; returns its times if they are not in proportion.
fn compared(dimension: &Dimension, scale: usize, command: &str) -> Option<String> {
    let folder = folder(&format!("large-{command}-{}", dimension.name));
    // A command has a constant part, which copies of an `If` take for example.
    let counts = [4, 8].map(|times| times * scale * dimension.count);
    let paths = counts.map(|count| write(&folder, &format!("{count}.onnx"), &(dimension.model)(count)));
    let target = folder.join("compiled.bb").display().to_string();
    let mut least = [f64::INFINITY; 2];
    let mut said = String::new();
    // The least of several times is in proportion also on a machine that does other work.
    for _ in 0..12 {
        for (least, path) in least.iter_mut().zip(&paths) {
            let arguments = match command {
                "run" => vec!["run", path, "--random", "1"],
                "compile" => vec!["compile", path, "-o", &target],
                other => vec![other, path],
            };
            let (status, took) = seconds(&arguments);
            // Some models of the others are refused.
            let most = i32::from(!MEASURED.contains(&dimension.name));
            assert!((0..=most).contains(&status), "{arguments:?} ends with {status}");
            *least = least.min(took);
        }
        said = format!("{command} {}: {counts:?} take {least:?} s", dimension.name);
        if least[1] <= 2.5 * least[0].max(LITTLE / 2.5) {
            println!("{said}");
            return None;
        }
        if least[1] > 20.0 {
            break;
        }
    }
    println!("NOT LINEAR {said}");
    Some(said)
}

#[test]
fn commands_take_about_twice_the_time_for_a_model_of_twice_the_size() {
    let scale = std::env::var("BB_LARGE").ok().map(|scale| scale.parse().unwrap());
    let commands: &[&str] =
        if scale.is_some() { &["run", "inspect", "compile"] } else { &["run", "inspect"] };
    let mut problems = Vec::new();
    for dimension in dimensions() {
        let all = scale.is_some() && !LEFT_OUT.contains(&dimension.name);
        if all || MEASURED.contains(&dimension.name) {
            problems.extend(commands.iter().filter_map(|c| compared(&dimension, scale.unwrap_or(1), c)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// No extents make this model run, because its window has 2^62 elements.
#[test]
fn a_search_for_extents_ends() {
    let lrn = with_int(node("LRN", &["x"], &["y"]), "size", (1 << 62) + 1);
    let bytes = model(&[("x", &[-1, -1, -1, -1])], vec![lrn], &[("y", &[-1, -1, -1, -1])]);
    let path = write(&folder("large-lrn"), "model.onnx", &bytes);
    for command in [vec!["run", &path, "--random", "1"], vec!["inspect", &path]] {
        let start = Instant::now();
        let ended = bb(&command);
        let took = start.elapsed().as_secs_f64();
        assert!(matches!(ended.code(), 0 | 1), "{}", ended.err);
        assert!(took < 60.0, "{command:?} took {took} s");
    }
}
