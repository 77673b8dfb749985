//! Joins requests to one run, and divides its results.
//!
//! Shapes do not prove that a model computes its rows independently. A model that subtracts the mean of all rows, or quantises by the range
//! of all rows, gives other results in a batch, and so leaks the requests of one client to another. So requests are joined only if the
//! model's operations prove that rows are independent (`bb::Module::prove_rows`), for each kind of requests, because a model may compute
//! otherwise with other extents.
//!
//! The proof covers the operations. It does not cover that the kernels of a backend round a row alike in every number of rows. So the first
//! batch of each kind also runs request by request. If an answer differs, the model runs without batches from then on, and the clients
//! receive the answers of the single runs.

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

/// How many kinds of batches are remembered. Requests of further kinds are not joined.
const KINDS: usize = 1024;

/// How a model joins requests.
#[derive(Debug)]
pub(crate) struct Batching {
    pub(crate) rows: usize,
    pub(crate) delay: Duration,
    module: Module,
    /// The result of the proof about rows. Extents that the model leaves open are assumed.
    proof: Option<RowProof>,
    on: AtomicBool,
    kinds: Mutex<HashMap<Vec<Option<Vec<usize>>>, Joins>>,
}

/// Whether requests of a kind are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    /// Their rows are not known to be independent.
    Never,
    /// Their rows are independent, and a batch has not been compared with single runs.
    Unseen,
    Always,
}

impl Batching {
    pub(crate) fn new(rows: usize, delay: Duration, module: Module) -> Batching {
        let inputs = module.row_inputs(&HashMap::new());
        // Extents that are made up may not fit the model; then each kind says by itself.
        let proof = inputs.and_then(|inputs| module.prove_rows(&inputs, rows).ok());
        let on = AtomicBool::new(!matches!(proof, Some(RowProof::Unproven { .. })));
        Batching { rows, delay, module, proof, on, kinds: Mutex::default() }
    }

    /// Returns the proof about the rows.
    pub(crate) fn proof(&self) -> Option<&RowProof> {
        self.proof.as_ref()
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
            // Extents unknown to inference are compared when there are results.
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

    /// Returns whether requests of this kind may be joined, as far as that is known.
    pub(crate) fn may_join(&self, kind: &BatchKey) -> bool {
        self.is_on() && self.kinds().get(&kind.others) != Some(&Joins::Never)
    }

    /// Returns whether requests of this kind are joined. The first time, that takes about as long as planning a run.
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
            // A run reports the error in the extents.
            Ok(_) | Err(_) => Joins::Never,
        };
        *self.kinds().entry(kind.others.clone()).or_insert(joins)
    }

    /// Remembers that a batch of this kind gave the answers of single runs.
    pub(crate) fn compared(&self, kind: &BatchKey) {
        self.kinds().insert(kind.others.clone(), Joins::Always);
    }
}

/// The key of requests that can be joined: the extents that they share, and the rows of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchKey {
    pub(crate) rows: usize,
    /// The extents of each given input after the first.
    others: Vec<Option<Vec<usize>>>,
}

impl BatchKey {
    /// Returns the key of a request; `None` if it cannot be joined.
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

/// Joins tensors of equal type and equal extents after the first along the first dimension.
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

/// Divides a tensor along the first dimension; `None` if its rows are not the sum of `rows`.
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

/// Returns whether two results are equal, bit for bit.
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
