//! Compares outputs with the expected ones, as ONNX does.

use bb_core::operator::OnnxValue;
use bb_ir::convert::{Rounding, cast};
use bb_ir::text::sentence;
use bb_ir::{DataType, TensorData};

/// The allowed distance from the expected element: `absolute + relative * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The part that is proportional to the expected value.
    pub relative: f64,
    /// The constant part.
    pub absolute: f64,
}

impl Default for Tolerance {
    /// Returns ONNX's tolerance, from `onnx.backend.test.runner`.
    fn default() -> Self {
        Tolerance { relative: 1e-3, absolute: 1e-7 }
    }
}

/// The relative tolerance of bfloat16, which has 8 bits of precision.
const BFLOAT16: f64 = 1.0 / 64.0;

/// The difference between an output and the expected one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The element type differs.
    #[error("expected element type {expected}, got {got}")]
    Type {
        /// The expected type.
        expected: DataType,
        /// The actual type.
        got: DataType,
    },

    /// The shape differs.
    #[error("expected shape {expected:?}, got {got:?}")]
    Shape {
        /// The expected shape.
        expected: Box<[usize]>,
        /// The actual shape.
        got: Box<[usize]>,
    },

    /// The kinds of value differ, for instance a tensor and a sequence.
    #[error("expected {expected}, got {got}", expected = sentence(.expected), got = sentence(.got))]
    Structure {
        /// The expected kind.
        expected: String,
        /// The actual kind.
        got: String,
    },

    /// An item of a sequence differs.
    #[error("item {index}")]
    Item {
        /// The index of the item in the sequence.
        index: usize,
        /// The difference.
        #[source]
        source: Box<Difference>,
    },

    /// An element differs by more than the tolerance.
    #[error(
        "element {index}{}: expected {expected}, got {got}; {count} of {elements} {}",
        at(.place), differ(*.elements, *.tolerance),
        expected = sentence(.expected), got = sentence(.got)
    )]
    Element {
        /// The row-major index of the first element that differs.
        index: usize,
        /// The index of this element in each dimension.
        place: Box<[usize]>,
        /// The expected element.
        expected: String,
        /// The actual element.
        got: String,
        /// The number of elements that differ.
        count: usize,
        /// The number of elements of the tensor.
        elements: usize,
        /// The tolerance; both parts are 0 if the elements must be equal.
        tolerance: Tolerance,
    },

    /// The elements cannot be compared.
    #[error(transparent)]
    Elements(#[from] bb_ir::Error),
}

/// Formats the index in each dimension of an element, if it says more than the row-major index.
fn at(place: &[usize]) -> String {
    if place.len() > 1 { format!(" at {place:?}") } else { String::new() }
}

/// Formats the tolerance that the elements exceed.
fn differ(elements: usize, tolerance: Tolerance) -> String {
    let differ = if elements == 1 { "element differs" } else { "elements differ" };
    if tolerance == Tolerance::NONE {
        return differ.to_owned();
    }
    let [absolute, relative] = [tolerance.absolute, tolerance.relative].map(number);
    format!("{differ} by more than {absolute} + {relative} * |expected|")
}

/// Formats a number with the fewest digits, and with an exponent if it is very large or very small.
fn number(x: f64) -> String {
    let usual = x == 0.0 || !x.is_finite() || (1e-5..1e16).contains(&x.abs());
    if usual { x.to_string() } else { format!("{x:e}") }
}

impl Tolerance {
    /// The tolerance for elements that must be equal.
    const NONE: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

    /// Returns the tolerance for an element type. ONNX's tolerance is for rounding errors, so that integers, booleans and
    /// strings must be equal, unless the caller chose another tolerance. The relative tolerance of bfloat16 is at least 2^-6.
    fn for_type(self, dtype: DataType) -> Tolerance {
        use DataType::{Bool, I2, I4, U2, U4};
        let is_exact = dtype.is_integer() || matches!(dtype, Bool | I2 | I4 | U2 | U4);
        match dtype {
            DataType::String => Tolerance::NONE,
            DataType::BF16 => Tolerance { relative: self.relative.max(BFLOAT16), ..self },
            _ if is_exact && self == Tolerance::default() => Tolerance::NONE,
            _ => self,
        }
    }

