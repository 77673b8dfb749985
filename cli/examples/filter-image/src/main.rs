//! Reads an image, filters it on any backend, and writes it as PNG.
//!
//! ```text
//! cargo run --release -p filter-image -- [--backend NAME] IN OUT.png FILTER[=NUMBER]…
//! ```
//!
//! The filters, with the meaning and the default of their number, are: `blur` (standard deviation in pixels, 2), `sharpen` (amount, 1),
//! `sobel`, `grayscale`, `threshold` (value from 0 to 1, 0.5), `brightness` (factor, 1.25), `contrast` (factor, 1.5), `invert`. They are
//! applied in the order of the arguments. Transparency is removed.

use bb::ext::{Border, SharpenOptions, SobelOptions};
use bb::{BackendHandle, DataType, RoundMode, Value};
use image::{ColorType, ImageReader};
use std::path::Path;
use std::process::ExitCode;

// These crates are imported only so that the linker includes the backends.
use bb_cpu as _;
#[cfg(feature = "wgpu")]
use bb_wgpu as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Applies a filter, in the syntax of the command line, to an image `[channels, height, width]` with values from 0 to 1.
fn filtered(x: &Value, filter: &str) -> Result<Value> {
    let (name, number) = match filter.split_once('=') {
        Some((name, number)) => (name, Some(number.parse::<f64>()?)),
        None => (filter, None),
    };
    let or = |default: f64| number.unwrap_or(default);
    let plain = |y: std::result::Result<Value, bb::Error>| match number {
        None => Ok(y?),
        Some(_) => Err(format!("`{name}` takes no number").into()),
    };
    match name {
        "blur" => Ok(x.gaussian_blur(or(2.0), Border::Reflect)?),
        "sharpen" => Ok(x.sharpen(SharpenOptions { amount: or(1.0), ..Default::default() })?),
        "sobel" => plain(x.sobel(SobelOptions::default())),
        "grayscale" if x.shape().first() == Some(&1) => plain(x.identity()),
        "grayscale" => plain(x.grayscale(-3, "bt601")),
        "threshold" => Ok(x.threshold(or(0.5))?),
        "brightness" => Ok(x.brightness(or(1.25))?),
        "contrast" => Ok(x.contrast(or(1.5))?),
        "invert" => plain(x.invert()),
        _ => {
            let known = "blur, sharpen, sobel, grayscale, threshold, brightness, contrast or invert";
            Err(format!("unknown filter `{name}`; expected {known}").into())
        }
    }
}

/// Filters the image `from`, and writes the result to `to`.
fn filter(on: &BackendHandle, from: &Path, to: &Path, filters: &[String]) -> Result<()> {
    let picture = ImageReader::open(from)?.with_guessed_format()?.decode()?.into_rgb8();
    let (width, height) = picture.dimensions();
    let bytes = on.tensor(&[height as usize, width as usize, 3], picture.as_raw())?;
    let numbers = bytes.cast(DataType::F32, true, RoundMode::Up)?.transpose(&[2, 0, 1])?;
    let mut x = (&numbers / &on.tensor(&[], &[255f32])?)?;
    for filter in filters {
        x = filtered(&x, filter)?;
    }
    let [zero, one, most] = [0f32, 1.0, 255.0].map(|number| on.tensor(&[], &[number]));
    let limited = (&x.clip(Some(&zero?), Some(&one?))? * &most?)?.round()?;
    let pixels = limited.transpose(&[1, 2, 0])?.cast(DataType::U8, true, RoundMode::Up)?;
    let colour = if pixels.shape().last() == Some(&1) { ColorType::L8 } else { ColorType::Rgb8 };
    let pixels = on.to_host(&pixels)?;
    image::save_buffer_with_format(
        to,
        pixels.as_slice::<u8>()?,
        width,
        height,
        colour,
        image::ImageFormat::Png,
    )?;
    Ok(())
}

fn main() -> Result<ExitCode> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut backend = "cpu".to_owned();
    if words.first().is_some_and(|word| word == "--backend") && words.len() > 1 {
        backend = words.remove(1);
        words.remove(0);
    }
    let [from, to, filters @ ..] = words.as_slice() else {
        eprintln!("usage: filter-image [--backend NAME] IN OUT.png FILTER[=NUMBER]…");
        return Ok(ExitCode::FAILURE);
    };
    filter(&bb::backend(&backend)?, Path::new(from), Path::new(to), filters)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_reference as _;
    use bb_whole_graph as _;

    /// Writes an image, filters it, and reads the result.
    fn run(backend: &str, [width, height]: [u32; 2], pixels: &[u8], filters: &[&str]) -> (u8, Vec<u8>) {
        let name = format!("bb-filter-image-{}-{backend}-{}", std::process::id(), filters.join("-"));
        let [from, to] = ["in", "out"].map(|part| std::env::temp_dir().join(format!("{name}-{part}.png")));
        image::save_buffer(&from, pixels, width, height, ColorType::Rgb8).unwrap();
        let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
        filter(&bb::backend(backend).unwrap(), &from, &to, &filters).unwrap();
        let picture = image::open(&to).unwrap();
        assert_eq!((picture.width(), picture.height()), (width, height));
        std::fs::remove_file(from).unwrap();
        std::fs::remove_file(to).unwrap();
        (picture.color().channel_count(), picture.into_bytes())
    }

    #[test]
    fn pixels_are_those_of_the_formulas_on_every_backend() {
        let pixels = [255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30];
        for backend in ["cpu", "reference", "whole-graph"] {
            assert_eq!(run(backend, [2, 2], &pixels, &[]), (3, pixels.to_vec()));
            assert_eq!(run(backend, [2, 2], &pixels, &["invert", "invert"]), (3, pixels.to_vec()));
            // The expected values are 255 * 0.299, 255 * 0.587, 255 * 0.114, and 10 * 0.299 + 20 * 0.587 + 30 * 0.114.
            assert_eq!(run(backend, [2, 2], &pixels, &["grayscale"]), (1, vec![76, 150, 29, 18]));
            assert_eq!(
                run(backend, [2, 2], &pixels, &["grayscale", "threshold=0.5"]),
                (1, vec![0, 255, 0, 0])
            );
            assert_eq!(run(backend, [2, 2], &pixels, &["brightness=0.5"]).1[9..], [5, 10, 15]);
        }
    }

    /// In an image of one colour, all pixels equal their neighbours, so these filters do not change it.
    #[test]
    fn even_pictures_stay_even() {
        let pixels = [90u8; 5 * 4 * 3];
        for filters in [&["blur=1.5"][..], &["sharpen"], &["contrast=3"], &["blur", "sharpen=2"]] {
            assert_eq!(run("cpu", [5, 4], &pixels, filters), (3, pixels.to_vec()), "{filters:?}");
        }
        assert_eq!(run("cpu", [5, 4], &pixels, &["sobel"]), (3, vec![0; 60]));
    }

    #[test]
    fn mistakes_in_filters_are_errors() {
        let on = bb::backend("cpu").unwrap();
        let x = on.zeros(&[3, 2, 2], DataType::F32).unwrap();
        for filter in ["emboss", "blur=much", "blur=-1", "sobel=2", ""] {
            assert!(filtered(&x, filter).is_err(), "{filter}");
        }
    }
}
