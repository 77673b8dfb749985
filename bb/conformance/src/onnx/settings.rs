//! Reads the settings of a case: the file `data.json`.

use super::{Failure, Tolerance};
use serde_json::Value;
use std::path::Path;

/// The keys of `data.json`: the tolerances, and texts about the case. ONNX uses the first four.
const KEYS: [&str; 8] = ["rtol", "atol", "model_name", "url", "package", "version", "licence", "reason"];

/// The greatest tolerances, `rtol` and `atol`. Greater ones would accept any output.
const GREATEST: [f64; 2] = [1.0, 1e6];

/// Reads the tolerance from a case's `data.json`. Returns ONNX's tolerance if the case has none.
///
/// # Errors
///
/// [`Failure::Read`], and [`Failure::Content`] for unknown keys and for values that are no tolerances.
pub fn tolerance(case: &Path) -> Result<Tolerance, Failure> {
    let path = case.join("data.json");
    if !path.is_file() {
        return Ok(Tolerance::default());
    }
    let text = std::fs::read(&path).map_err(|source| Failure::Read { path: path.clone(), source })?;
    let json = serde_json::from_slice(&text).map_err(|e| Failure::Content {
        path: path.clone(),
        expected: "JSON",
        source: e.into(),
    })?;
    of(&json).map_err(|problem| Failure::Content {
        path,
        expected: "description of a case",
        source: problem.into(),
    })
}

/// Returns the tolerance of a description, or the problem with it.
fn of(json: &Value) -> Result<Tolerance, String> {
    let Some(object) = json.as_object() else { return Err(format!("expected an object, got {json}")) };
    if let Some(unknown) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let known = KEYS.map(|key| format!("`{key}`")).join(", ");
        return Err(format!("unknown key {unknown:?}; the keys are {known}"));
    }
    let number = |key: &str, usual: f64, greatest: f64| match object.get(key) {
        None => Ok(usual),
        Some(value) => value
            .as_f64()
            .filter(|x| (0.0..=greatest).contains(x))
            .ok_or_else(|| format!("expected a number from 0 to {greatest} as `{key}`, got {value}")),
    };
    let (usual, [relative, absolute]) = (Tolerance::default(), GREATEST);
    Ok(Tolerance {
        relative: number("rtol", usual.relative, relative)?,
        absolute: number("atol", usual.absolute, absolute)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_of_onnx_are_read() {
        let of_onnx = json!({ "rtol": 0.002, "atol": 1e-7, "model_name": "vgg19", "url": "https://x", "reason": "sums" });
        assert_eq!(of(&of_onnx), Ok(Tolerance { relative: 0.002, absolute: 1e-7 }));
        assert_eq!(of(&json!({})), Ok(Tolerance::default()));
    }

    #[test]
    fn wrong_settings_are_errors() {
        let cases = [
            (json!([1]), "expected an object, got [1]"),
            (
                json!({ "rtoll": 1 }),
                "unknown key \"rtoll\"; the keys are `rtol`, `atol`, `model_name`, `url`, `package`, `version`, `licence`, `reason`",
            ),
            (json!({ "rtol": "0.1" }), "expected a number from 0 to 1 as `rtol`, got \"0.1\""),
            (json!({ "rtol": null }), "expected a number from 0 to 1 as `rtol`, got null"),
            (json!({ "rtol": 1.5 }), "expected a number from 0 to 1 as `rtol`, got 1.5"),
            (json!({ "atol": -1 }), "expected a number from 0 to 1000000 as `atol`, got -1"),
            (json!({ "atol": 2e6 }), "expected a number from 0 to 1000000 as `atol`, got 2000000.0"),
        ];
        for (json, expected) in cases {
            assert_eq!(of(&json), Err(expected.to_owned()));
        }
    }
}