    /// Returns whether a number is near the expected one. An infinity equals only itself, although its relative tolerance
    /// would be infinite.
    fn accepts(self, expected: f64, got: f64) -> bool {
        let near = || (expected - got).abs() <= self.absolute + self.relative * expected.abs();
        expected == got || (expected.is_nan() && got.is_nan()) || (expected.is_finite() && near())
    }
}

/// Compares an output with the expected one, as ONNX's own test runner does.
///
/// NaN equals NaN. The relative tolerance of bfloat16 is at least 2^-6. Unlike ONNX's runner, the default tolerance
/// requires integers and booleans to be equal.
///
/// # Errors
///
/// The first [`Difference`].
pub fn compare(expected: &TensorData, got: &TensorData, tolerance: Tolerance) -> Result<(), Difference> {
    if expected.dtype() != got.dtype() {
        return Err(Difference::Type { expected: expected.dtype(), got: got.dtype() });
    }
    if expected.shape() != got.shape() {
        return Err(Difference::Shape { expected: expected.shape().into(), got: got.shape().into() });
    }
    let tolerance = tolerance.for_type(expected.dtype());
    let (dtype, wide) = (expected.dtype(), (widened(expected)?, widened(got)?));
    let pairs = elements(&wide.0, dtype)?.zip(elements(&wide.1, dtype)?);
    let mut different = pairs.enumerate().filter(|(_, (e, g))| !e.is_near(g, tolerance));
    match different.next() {
        None => Ok(()),
        Some((index, (e, g))) => Err(Difference::Element {
            index,
            place: place(index, expected.shape()),
            expected: e.to_string(),
            got: g.to_string(),
            count: 1 + different.count(),
            elements: expected.len(),
            tolerance,
        }),
    }
}

/// Compares an output, which may be a sequence, an optional or a map, with the expected one.
///
/// # Errors
///
/// The first [`Difference`].
pub fn compare_items(
    expected: &OnnxValue<TensorData>,
    got: &OnnxValue<TensorData>,
    tolerance: Tolerance,
) -> Result<(), Difference> {
    of_items(expected, got, &|expected, got| compare(expected, got, tolerance))
}

/// Compares the tensors of two values of the same structure.
pub(super) fn of_items(
    expected: &OnnxValue<TensorData>,
    got: &OnnxValue<TensorData>,
    tensors: &dyn Fn(&TensorData, &TensorData) -> Result<(), Difference>,
) -> Result<(), Difference> {
    match (expected, got) {
        (OnnxValue::Tensor(expected), OnnxValue::Tensor(got)) => tensors(expected, got),
        (OnnxValue::Absent, OnnxValue::Absent) => Ok(()),
        (OnnxValue::Sequence(expected), OnnxValue::Sequence(got)) if expected.len() == got.len() => {
            for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
                of_items(expected, got, tensors)
                    .map_err(|source| Difference::Item { index, source: Box::new(source) })?;
            }
            Ok(())
        }
        (OnnxValue::Map { keys, values }, OnnxValue::Map { keys: got_keys, values: got }) => {
            tensors(keys, got_keys)?;
            tensors(values, got)
        }
        _ => Err(Difference::Structure { expected: described(expected), got: described(got) }),
    }
}

/// Describes the kind of a value.
pub(super) fn described(item: &OnnxValue<TensorData>) -> String {
    match item {
        OnnxValue::Sequence(items) => format!("a sequence of {}", items.len()),
        other => other.kind().to_owned(),
    }
}

/// An element, as it is compared and displayed.
enum Element<'a> {
    /// A string, which is compared by its bytes and displayed as text.
    Text(&'a [u8]),
    Truth(bool),
    /// An integer. Floats of 64 bits do not hold all of them.
    Integer(i128),
    Number(f64),
    Complex(f64, f64),
}

