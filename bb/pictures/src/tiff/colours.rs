//! Converts the samples of a pixel in a TIFF to red, green and blue.

use super::Fault;
use super::directory::Directory;
use super::layout::{Format, Layout, PHOTOMETRIC};
use super::samples::most;
use crate::canvas::cmyk;

const COLOUR_MAP: u16 = 320;
const INK_SET: u16 = 332;
const EXTRA_SAMPLES: u16 = 338;
const COEFFICIENTS: u16 = 529;
const SUBSAMPLING: u16 = 530;
const BLACK_AND_WHITE: u16 = 532;

/// The conversion from the samples of a pixel to a colour.
#[derive(Debug)]
pub(super) struct Colours {
    model: ColourModel,
    /// The maximum value of a sample.
    most: u32,
    /// The index of the alpha sample, if the colours are premultiplied by it.
    alpha: Option<usize>,
}

#[derive(Debug)]
enum ColourModel {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    Palette(Vec<[u8; 3]>),
    Cmyk,
    YCbCr {
        /// The weights of red, green and blue in the luma.
        shares: [f64; 3],
        /// For luma, the values of black and white; for each chroma, the values of no colour and of full colour.
        ranges: [[f64; 2]; 3],
    },
    /// CIE L\*a\*b\* with signed a\* and b\*.
    Lab,
    /// CIE L\*a\*b\* as in ICC profiles, where a\* and b\* are stored with an offset of 128.
    IccLab,
}

impl Colours {
    /// Reads the photometric interpretation, and the tags that belong to it.
    pub(super) fn read(directory: &Directory<'_>, layout: &Layout) -> Result<Colours, Fault> {
        let photometric = directory.number(PHOTOMETRIC)?.ok_or_else(|| {
            Fault::Unsupported(
                "that does not say what its samples mean (PhotometricInterpretation)".to_owned(),
            )
        })?;
        let (model, colours) = match photometric {
            0 => (ColourModel::WhiteIsZero, 1),
            1 => (ColourModel::BlackIsZero, 1),
            2 => (ColourModel::Rgb, 3),
            3 => (ColourModel::Palette(palette(directory, layout)?), 1),
            5 if directory.number(INK_SET)?.unwrap_or(1) != 1 => {
                return Err(Fault::Unsupported("with other inks than CMYK".to_owned()));
            }
            5 => (ColourModel::Cmyk, 4),
            // Some files have only the luma.
            6 if layout.samples == 1 => (ColourModel::BlackIsZero, 1),
            6 => (y_cb_cr(directory, layout)?, 3),
            8 => (ColourModel::Lab, 3),
            9 => (ColourModel::IccLab, 3),
            other => {
                let name = match other {
                    4 => " (a mask of transparency)",
                    10 => " (CIE L*a*b* of ITU)",
                    32803 => " (a colour filter array)",
                    32844 | 32845 => " (LogLuv)",
                    34892 => " (linear raw samples)",
                    _ => "",
                };
                let problem =
                    format!("with photometric interpretation {other}{name}; expected 0 to 3, 5, 6, 8 or 9");
                return Err(Fault::Unsupported(problem));
            }
        };
        if layout.samples < colours {
            let problem = format!(
                "with photometric interpretation {photometric} and {} samples of a pixel; expected at least {colours}",
                layout.samples
            );
            return Err(Fault::Unsupported(problem));
        }
        let only = match model {
            ColourModel::Lab | ColourModel::IccLab => Some([8, 16]),
            ColourModel::YCbCr { .. } => Some([8, 8]),
            _ => None,
        };
        if let Some([one, other]) = only
            && (layout.format != Format::Unsigned || ![one, other].contains(&layout.bits))
        {
            let problem = format!(
                "with photometric interpretation {photometric} and {:?} samples of {} bits; expected unsigned ones of {one} or {other}",
                layout.format, layout.bits
            );
            return Err(Fault::Unsupported(problem));
        }
        let first_extra = directory.number(EXTRA_SAMPLES)?;
        let alpha = (first_extra == Some(1) && layout.samples > colours).then_some(colours);
        Ok(Colours { model, most: most(layout), alpha })
    }

