//! Option values that have parts, as in `NAME=N`.

use bb_ir::text::sentence;

/// `NAME=N`: the extent of a symbolic dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DimArg {
    pub(crate) name: String,
    pub(crate) extent: usize,
}

/// `INPUT=N,N,…`: the shape of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) input: String,
    pub(crate) extents: Vec<usize>,
}

/// `LO..HI`, or `INPUT=LO..HI`: the range of random numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Range {
    pub(crate) input: Option<String>,
    pub(crate) low: f64,
    /// Greater than `low`, and itself not in the range.
    pub(crate) high: f64,
}

/// `NAME=VALUE`: a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// `N` or `Ss`: a number of runs, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Runs(usize),
    Seconds(f64),
}

/// Why the value of an option is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("expected {expected}")]
    Form { expected: &'static str },

    #[error("`{text}` is not a number from 0 to {}", usize::MAX, text = sentence(.text))]
    Extent { text: String },

    #[error("`{text}` is not a finite number", text = sentence(.text))]
    Number { text: String },

    #[error("expected a number other than 0, because it is a divisor")]
    Zero,

    #[error("{low} is not less than {high}")]
    EmptyRange { low: f64, high: f64 },

    #[error(transparent)]
    Limit(Box<bb_ir::Error>),

    #[error("`{text}` is not {}", bb_ir::BYTES_FORM, text = sentence(.text))]
    Bytes { text: String },

    #[error("expected more than 0 seconds and at most {}", SECONDS)]
    Seconds,

    #[error("expected a number that is not negative, as in 1e-3")]
    Tolerance,

    #[error("expected a number of runs, as in 10, or of seconds, as in 2.5s")]
    Runs,

    #[error("expected 1 to {most}, which is 16 for each processor and at least 256")]
    Threads { most: usize },

    #[cfg(feature = "serve")]
    #[error("expected a number from 1 to {most}")]
    Count { most: usize },
}

impl DimArg {
    pub(crate) fn parse(text: &str) -> Result<DimArg, ValueError> {
        let (name, extent) = named(text, "NAME=N, as in batch=8")?;
        Ok(DimArg { name: name.to_owned(), extent: self::extent(extent)? })
    }
}

impl Shape {
    pub(crate) fn parse(text: &str) -> Result<Shape, ValueError> {
        let (input, extents) = named(text, "INPUT=N,N,…, as in x=1,3,224,224")?;
        let extents = match extents.trim() {
            "" => Vec::new(),
            extents => extents.split(',').map(extent).collect::<Result<_, _>>()?,
        };
        Ok(Shape { input: input.to_owned(), extents })
    }
}

impl Range {
    pub(crate) fn parse(text: &str) -> Result<Range, ValueError> {
        let form = ValueError::Form { expected: "LO..HI or INPUT=LO..HI, as in -1..1" };
        let (input, range) = match text.rsplit_once('=') {
            Some((input, range)) => (Some(input.to_owned()), range),
            None => (None, text),
        };
        let (low, high) = range.split_once("..").ok_or(form)?;
        let (low, high) = (finite(low)?, finite(high)?);
        if low < high { Ok(Range { input, low, high }) } else { Err(ValueError::EmptyRange { low, high }) }
    }
}

impl Limit {
    pub(crate) fn parse(text: &str) -> Result<Limit, ValueError> {
        let (name, value) = named(text, "NAME=VALUE, as in nodes=5000000")?;
        match bb_ir::Limits::default().set(name, value) {
            Err(error @ bb_ir::Error::LimitValue { .. }) => Err(ValueError::Limit(Box::new(error))),
            // An unknown name is reported when the model is loaded, with a list of all limits.
            _ => Ok(Limit { name: name.to_owned(), value: value.to_owned() }),
        }
    }
}

/// Parses a number that is neither NaN nor infinite.
pub(crate) fn finite(text: &str) -> Result<f64, ValueError> {
    let number = text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    number.ok_or_else(|| ValueError::Number { text: text.to_owned() })
}

/// Parses a number that is not zero, because it is a divisor.
pub(crate) fn deviation(text: &str) -> Result<f64, ValueError> {
    finite(text).and_then(|number| if number == 0.0 { Err(ValueError::Zero) } else { Ok(number) })
}