impl Element<'_> {
    fn is_near(&self, got: &Element<'_>, tolerance: Tolerance) -> bool {
        match (self, got) {
            (Element::Text(e), Element::Text(g)) => e == g,
            (Element::Truth(e), Element::Truth(g)) => {
                tolerance.accepts(f64::from(u8::from(*e)), f64::from(u8::from(*g)))
            }
            (Element::Integer(e), Element::Integer(g)) => {
                // Both are integers of 64 bits or less, so that the difference does not overflow.
                (e - g).unsigned_abs() as f64 <= tolerance.absolute + tolerance.relative * (*e as f64).abs()
            }
            (Element::Number(e), Element::Number(g)) => tolerance.accepts(*e, *g),
            (Element::Complex(e, ei), Element::Complex(g, gi)) => {
                tolerance.accepts(*e, *g) && tolerance.accepts(*ei, *gi)
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Element::Text(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Element::Truth(truth) => truth.fmt(f),
            Element::Integer(integer) => integer.fmt(f),
            Element::Number(x) => f.write_str(&number(*x)),
            Element::Complex(re, im) => write!(f, "{}+i·{}", number(*re), number(*im)),
        }
    }
}

/// Returns the index in each dimension of the element with this row-major index.
fn place(index: usize, shape: &[usize]) -> Box<[usize]> {
    let mut rest = index;
    let mut places: Vec<usize> = Vec::with_capacity(shape.len());
    for extent in shape.iter().rev() {
        // A tensor with an element has no extent of 0.
        places.push(rest % (*extent).max(1));
        rest /= (*extent).max(1);
    }
    places.reverse();
    places.into()
}

/// Returns a tensor of one of the few element types that [`elements`] reads: bytes for booleans, 64 bits for numbers, the
/// parts of complex numbers.
fn widened(x: &TensorData) -> Result<TensorData, bb_ir::Error> {
    let to = |dtype| cast(x, dtype, Rounding::default());
    // A complex number consists of two floats of half the width, interleaved.
    let parts = |dtype| TensorData::adopt(dtype, &[2 * x.len()], x.bytes()?.clone());
    match x.dtype() {
        DataType::String | DataType::U64 => Ok(x.clone()),
        DataType::Bool => to(DataType::U8),
        DataType::C64 => parts(DataType::F32),
        DataType::C128 => parts(DataType::F64),
        dtype if dtype.is_integer() => to(DataType::I64),
        _ => to(DataType::F64),
    }
}

/// Returns the elements of a tensor of type `dtype`, which was [`widened`].
fn elements(
    widened: &TensorData,
    dtype: DataType,
) -> Result<Box<dyn Iterator<Item = Element<'_>> + '_>, bb_ir::Error> {
    Ok(match widened.dtype() {
        DataType::String => Box::new(widened.iter_bytes().map(Element::Text)),
        DataType::U8 => Box::new(widened.as_slice::<u8>()?.iter().map(|x| Element::Truth(*x != 0))),
        DataType::U64 => Box::new(widened.as_slice::<u64>()?.iter().map(|&x| Element::Integer(x.into()))),
        DataType::I64 => Box::new(widened.as_slice::<i64>()?.iter().map(|&x| Element::Integer(x.into()))),
        DataType::F32 => {
            let pairs = widened.as_slice::<f32>()?.as_chunks::<2>().0;
            Box::new(pairs.iter().map(|&[re, im]| Element::Complex(re.into(), im.into())))
        }
        _ if dtype == DataType::C128 => {
            let pairs = widened.as_slice::<f64>()?.as_chunks::<2>().0;
            Box::new(pairs.iter().map(|&[re, im]| Element::Complex(re, im)))
        }
        _ => Box::new(widened.as_slice::<f64>()?.iter().map(|&x| Element::Number(x))),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn floats(x: &[f32]) -> TensorData {
        TensorData::new(&[x.len()], x).unwrap()
    }

    #[test]
    fn nan_equals_nan_and_infinity_itself() {
        let x = floats(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(compare(&x, &x, Tolerance::default()).is_ok());
        assert!(compare(&x, &floats(&[f32::NAN, f32::INFINITY, 0.0]), Tolerance::default()).is_err());
        assert!(compare(&floats(&[1.0]), &floats(&[f32::NAN]), Tolerance::default()).is_err());
    }

    #[test]
    fn tolerance_is_relative_to_the_expected_value() {
        assert!(compare(&floats(&[1000.0]), &floats(&[1000.9]), Tolerance::default()).is_ok());
        assert!(compare(&floats(&[1000.0]), &floats(&[1001.1]), Tolerance::default()).is_err());
    }

    #[test]
    fn shapes_and_types_are_compared() {
        let x = TensorData::scalar(1f32);
        assert!(matches!(compare(&x, &floats(&[1.0]), Tolerance::default()), Err(Difference::Shape { .. })));
        assert!(matches!(
            compare(&x, &TensorData::scalar(1f64), Tolerance::default()),
            Err(Difference::Type { .. })
        ));
    }

    fn message(expected: &TensorData, got: &TensorData) -> String {
        compare(expected, got, Tolerance::default()).unwrap_err().to_string()
    }

    /// The default tolerance is for rounding errors of floats.
    #[test]
    fn integers_are_equal_or_differ() {
        let ints = |x: i64| TensorData::new(&[1], &[x]).unwrap();
        assert_eq!(
            message(&ints(1000), &ints(1001)),
            "element 0: expected 1000, got 1001; 1 of 1 element differs"
        );
        // As floats of 64 bits, these are equal.
        assert_eq!(
            message(&ints(i64::MAX), &ints(i64::MAX - 1)),
            "element 0: expected 9223372036854775807, got 9223372036854775806; 1 of 1 element differs"
        );
        let large = |x: u64| TensorData::new(&[1], &[x]).unwrap();
        assert_eq!(
            message(&large(u64::MAX), &large(0)),
            "element 0: expected 18446744073709551615, got 0; 1 of 1 element differs"
        );
        assert!(compare(&ints(1000), &ints(1001), Tolerance { relative: 2e-3, absolute: 0.0 }).is_ok());
    }

    #[test]
    fn elements_are_displayed_as_their_type() {
        let x = TensorData::new(&[2, 2], &[1f32, 2.0, 3.0, f32::MAX]).unwrap();
        let got = TensorData::new(&[2, 2], &[1f32, 2.0, 3.5, 0.0]).unwrap();
        assert_eq!(
            message(&x, &got),
            "element 2 at [1, 0]: expected 3, got 3.5; 2 of 4 elements differ by more than 1e-7 + 0.001 * |expected|"
        );
        assert!(
            message(&floats(&[f32::MAX]), &floats(&[1e-30]))
                .contains("expected 3.4028234663852886e38, got 1")
        );
        let [yes, no] = [true, false].map(|truth| TensorData::bools(&[1], &[truth]).unwrap());
        assert_eq!(message(&yes, &no), "element 0: expected true, got false; 1 of 1 element differs");
        let [a, b] = ["a", "b"].map(|text| TensorData::strings(&[1], &[text]).unwrap());
        assert_eq!(message(&a, &b), "element 0: expected \"a\", got \"b\"; 1 of 1 element differs");
    }

    /// The index counts complex numbers, not their parts.
    #[test]
    fn complex_numbers_are_displayed_whole() {
        let complex = |parts: [f32; 4]| {
            let parts = TensorData::new(&[4], &parts).unwrap();
            TensorData::adopt(DataType::C64, &[2], parts.bytes().unwrap().clone()).unwrap()
        };
        assert_eq!(
            message(&complex([1.0, 2.0, 3.0, 4.0]), &complex([1.0, 2.0, 3.0, -4.0])),
            "element 1: expected 3+i·4, got 3+i·-4; 1 of 2 elements differ by more than 1e-7 + 0.001 * |expected|"
        );
    }
}
