//! Joins requests to one run, and divides its results.
//!
//! Shapes do not tell whether a model computes its rows independently: one that subtracts the mean of all rows, or quantises by
//! the range of all rows, answers other numbers in a batch. So the first batch of each kind also runs request by request.
//! If the answers differ, the model runs without batches from then on, and the clients receive the answers of the single runs.

use crate::error::Error;
use crate::model::TensorPort;
use bb::{DataType, TensorData, bf16, f16};
use bb_ir::StringsBuilder;
use bb_ir::graph::Dim;
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many kinds of batches are remembered as compared. Batches of further kinds are compared each time.
const KINDS: usize = 1024;

/// How a model joins requests.
#[derive(Debug)]
pub(crate) struct Batching {
    pub(crate) rows: usize,
    pub(crate) delay: Duration,
    on: AtomicBool,
    compared: Mutex<HashSet<Vec<Option<Vec<usize>>>>>,
}

impl Batching {
    pub(crate) fn new(rows: usize, delay: Duration) -> Batching {
        Batching { rows, delay, on: AtomicBool::new(true), compared: Mutex::default() }
    }

    /// Refuses a model whose inputs and outputs do not all begin with one open extent.
    pub(crate) fn check(model: &str, inputs: &[TensorPort], outputs: &[TensorPort]) -> Result<(), Error> {
        let first =
            |port: &TensorPort| port.shape.as_ref().map_or(Some(Dim::Unknown), |dims| dims.first().cloned());
        let batch = inputs.first().and_then(first);
        let refuse = |side, port: &TensorPort, got: Option<Dim>| Error::NotBatched {
            model: model.to_owned(),
            side,
            port: port.name.clone(),
            got: got.map_or_else(|| "missing".to_owned(), |dim| format!("`{dim}`")),
        };
        for port in inputs {
            let got = first(port);
            let open = matches!(got, Some(Dim::Symbol(_) | Dim::Unknown));
            if !open || got != batch {
                return Err(refuse("input", port, got));
            }
        }
        for port in outputs {
            // What inference does not know is compared when there are results.
            let got = first(port);
            if got != batch && !matches!(got, Some(Dim::Unknown)) {
                return Err(refuse("output", port, got));
            }
        }
        Ok(())
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn turn_off(&self) {
        self.on.store(false, Ordering::Relaxed);
    }

    /// Tells whether a batch of this kind must be compared with single runs.
    pub(crate) fn is_new(&self, kind: &Kind) -> bool {
        !self.compared.lock().unwrap_or_else(PoisonError::into_inner).contains(&kind.others)
    }

    /// Remembers that batches of this kind gave the answers of single runs.
    pub(crate) fn remember(&self, kind: &Kind) {
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared.len() < KINDS {
            compared.insert(kind.others.clone());
        }
    }
}

/// What requests that can be joined have in common, and how many rows one has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) rows: usize,
    /// The extents of each given input after the first.
    others: Vec<Option<Vec<usize>>>,
}

impl Kind {
    /// Returns the kind of a request; `None` if it must run alone.
    pub(crate) fn of(inputs: &[Option<TensorData>], most: usize) -> Option<Kind> {
        let mut given = inputs.iter().flatten().map(|x| x.shape().first().copied());
        let rows = given.next().flatten().filter(|rows| (1..most).contains(rows))?;
        if given.any(|other| other != Some(rows)) {
            return None;
        }
        let others =
            inputs.iter().map(|x| x.as_ref().and_then(|x| x.shape().get(1..)).map(<[usize]>::to_vec));
        Some(Kind { rows, others: others.collect() })
    }

    pub(crate) fn joins(&self, other: &Kind) -> bool {
        self.others == other.others
    }
}

/// Joins tensors of equal type and equal extents after the first along the first dimension.
pub(crate) fn join(parts: &[&TensorData]) -> Result<TensorData, bb_ir::Error> {
    let [first, ..] = parts else { return Ok(TensorData::scalar(0u8)) };
    let rows = parts.iter().filter_map(|x| x.shape().first()).sum();
    let shape: Vec<usize> = std::iter::once(rows).chain(first.shape().iter().skip(1).copied()).collect();
    if first.dtype() == DataType::String {
        let mut texts = StringsBuilder::with_room("joining requests", parts.iter().map(|x| x.len()).sum())?;
        parts.iter().flat_map(|x| x.iter_str()).try_for_each(|text| texts.push(text))?;
        return texts.finish(&shape);
    }
    let mut bytes = Vec::with_capacity(parts.iter().map(|x| x.byte_len()).sum());
    for x in parts {
        bytes.extend_from_slice(x.unaligned_bytes()?);
    }
    TensorData::adopt(first.dtype(), &shape, bytes.into())
}