impl Amount {
    pub(crate) fn parse(text: &str) -> Result<Amount, ValueError> {
        match text.strip_suffix('s') {
            Some(text) => seconds(text).map(Amount::Seconds),
            None => text.parse::<u32>().map(|runs| Amount::Runs(runs as usize)).map_err(|_| ValueError::Runs),
        }
    }
}

/// The longest time for runs in seconds: a day.
const SECONDS: f64 = 86_400.0;

/// Parses a time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, ValueError> {
    text.trim().parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= SECONDS).ok_or(ValueError::Seconds)
}

/// Parses a number of seconds that may be 0.
#[cfg(feature = "serve")]
pub(crate) fn seconds_or_none(text: &str) -> Result<f64, ValueError> {
    match text.trim().parse::<f64>() {
        Ok(0.0) => Ok(0.0),
        _ => seconds(text),
    }
}

/// Parses a tolerance.
pub(crate) fn tolerance(text: &str) -> Result<f64, ValueError> {
    text.trim().parse::<f64>().ok().filter(|t| *t >= 0.0).ok_or(ValueError::Tolerance)
}

/// Parses a number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, ValueError> {
    let most = bb::most_threads();
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or(ValueError::Threads { most })
}

/// The greatest number of requests, connections or rows that an option may set.
#[cfg(feature = "serve")]
const COUNTED: usize = 1 << 20;

/// Parses a number of requests, connections or rows.
#[cfg(feature = "serve")]
pub(crate) fn count(text: &str) -> Result<usize, ValueError> {
    text.parse().ok().filter(|n| (1..=COUNTED).contains(n)).ok_or(ValueError::Count { most: COUNTED })
}

/// Splits at the last `=`, because names may contain one.
fn named<'a>(text: &'a str, expected: &'static str) -> Result<(&'a str, &'a str), ValueError> {
    text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or(ValueError::Form { expected })
}

fn extent(text: &str) -> Result<usize, ValueError> {
    text.trim().parse().map_err(|_| ValueError::Extent { text: text.to_owned() })
}

/// Parses a number of bytes.
pub(crate) fn bytes(text: &str) -> Result<usize, ValueError> {
    bb_ir::parse_bytes(text).ok_or_else(|| ValueError::Bytes { text: text.to_owned() })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_equals_signs() {
        assert_eq!(DimArg::parse("a=b=3").unwrap(), DimArg { name: "a=b".to_owned(), extent: 3 });
        for wrong in ["batch", "=3", "batch=", "batch=-1", "batch=1.5", "batch=99999999999999999999"] {
            assert!(DimArg::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shapes_are_lists_that_may_be_empty() {
        let shape = |text| Shape::parse(text).unwrap().extents;
        assert_eq!(shape("x=1, 3,224"), [1, 3, 224]);
        assert_eq!(shape("x="), [0usize; 0]);
        assert!(Shape::parse("x=1,,2").is_err() && Shape::parse("1,2").is_err());
    }

    #[test]
    fn ranges_are_of_finite_numbers_and_not_empty() {
        let range = Range::parse("x=-1..0.5").unwrap();
        assert_eq!(range, Range { input: Some("x".to_owned()), low: -1.0, high: 0.5 });
        assert_eq!(Range::parse("0..10").unwrap().input, None);
        for wrong in ["1", "1..1", "2..1", "nan..1", "0..inf", "..1", "x=1"] {
            assert!(Range::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_of_runs_are_numbers_or_seconds() {
        assert_eq!(Amount::parse("0").unwrap(), Amount::Runs(0));
        assert_eq!(Amount::parse("0.5s").unwrap(), Amount::Seconds(0.5));
        for wrong in ["", "s", "-1", "-1s", "0s", "nans", "infs", "1e9s", "1.5", "5000000000"] {
            assert!(Amount::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "serve")]
    #[test]
    fn counts_are_bounded() {
        for wrong in ["0", "-1", "1048577", "18446744073709551615", "1e3", ""] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert_eq!((count("1").unwrap(), count("1048576").unwrap()), (1, 1 << 20));
    }

    #[test]
    fn threads_are_bounded() {
        assert!(threads("0").is_err() && threads("100000").is_err() && threads("x").is_err());
        assert_eq!(threads("2").unwrap(), 2);
    }
}
