//! The names of a model's classes, and the conversion of outputs to the classes with the greatest values.
//!
//! This is Triton's extension for classification: an output becomes strings `VALUE:INDEX` or `VALUE:INDEX:LABEL`, in descending order of
//! the values.

use crate::error::Error;
use crate::held_bytes::Lease;
use crate::refusal::Refusal;
use bb::{DataType, TensorData, bf16, f16};
use bb_ir::{Element, StringsBuilder};
use std::cmp::Ordering;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// The maximum size of a file of labels, in bytes.
const BYTES: u64 = 16 << 20;

/// The names of classes, by their index.
#[derive(Debug)]
pub(crate) struct Labels {
    /// The name of the file.
    pub(crate) file: String,
    text: String,
    /// The end offset of each label in `text`.
    ends: Vec<usize>,
}

impl Labels {
    /// Reads a file with a label on each line.
    pub(crate) fn read(model: &str, path: &Path) -> Result<Labels, Error> {
        let wrong = |source| Error::Labels { model: model.to_owned(), path: path.to_owned(), source };
        let mut read = String::new();
        let file = std::fs::File::open(path).map_err(wrong)?;
        file.take(BYTES + 1).read_to_string(&mut read).map_err(wrong)?;
        if read.len() as u64 > BYTES {
            return Err(wrong(std::io::ErrorKind::FileTooLarge.into()));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (mut text, mut ends) = (String::with_capacity(read.len()), Vec::new());
        for line in read.lines() {
            text.push_str(line);
            ends.push(text.len());
        }
        Ok(Labels { file, text, ends })
    }

    fn get(&self, index: usize) -> Option<&str> {
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(index)?).filter(|label| !label.is_empty())
    }
}

/// Returns the `most` greatest elements of an output as strings. If `rows` is true, selects them separately in each row of the first
/// dimension.
pub(crate) fn classified(
    output: &str,
    x: &TensorData,
    most: usize,
    rows: bool,
    labels: Option<&Labels>,
    lease: &Lease,
) -> Result<TensorData, Refusal> {
    let of = Of { output, x, most, rows, labels, lease };
    match x.dtype() {
        DataType::U8 => of.texts::<u8>(Ord::cmp, integer),
        DataType::U16 => of.texts::<u16>(Ord::cmp, integer),
        DataType::U32 => of.texts::<u32>(Ord::cmp, integer),
        DataType::U64 => of.texts::<u64>(Ord::cmp, integer),
        DataType::I8 => of.texts::<i8>(Ord::cmp, integer),
        DataType::I16 => of.texts::<i16>(Ord::cmp, integer),
        DataType::I32 => of.texts::<i32>(Ord::cmp, integer),
        DataType::I64 => of.texts::<i64>(Ord::cmp, integer),
        DataType::F16 => of.texts::<f16>(|a, b| float(a.to_f64(), b.to_f64()), |x, to| six(x.to_f64(), to)),
        DataType::BF16 => of.texts::<bf16>(|a, b| float(a.to_f64(), b.to_f64()), |x, to| six(x.to_f64(), to)),
        DataType::F32 => of.texts::<f32>(|a, b| float((*a).into(), (*b).into()), |x, to| six(x.into(), to)),
        DataType::F64 => of.texts::<f64>(|a, b| float(*a, *b), six),
        other => Err(Refusal::NotClassified { output: output.to_owned(), got: other }),
    }
}

/// Compares floats. NaN is less than all numbers.
fn float(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn integer<T: std::fmt::Display>(x: T, to: &mut String) {
    // Writing to a string cannot fail.
    let _never = write!(to, "{x}");
}

/// Writes a float with six decimal places, like Triton.
fn six(x: f64, to: &mut String) {
    let _never = write!(to, "{x:.6}");
}

struct Of<'a> {
    output: &'a str,
    x: &'a TensorData,
    most: usize,
    rows: bool,
    labels: Option<&'a Labels>,
    lease: &'a Lease,
}