    /// Returns the factor that converts floats to bytes.
    ///
    /// TIFF does not define which float is white. In grey images, floats are already in the range of bytes, as in Pillow,
    /// which is ONNX's reference. Pillow does not read floats in colour images; other programs write them from 0 to 1.
    pub(super) fn scale(&self) -> f64 {
        match self.model {
            ColourModel::WhiteIsZero | ColourModel::BlackIsZero | ColourModel::Palette(_) => 1.0,
            _ => 255.0,
        }
    }

    /// Returns the colour of a pixel.
    pub(super) fn rgb(&self, pixel: &[u32]) -> [u8; 3] {
        let sample = |i: usize| pixel.get(i).copied().unwrap_or(0);
        let colour = match &self.model {
            ColourModel::WhiteIsZero => [255 - self.byte(sample(0)); 3],
            ColourModel::BlackIsZero => [self.byte(sample(0)); 3],
            ColourModel::Rgb => [0, 1, 2].map(|i| self.byte(sample(i))),
            ColourModel::Palette(colours) => colours.get(sample(0) as usize).copied().unwrap_or_default(),
            ColourModel::Cmyk => cmyk([0, 1, 2, 3].map(|i| self.byte(sample(i)))),
            ColourModel::YCbCr { shares, ranges } => {
                y_cb_cr_to_rgb([0, 1, 2].map(|i| f64::from(sample(i))), *shares, *ranges)
            }
            ColourModel::Lab => {
                let signed = |i: usize| match self.most {
                    255 => f64::from(sample(i) as u8 as i8),
                    _ => f64::from(sample(i) as u16 as i16) / 256.0,
                };
                lab(f64::from(sample(0)) * 100.0 / f64::from(self.most), signed(1), signed(2))
            }
            ColourModel::IccLab => {
                // White is 0xff00 in 16 bits.
                let (step, white) = if self.most == 255 { (1.0, 255.0) } else { (256.0, 65280.0) };
                let shifted = |i: usize| f64::from(sample(i)) / step - 128.0;
                lab((f64::from(sample(0)) * 100.0 / white).min(100.0), shifted(1), shifted(2))
            }
        };
        match self.alpha.map(|at| u32::from(self.byte(sample(at)))) {
            // The colour of a transparent pixel is unknown, and an opaque colour is unchanged. Otherwise, undo the
            // premultiplication.
            None | Some(0 | 255) => colour,
            Some(alpha) => colour.map(|c| (u32::from(c) * 255 / alpha).min(255) as u8),
        }
    }

    /// Scales a sample to a byte, so that the maximum value becomes 255.
    fn byte(&self, sample: u32) -> u8 {
        let most = u64::from(self.most);
        if most == 255 { sample as u8 } else { ((u64::from(sample) * 255 + most / 2) / most) as u8 }
    }
}

/// Reads a palette. Only the upper 8 bits of its 16-bit values are used.
fn palette(directory: &Directory<'_>, layout: &Layout) -> Result<Vec<[u8; 3]>, Fault> {
    if layout.format != Format::Unsigned || layout.bits > 16 {
        let problem = format!(
            "with a palette and {:?} samples of {} bits; expected unsigned ones of up to 16",
            layout.format, layout.bits
        );
        return Err(Fault::Unsupported(problem));
    }
    let colours = 1usize << layout.bits;
    let numbers =
        directory.values(COLOUR_MAP)?.filter(|map| map.len() >= 3 * colours).ok_or(Fault::Damaged)?;
    let number = |i: usize| numbers.number(i).map(|number| (number >> 8) as u8).ok_or(Fault::Damaged);
    (0..colours).map(|i| Ok([number(i)?, number(colours + i)?, number(2 * colours + i)?])).collect()
}

