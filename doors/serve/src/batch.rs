//! Joins requests into one run, and splits its results.
//!
//! Shapes do not prove that a model computes its rows independently. A model that subtracts the mean of all rows, or quantises by the range
//! of all rows, gives other results in a batch, and so leaks data of one client's request to another client. So requests are joined only if
//! the model's operations prove that rows are independent (`bb::Module::prove_rows`). This is proven separately for each combination of
//! extents, because a model may compute differently with other extents.
//!
//! The proof covers the operations, but not the rounding: a backend's kernels may round a row differently if the number of rows differs. So
//! the first batch of each combination of extents also runs request by request. If an answer differs, the model runs without batches from
//! then on, and the clients receive the answers of the single runs.

use crate::error::Error;
use crate::port::TensorPort;
use bb::{DataType, Module, RowInput, RowProof, TensorData};
use bb_ir::StringsBuilder;
use bb_ir::graph::Dim;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of combinations of extents that are remembered. Requests with further combinations are not joined.
const KINDS: usize = 1024;

/// The state of joining the requests of one model.
#[derive(Debug)]
pub(crate) struct Batching {
    pub(crate) rows: usize,
    pub(crate) delay: Duration,
    module: Module,
    /// The result of the proof that rows are independent, with assumed values for the extents that the model leaves open.
    proof: Option<RowProof>,
    on: AtomicBool,
    kinds: Mutex<HashMap<Vec<Option<Vec<usize>>>, Joins>>,
}

/// Whether requests with a combination of extents are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    /// The rows are not known to be independent.
    Never,
    /// The rows are independent, but no batch has been compared with single runs yet.
    Unseen,
    Always,
}

impl Batching {
    pub(crate) fn new(rows: usize, delay: Duration, module: Module) -> Batching {
        let inputs = module.row_inputs(&HashMap::new());
        // The assumed extents may not fit the model. Then only the proofs for the extents of actual requests decide.
        let proof = inputs.and_then(|inputs| module.prove_rows(&inputs, rows).ok());
        let on = AtomicBool::new(!matches!(proof, Some(RowProof::Unproven { .. })));
        Batching { rows, delay, module, proof, on, kinds: Mutex::default() }
    }

    /// Returns the result of the proof that rows are independent.
    pub(crate) fn proof(&self) -> Option<&RowProof> {
        self.proof.as_ref()
    }

    /// Refuses a model unless all its inputs and outputs have the same open extent as their first one.
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
            // Extents that shape inference does not know are checked when results exist.
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

    fn kinds(&self) -> MutexGuard<'_, HashMap<Vec<Option<Vec<usize>>>, Joins>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether requests of this kind may be joined, as far as is known without a proof.
    pub(crate) fn may_join(&self, kind: &BatchKey) -> bool {
        self.is_on() && self.kinds().get(&kind.others) != Some(&Joins::Never)
    }

    /// Returns whether requests of this kind are joined. The first call for a kind takes about as long as planning a run.
    pub(crate) fn joins(&self, kind: &BatchKey) -> Joins {
        let kinds = self.kinds();
        if let Some(known) = kinds.get(&kind.others) {
            return *known;
        }
        if kinds.len() >= KINDS {
            return Joins::Never;
        }
        drop(kinds);
        let input = |extents: &Option<Vec<usize>>| extents.clone().map_or(RowInput::Absent, RowInput::Rows);
        let inputs: Vec<RowInput> = kind.others.iter().map(input).collect();
        let joins = match self.module.prove_rows(&inputs, self.rows) {
            Ok(RowProof::Independent) => Joins::Unseen,
            // An error in the extents is reported when the request runs by itself.
            Ok(_) | Err(_) => Joins::Never,
        };
        *self.kinds().entry(kind.others.clone()).or_insert(joins)
    }

    /// Records that a batch of this kind gave the same answers as single runs.
    pub(crate) fn compared(&self, kind: &BatchKey) {
        self.kinds().insert(kind.others.clone(), Joins::Always);
    }
}