impl Of<'_> {
    fn texts<T: Element + Copy>(
        &self,
        compare: impl Fn(&T, &T) -> Ordering,
        write: impl Fn(T, &mut String),
    ) -> Result<TensorData, Refusal> {
        let tensor = |source| Refusal::Classes { output: self.output.to_owned(), source };
        let elements = self.x.as_slice::<T>().map_err(tensor)?;
        let (rows, width) = match self.x.shape().split_first() {
            Some((rows, others)) if self.rows => (*rows, others.iter().product()),
            _ => (1, elements.len()),
        };
        let most = self.most.min(width);
        self.lease.grow(width.saturating_mul(size_of::<usize>()))?;
        let mut built =
            StringsBuilder::with_room("classifying", rows.saturating_mul(most)).map_err(tensor)?;
        let (mut order, mut text): (Vec<usize>, String) = (Vec::with_capacity(width), String::new());
        for row in elements.chunks_exact(width.max(1)) {
            order.clear();
            order.extend(0..width);
            // Equal values stay in the order of their indices.
            let by = |a: &usize, b: &usize| match (row.get(*a), row.get(*b)) {
                (Some(x), Some(y)) => compare(y, x).then(a.cmp(b)),
                _ => a.cmp(b),
            };
            if most < width {
                order.select_nth_unstable_by(most, by);
                order.truncate(most);
            }
            order.sort_unstable_by(by);
            for index in &order {
                text.clear();
                if let Some(x) = row.get(*index) {
                    write(*x, &mut text);
                }
                let _never = write!(text, ":{index}");
                if let Some(label) = self.labels.and_then(|labels| labels.get(*index)) {
                    text.push(':');
                    text.push_str(label);
                }
                self.lease.grow(text.len() + 2 * size_of::<usize>())?;
                built.push(&text).map_err(tensor)?;
            }
        }
        let shape = if self.rows && !self.x.shape().is_empty() { vec![rows, most] } else { vec![most] };
        built.finish(&shape).map_err(tensor)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::held_bytes::HeldBytes;

    fn classes(x: &TensorData, most: usize, rows: bool) -> (Vec<usize>, Vec<String>) {
        let lease = HeldBytes::new(1 << 20).lease();
        let texts = classified("y", x, most, rows, None, &lease).unwrap();
        (texts.shape().to_vec(), texts.iter_str().map(std::borrow::Cow::into_owned).collect())
    }

    #[test]
    fn the_greatest_values_come_first_and_nan_last() {
        let x = TensorData::new(&[2, 3], &[1f32, f32::NAN, 2.5, -1.0, f32::INFINITY, -1.0]).unwrap();
        let (shape, texts) = classes(&x, 2, true);
        assert_eq!(
            (shape, texts),
            (
                vec![2, 2],
                ["2.500000:2", "1.000000:0", "inf:4", "-1.000000:0"]
                    .map(|text| text.replace("inf:4", "inf:1"))
                    .to_vec()
            )
        );
        let (shape, texts) = classes(&x, 100, false);
        assert_eq!(shape, [6]);
        assert_eq!(texts.first().unwrap(), "inf:4");
        assert_eq!(texts.last().unwrap(), "NaN:1");
    }

    #[test]
    fn integers_keep_all_digits_and_nothing_has_no_classes() {
        let x = TensorData::new(&[2], &[u64::MAX, u64::MAX - 1]).unwrap();
        assert_eq!(classes(&x, 1, false).1, ["18446744073709551615:0"]);
        let x = TensorData::new(&[0, 3], &[0f32; 0]).unwrap();
        assert_eq!(classes(&x, 2, true), (vec![0, 2], vec![]));
        assert_eq!(classes(&TensorData::scalar(3i8), 2, true), (vec![1], vec!["3:0".to_owned()]));
        let x = TensorData::new(&[3, 0], &[0f32; 0]).unwrap();
        assert_eq!(classes(&x, 2, true), (vec![3, 0], vec![]));
    }
}
