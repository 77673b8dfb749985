//! Detects speech with the crate `silero-vad-rust`, on the library in `ORT_DYLIB_PATH`.

use silero_vad_rust::silero_vad::model::{LoadOptions, load_silero_vad_with_options};

/// Generates four seconds of a sound like vowels, with pauses: the harmonics of a varying pitch, filtered by two resonances.
fn sound() -> Vec<f32> {
    let sample = |n: usize| {
        let t = n as f32 / 16000.0;
        let pitch = 120.0 + 20.0 * (t * 5.0).sin();
        let (first, second) = (500.0 + 250.0 * (t * 3.0).sin(), 1500.0 + 600.0 * (t * 2.0).cos());
        let loud =
            |f: f32| (-((f - first) / 150.0).powi(2)).exp() + 0.6 * (-((f - second) / 200.0).powi(2)).exp();
        let voice: f32 = (1..30)
            .map(|k| loud(k as f32 * pitch) * (std::f32::consts::TAU * k as f32 * pitch * t).sin())
            .sum();
        if (t * 1.5).fract() < 0.7 { 0.2 * voice } else { 0.0 }
    };
    (0..64000).map(sample).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for opset_version in [15, 16] {
        let mut model =
            load_silero_vad_with_options(LoadOptions { opset_version, ..LoadOptions::default() })?;
        let heard = model.audio_forward(&sound(), 16_000)?;
        for (at, probability) in heard.iter().enumerate() {
            println!("{opset_version} {at}: {probability:.3}");
        }
    }
    Ok(())
}
