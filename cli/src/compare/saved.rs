//! Compares the outputs of a backend with saved outputs.

use super::errors::{Errors, Greatest};
use crate::error::{Error, Result};
use crate::inputs::{self, Otherwise};
use crate::session::{self, Session};
use crate::{args, out, outputs as written, render};
use bb::onnx::OnnxValue;
use bb::{Port, TensorData};
use bb_conformance::onnx::{self, Difference, Tolerance, compare_items};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A data set: inputs, and the folder with the expected outputs.
struct DataSet {
    folder: PathBuf,
    inputs: Vec<Option<OnnxValue<TensorData>>>,
}

/// The result of comparing an output, or a part of an output.
struct Comparison {
    output: String,
    errors: Errors,
    verdict: Verdict,
}

enum Verdict {
    Equal,
    Differs(Difference),
    /// No expected output was saved.
    NotSaved,
}

pub(super) fn saved(options: &args::Compare, outputs: &Path) -> Result<ExitCode> {
    let name = match options.backends.as_slice() {
        [] => None,
        [only] => Some(only.as_str()),
        several => return Err(Error::OneBackend { got: several.len() }),
    };
    session::threads(&options.threads)?;
    let backend = session::backend(name)?;
    let session = Session::new(&backend, session::load(&options.model)?, &options.model, &options.rewriting)?;
    let read = |source| Error::Read { path: outputs.to_owned(), source };
    std::fs::read_dir(outputs).map_err(read)?;
    let own = onnx::tolerance(outputs)?;
    let tolerance = super::tolerance(options, own);
    let mut all_equal = true;
    let mut records = Vec::new();
    for set in sets(&session, options, outputs)? {
        let got = session.run(&set.inputs).map_err(|error| session.failed(error))?;
        let compared = compare_set(&session, &set, got, tolerance)?;
        let equal = !compared.iter().any(|output| matches!(output.verdict, Verdict::Differs(_)));
        all_equal &= equal;
        if options.json {
            let outputs: Vec<_> = compared.iter().map(Comparison::json).collect();
            records.push(
                json!({ "folder": set.folder.display().to_string(), "equal": equal, "outputs": outputs }),
            );
        } else {
            print(&set, &compared)?;
        }
    }
    let Tolerance { relative, absolute } = tolerance;
    if options.json {
        out::json(&json!({
            "backend": backend.name(), "relative_tolerance": relative, "absolute_tolerance": absolute,
            "equal": all_equal, "sets": records,
        }))?;
    } else {
        let verdict = if all_equal { "what was saved is" } else { "not all that was saved is" };
        out::line(format_args!(
            "{verdict} within {absolute:e} + {relative:e} * |expected| on {}",
            backend.name()
        ))?;
    }
    Ok(if all_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(set: &DataSet, compared: &[Comparison]) -> Result<()> {
    let mut table = render::table(["OUTPUT", "MAX ABS ERROR", "AT", "MAX REL ERROR", "AT", "ULPS", ""]);
    for output in compared {
        let error = |of: &Option<Greatest>| match of {
            Some(greatest) => {
                [format!("{:.3e}", greatest.error), format!("[{}]", render::extents(&greatest.at))]
            }
            None => ["-".to_owned(), String::new()],
        };
        let ulps = output.errors.ulps.map_or_else(|| "-".to_owned(), |ulps| ulps.to_string());
        let verdict = output.verdict.text();
        let [absolute, absolute_at] = error(&output.errors.absolute);
        let [relative, relative_at] = error(&output.errors.relative);
        table.add_row([output.output.clone(), absolute, absolute_at, relative, relative_at, ulps, verdict]);
    }
    out::line(format_args!("{}\n{table}\n", set.folder.display()))
}

impl Verdict {
    fn text(&self) -> String {
        match self {
            Verdict::Equal => "equal".to_owned(),
            Verdict::Differs(difference) => render::chain(difference),
            Verdict::NotSaved => "not saved".to_owned(),
        }
    }

    fn equal(&self) -> Option<bool> {
        match self {
            Verdict::Equal => Some(true),
            Verdict::Differs(_) => Some(false),
            Verdict::NotSaved => None,
        }
    }
}

impl Comparison {
    fn json(&self) -> serde_json::Value {
        // JSON cannot represent infinity, so an infinite error becomes null.
        let greatest = |of: &Option<Greatest>| {
            of.as_ref().map(|g| json!({ "error": g.error, "at": g.at, "expected": g.expected, "got": g.got }))
        };
        json!({
            "output": self.output, "equal": self.verdict.equal(), "verdict": self.verdict.text(),
            "max_absolute_error": greatest(&self.errors.absolute),
            "max_relative_error": greatest(&self.errors.relative), "max_ulps": self.errors.ulps,
        })
    }
}

fn compare_set(
    session: &Session,
    set: &DataSet,
    got: Vec<OnnxValue<TensorData>>,
    tolerance: Tolerance,
) -> Result<Vec<Comparison>> {
    let ports = session.executable.outputs();
    let mut compared = Vec::with_capacity(ports.len());
    for ((port, expected), got) in ports.iter().zip(expected(&set.folder, ports)?).zip(got) {
        match expected {
            Some(expected) => compare_parts(&port.name, &expected, &got, tolerance, &mut compared),
            None => compared.push(Comparison {
                output: port.name.clone(),
                errors: Errors::default(),
                verdict: Verdict::NotSaved,
            }),
        }
    }
    Ok(compared)
}

/// Compares each tensor of an output: `y` itself, `y[0]` of a sequence, `y.keys` of a map. If the output has no tensors, or a different
/// number of tensors than expected, compares it as a whole.
fn compare_parts(
    name: &str,
    expected: &OnnxValue<TensorData>,
    got: &OnnxValue<TensorData>,
    tolerance: Tolerance,
    compared: &mut Vec<Comparison>,
) {
    match (expected, got) {
        (OnnxValue::Sequence(expected), OnnxValue::Sequence(got))
            if expected.len() == got.len() && !got.is_empty() =>
        {
            for (i, (expected, got)) in expected.iter().zip(got).enumerate() {
                compare_parts(&format!("{name}[{i}]"), expected, got, tolerance, compared);
            }
        }
        (OnnxValue::Map { keys, values }, OnnxValue::Map { keys: got_keys, values: got_values }) => {
            for (part, expected, got) in [("keys", keys, got_keys), ("values", values, got_values)] {
                let [expected, got] = [expected, got].map(|x| OnnxValue::Tensor(x.clone()));
                compare_parts(&format!("{name}.{part}"), &expected, &got, tolerance, compared);
            }
        }
        _ => {
            let errors = match (expected, got) {
                (OnnxValue::Tensor(expected), OnnxValue::Tensor(got)) => Errors::of(expected, got),
                _ => Errors::default(),
            };
            let verdict =
                compare_items(expected, got, tolerance).err().map_or(Verdict::Equal, Verdict::Differs);
            compared.push(Comparison { output: name.to_owned(), errors, verdict });
        }
    }
}

/// Returns the data sets in a case's folder. If there are none, the folder itself is the data set.
fn sets(session: &Session, options: &args::Compare, outputs: &Path) -> Result<Vec<DataSet>> {
    let numbered: Vec<PathBuf> = match onnx::data_sets(outputs) {
        Err(onnx::Failure::NoData { .. }) => Vec::new(),
        found => found?.collect(),
    };
    let given = !options.inputs.inputs.is_empty() || options.inputs.folder.is_some();
    let folders = if numbered.is_empty() { vec![outputs.to_owned()] } else { numbered };
    let several = folders.len() > 1;
    if several && given {
        return Err(Error::SeveralSets { folder: outputs.to_owned(), sets: folders.len() });
    }
    let sets = folders.into_iter().map(|folder| {
        let inputs = if !given && folder.join("input_0.pb").is_file() {
            onnx::read_inputs(&folder, session.executable.inputs())?
        } else {
            inputs::given(session, &options.inputs, Otherwise::Refuse)?.items
        };
        Ok(DataSet { folder, inputs })
    });
    sets.collect()
}

/// Reads outputs, either `output_0.pb`, `output_1.pb`, … in the order of the model, or files with the names that `bb run --output` uses. An
/// output that was not saved is `None`.
fn expected(folder: &Path, ports: &[Port]) -> Result<Vec<Option<OnnxValue<TensorData>>>> {
    // A file with another number may have the name of an output.
    let is_numbered = folder.join("output_0.pb").is_file();
    let items = if is_numbered { onnx::read_items(folder, "output", ports)? } else { Vec::new() };
    if items.len() > ports.len() {
        let (expected, got) = (items.len(), ports.len());
        return Err(onnx::Failure::Outputs { expected, got }.into());
    }
    let mut saved: Vec<_> = items.into_iter().map(Some).collect();
    if !saved.is_empty() {
        saved.resize_with(ports.len(), || None);
        return Ok(saved);
    }
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    for (port, stem) in ports.iter().zip(written::stems(&names)) {
        let (array, message) = (folder.join(format!("{stem}.npy")), folder.join(format!("{stem}.pb")));
        saved.push(if array.is_file() {
            let read = |source| Error::Read { path: array.clone(), source };
            let bytes = std::fs::read(&array).map_err(read)?;
            let tensor = TensorData::from_npy(bytes.into());
            let tensor = tensor.map_err(|e| Error::Tensor { path: array.clone(), source: e.into() })?;
            Some(OnnxValue::Tensor(tensor))
        } else if message.is_file() {
            Some(onnx::read_item(&message, &port.ty)?)
        } else {
            None
        });
    }
    if saved.iter().all(Option::is_none) {
        return Err(Error::NoOutputs { folder: folder.to_owned() });
    }
    Ok(saved)
}