/// Requests can be joined if their keys match: the extents that must be equal, and the number of rows of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchKey {
    pub(crate) rows: usize,
    /// The extents of each input except the first extent. `None` for an absent input.
    others: Vec<Option<Vec<usize>>>,
}

impl BatchKey {
    /// Returns the key of a request, or `None` if the request cannot be joined.
    pub(crate) fn of(inputs: &[Option<TensorData>], most: usize) -> Option<BatchKey> {
        let mut given = inputs.iter().flatten().map(|x| x.shape().first().copied());
        let rows = given.next().flatten().filter(|rows| (1..most).contains(rows))?;
        if given.any(|other| other != Some(rows)) {
            return None;
        }
        let others =
            inputs.iter().map(|x| x.as_ref().and_then(|x| x.shape().get(1..)).map(<[usize]>::to_vec));
        Some(BatchKey { rows, others: others.collect() })
    }

    pub(crate) fn joins(&self, other: &BatchKey) -> bool {
        self.others == other.others
    }
}

/// Concatenates tensors along the first dimension. Their types and their other extents are equal.
pub(crate) fn join(parts: &[&TensorData]) -> Result<TensorData, bb_ir::Error> {
    let [first, ..] = parts else { return Ok(TensorData::scalar(0u8)) };
    let rows = parts.iter().filter_map(|x| x.shape().first()).sum();
    let shape: Vec<usize> = std::iter::once(rows).chain(first.shape().iter().skip(1).copied()).collect();
    if first.dtype() == DataType::String {
        let mut texts = StringsBuilder::with_room("joining requests", parts.iter().map(|x| x.len()).sum())?;
        parts.iter().flat_map(|x| x.iter_bytes()).try_for_each(|text| texts.push(text))?;
        return texts.finish(&shape);
    }
    let mut bytes = Vec::with_capacity(parts.iter().map(|x| x.byte_len()).sum());
    for x in parts {
        bytes.extend_from_slice(x.unaligned_bytes()?);
    }
    TensorData::adopt(first.dtype(), &shape, bytes.into())
}

/// Splits a tensor along the first dimension. Returns `None` if its number of rows is not the sum of `rows`.
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
            let texts: Vec<&[u8]> = x.iter_bytes().skip(from * row_elements).take(n * row_elements).collect();
            return TensorData::strings(&shape, &texts).ok();
        }
        let bytes: Bytes = x.bytes().ok()?.slice(from * row_bytes..to * row_bytes);
        TensorData::adopt(x.dtype(), &shape, bytes).ok()
    };
    rows.iter().map(part).collect()
}

/// Returns whether two results are bitwise equal.
pub(crate) fn agree(a: &TensorData, b: &TensorData) -> bool {
    let same = |a: &TensorData, b: &TensorData| match a.dtype() {
        DataType::String => a.iter_bytes().eq(b.iter_bytes()),
        _ => a == b,
    };
    a.dtype() == b.dtype() && a.shape() == b.shape() && same(a, b)
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
            BatchKey::of(&[Some(TensorData::new(shape, &vec![0u8; n]).unwrap())], 8)
        };
        assert!(kind(&[1, 3]).unwrap().joins(&kind(&[2, 3]).unwrap()));
        assert!(!kind(&[1, 3]).unwrap().joins(&kind(&[1, 4]).unwrap()));
        assert_eq!(kind(&[0, 3]), None);
        assert_eq!(kind(&[8, 3]), None);
        assert_eq!(kind(&[]), None);
    }

    #[test]
    fn results_agree_bit_for_bit_only() {
        let x = |v: f32| TensorData::new(&[2], &[100.0, v]).unwrap();
        assert!(agree(&x(1.0), &x(1.0)));
        assert!(!agree(&x(1.0), &x(1.0f32.next_up())));
        assert!(agree(&x(f32::NAN), &x(f32::NAN)));
        assert!(!agree(&x(0.0), &x(-0.0)));
        assert!(!agree(&x(1.0), &TensorData::new(&[1], &[1f32]).unwrap()));
    }
}
