//! Runs a tree model with the minimal features of `bb`.
//!
//! ```text
//! cargo run --release -p smallest -- 0.57730556 0.506829 0.14141674 0.8114217
//! ```

use bb::{CompileOptions, Module};

use bb_cpu as _; // the import makes the linker include the backend

/// A regression model of gradient-boosted trees, with operators of the domain `ai.onnx.ml`.
const MODEL: &[u8] = include_bytes!("../../../../tests/data/models/surfaces_gbr/model.onnx");

/// Computes the height of a surface at a point with four coordinates.
fn height(point: &[f32]) -> Result<f32, Box<dyn std::error::Error>> {
    let cpu = bb::backend("cpu")?;
    let model = cpu.compile(Module::from_bytes(MODEL)?, &CompileOptions::default())?;
    let outputs = model.run_named(&[("input", &cpu.tensor(&[1, point.len()], point)?)])?;
    let height = outputs.get("variable").ok_or("the model has no `variable`")?.to_host(1024)?;
    Ok(*height.as_slice::<f32>()?.first().ok_or("the model gives no number")?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let point = std::env::args().skip(1).map(|number| number.parse()).collect::<Result<Vec<f32>, _>>()?;
    println!("{}", height(&point)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::height;

    #[test]
    fn the_height_is_that_of_onnx_runtime() {
        let height = height(&[0.57730556, 0.506829, 0.14141674, 0.8114217]).unwrap_or(f32::NAN);
        assert!((height - 0.26850086).abs() < 1e-5, "{height}");
    }
}