/// Reads the parameters of the conversion from luma and chroma to RGB.
fn y_cb_cr(directory: &Directory<'_>, layout: &Layout) -> Result<ColourModel, Fault> {
    let subsampling = match directory.values(SUBSAMPLING)? {
        Some(values) => [0, 1].map(|i| values.number(i).unwrap_or(0)),
        None => [2, 2],
    };
    // A JPEG defines the subsampling of its chroma itself.
    if subsampling != [1, 1] && layout.compression != super::compression::JPEG {
        let problem = format!(
            "with chroma of fewer samples than luma ({subsampling:?}); expected [1, 1] except in JPEG"
        );
        return Err(Fault::Unsupported(problem));
    }
    let floats = |tag: u16, usual: &[f64]| -> Result<Vec<f64>, Fault> {
        let Some(values) = directory.values(tag)? else { return Ok(usual.to_vec()) };
        let float = |i: usize| values.float(i).filter(|v| v.is_finite()).ok_or(Fault::Damaged);
        (0..usual.len()).map(float).collect()
    };
    let shares = floats(COEFFICIENTS, &[0.299, 0.587, 0.114])?;
    let ranges = floats(BLACK_AND_WHITE, &[0.0, 255.0, 128.0, 255.0, 128.0, 255.0])?;
    let ([red, green, blue], [a, b, c, d, e, f]) = (shares.as_slice(), ranges.as_slice()) else {
        return Err(Fault::Damaged);
    };
    if *green == 0.0 || a == b || c == d || e == f {
        return Err(Fault::Damaged);
    }
    Ok(ColourModel::YCbCr { shares: [*red, *green, *blue], ranges: [[*a, *b], [*c, *d], [*e, *f]] })
}

fn nearest(number: f64) -> u8 {
    number.round().clamp(0.0, 255.0) as u8
}

fn y_cb_cr_to_rgb(samples: [f64; 3], [red, green, blue]: [f64; 3], ranges: [[f64; 2]; 3]) -> [u8; 3] {
    let [(y, [y0, y1]), (cb, [b0, b1]), (cr, [r0, r1])] = [0, 1, 2]
        .map(|i: usize| (samples.get(i).copied().unwrap_or(0.0), ranges.get(i).copied().unwrap_or_default()));
    let y = (y - y0) * 255.0 / (y1 - y0);
    let (cb, cr) = ((cb - b0) * 127.0 / (b1 - b0), (cr - r0) * 127.0 / (r1 - r0));
    let (r, b) = (cr * (2.0 - 2.0 * red) + y, cb * (2.0 - 2.0 * blue) + y);
    [r, (y - blue * b - red * r) / green, b].map(nearest)
}

/// Converts CIE L\*a\*b\* with the white point D50 to sRGB.
fn lab(l: f64, a: f64, b: f64) -> [u8; 3] {
    const WHITE: [f64; 3] = [0.9642, 1.0, 0.8249];
    /// The matrix from XYZ with the white point D50 to linear sRGB, with Bradford adaptation.
    const TO_RGB: [[f64; 3]; 3] = [
        [3.133_856_1, -1.616_866_7, -0.490_614_6],
        [-0.978_768_4, 1.916_141_5, 0.033_454_0],
        [0.071_945_3, -0.228_991_4, 1.405_242_7],
    ];
    let y = (l + 16.0) / 116.0;
    let powers = [y + a / 500.0, y, y - b / 200.0];
    let linear = powers.map(|f| if f > 6.0 / 29.0 { f.powi(3) } else { (f - 4.0 / 29.0) * 108.0 / 841.0 });
    let xyz: Vec<f64> = linear.iter().zip(WHITE).map(|(f, white)| f * white).collect();
    TO_RGB.map(|row| {
        let light: f64 = row.iter().zip(&xyz).map(|(factor, part)| factor * part).sum();
        let light = light.clamp(0.0, 1.0);
        let level = if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 };
        nearest(level * 255.0)
    })
}