/// Divides a tensor along the first dimension; `None` if it does not have as many rows as the parts together.
pub(crate) fn split(x: &TensorData, rows: &[usize]) -> Option<Vec<TensorData>> {
    let (&all, others) = x.shape().split_first()?;
    if all != rows.iter().sum::<usize>() || all == 0 {
        return None;
    }
    let (row_bytes, row_elements) = (x.byte_len() / all, x.len() / all);
    let mut start = 0;
    let part = |&n: &usize| {
        let (from, to) = (start, start + n);
        start = to;
        let shape: Vec<usize> = std::iter::once(n).chain(others.iter().copied()).collect();
        if x.dtype() == DataType::String {
            let texts: Vec<&str> = x.iter_str().skip(from * row_elements).take(n * row_elements).collect();
            return TensorData::strings(&shape, &texts).ok();
        }
        let bytes: Bytes = x.bytes().ok()?.slice(from * row_bytes..to * row_bytes);
        TensorData::adopt(x.dtype(), &shape, bytes).ok()
    };
    rows.iter().map(part).collect()
}

/// Tells whether two results are equal up to the rounding of their type, relative to the greatest element.
pub(crate) fn agree(a: &TensorData, b: &TensorData) -> bool {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return false;
    }
    match a.dtype() {
        DataType::F32 => close(a, b, 1e-4, |x: f32| x.into()),
        DataType::F64 => close(a, b, 1e-9, |x: f64| x),
        DataType::F16 => close(a, b, 1e-2, f16::to_f64),
        DataType::BF16 => close(a, b, 4e-2, bf16::to_f64),
        DataType::String => a.iter_str().eq(b.iter_str()),
        _ => a == b,
    }
}

fn close<T: bb::Element>(a: &TensorData, b: &TensorData, tolerance: f64, number: fn(T) -> f64) -> bool {
    let (Ok(a), Ok(b)) = (a.as_slice::<T>(), b.as_slice::<T>()) else { return false };
    let pairs = || a.iter().zip(b).map(|(a, b)| (number(*a), number(*b)));
    let finite = pairs().map(|(a, _)| a.abs()).filter(|a| a.is_finite());
    let bound = tolerance * finite.fold(0.0, f64::max);
    pairs().all(|(a, b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_joined() {
        let a = TensorData::new(&[1, 2], &[1f32, 2.]).unwrap();
        let b = TensorData::new(&[2, 2], &[3f32, 4., 5., 6.]).unwrap();
        let joined = join(&[&a, &b]).unwrap();
        assert_eq!((joined.shape(), joined.as_slice::<f32>().unwrap().len()), ([3, 2].as_slice(), 6));
        let parts = split(&joined, &[1, 2]).unwrap();
        assert_eq!(parts[0].as_slice::<f32>().unwrap(), [1., 2.]);
        assert_eq!(parts[1].as_slice::<f32>().unwrap(), [3., 4., 5., 6.]);
        assert!(split(&joined, &[1, 1]).is_none());
    }

    #[test]
    fn texts_come_back_as_they_were_joined() {
        let a = TensorData::strings(&[1], &["ä"]).unwrap();
        let b = TensorData::strings(&[2], &["", "xyz"]).unwrap();
        let joined = join(&[&a, &b]).unwrap();
        assert_eq!(joined.iter_str().collect::<Vec<_>>(), ["ä", "", "xyz"]);
        let parts = split(&joined, &[1, 2]).unwrap();
        assert_eq!(parts[1].iter_str().collect::<Vec<_>>(), ["", "xyz"]);
    }

    #[test]
    fn only_equal_extents_after_the_first_are_joined() {
        let kind = |shape: &[usize]| {
            let n = shape.iter().product();
            Kind::of(&[Some(TensorData::new(shape, &vec![0u8; n]).unwrap())], 8)
        };
        assert!(kind(&[1, 3]).unwrap().joins(&kind(&[2, 3]).unwrap()));
        assert!(!kind(&[1, 3]).unwrap().joins(&kind(&[1, 4]).unwrap()));
        assert_eq!(kind(&[0, 3]), None);
        assert_eq!(kind(&[8, 3]), None);
        assert_eq!(kind(&[]), None);
    }

    #[test]
    fn results_agree_up_to_rounding_only() {
        let x = |v: f32| TensorData::new(&[2], &[100.0, v]).unwrap();
        assert!(agree(&x(1.0), &x(1.001)));
        assert!(!agree(&x(1.0), &x(1.1)));
        assert!(agree(&x(f32::NAN), &x(f32::NAN)));
        assert!(!agree(&x(1.0), &x(f32::INFINITY)));
        let i = |v: i32| TensorData::new(&[1], &[v]).unwrap();
        assert!(!agree(&i(1), &i(2)));
    }
}
