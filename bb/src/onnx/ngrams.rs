//! `TfIdfVectorizer`: counts of n-grams, by looking runs of items up.

use super::call::{Call, OpResult};
use super::folded::Folded;
use super::infer;
use super::kept::Kept;
use super::ml::texts;
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::{HostKernel, Ops};
use crate::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use std::collections::HashMap;

operators! {
    "" {
        TfIdfVectorizer => HostByDefault(tf_idf_vectorizer), infer: By(infer::ml::tf_idf), halves: Moves;
    }
}

/// The most elements that a row of the result has.
const MOST: usize = 1 << 28;

static COUNT: HostKernel = HostKernel { name: "count_ngrams", random: false, run: counted };

/// `TfIdfVectorizer`.
///
/// A weight is that of an element of the result, as the evaluator and ONNX Runtime have it.
pub(super) fn tf_idf_vectorizer<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let places = call.ints("ngram_indexes")?.unwrap_or_default();
    let width = match places.iter().max().map(|&most| usize::try_from(most)) {
        Some(Ok(most)) if most < MOST => most + 1,
        _ => return Err(call.wrong("ngram_indexes", format!("is {places:?}")).into()),
    };
    if x.rank() > 2 {
        let problem = format!("has rank {}, expected [c] or [n, c]", x.rank());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let pool = match texts(call, "pool_strings")? {
        Some(list) => TensorData::strings(&[list.len()], &list),
        None => {
            let list = call.ints("pool_int64s")?.unwrap_or_default();
            TensorData::new(&[list.len()], list)
        }
    };
    let pool = pool.map_err(Error::from)?;
    if (x.dtype() == DataType::String) != (pool.dtype() == DataType::String) {
        let problem = format!("is {}, the pool {}", x.dtype(), pool.dtype());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let (counting, weighing) = match call.text_or("mode", "TF")? {
        "TF" => (true, false),
        "IDF" => (false, true),
        "TFIDF" => (true, true),
        other => {
            return Err(call.wrong("mode", format!("is `{other}`, expected `TF`, `IDF` or `TFIDF`")).into());
        }
    };
    let weights = call.floats("weights")?.unwrap_or_default();
    if weighing && !weights.is_empty() && weights.len() < width {
        let problem = format!("has {} numbers, expected {width}", weights.len());
        return Err(call.wrong("weights", problem).into());
    }
    let weights: Vec<f64> =
        if weighing { weights.iter().copied().map(f64::from).collect() } else { Vec::new() };
    let shape: Vec<usize> =
        x.shape().iter().take(x.rank().saturating_sub(1)).copied().chain([width]).collect();
    let limits = [call.int("min_gram_length")?, call.int("max_gram_length")?, call.int("max_skip_count")?];
    let params = [
        Param::Data(std::borrow::Cow::Borrowed(&pool)),
        Param::Ints(call.ints("ngram_counts")?.unwrap_or_default().into()),
        Param::Ints(places.into()),
        Param::Floats(weights.into()),
        Param::Ints(limits.to_vec().into()),
        Param::Bool(counting),
        Param::Extents(shape.as_slice().into()),
    ];
    let result = [(DataType::F32, shape.as_slice().into())];
    Ok(on.on_host(&COUNT, &[Some(x)], &params, &result)?.into_iter().map(Some).collect())
}

/// What is not the number of an item or of a beginning.
const NONE: u32 = u32::MAX;

/// The numbers of the items that n-grams have.
enum Items {
    Texts(HashMap<Box<str>, u32, Folded>),
    Numbers(HashMap<i64, u32, Folded>),
}

/// N-grams by their beginnings.
struct Grams {
    /// What the table was made of.
    pool: TensorData,
    starts: Vec<i64>,
    places: Vec<i64>,
    lengths: [usize; 2],
    items: Items,
    /// The beginnings that are one item, by its number.
    first: Vec<u32>,
    /// The beginnings that are another beginning and an item.
    next: HashMap<(u32, u32), u32, Folded>,
    /// Where the n-grams are counted that end with a beginning.
    ends: Vec<Option<usize>>,
}

/// The tables of the models that ran last.
static GRAMS: Kept<Grams> = Kept::new();

fn missing(bytes: usize) -> Error {
    bb_ir::Error::Memory { op: "count_ngrams", bytes }.into()
}

/// Numbers the items of a pool; with the number of each.
fn numbered(pool: &TensorData) -> Result<(Items, Vec<u32>), Error> {
    const OP: &str = "count_ngrams";
    let (mut numbers, mut pace) = (memory::room(OP, pool.len())?, Pace::new());
    let bytes = pool.len().saturating_mul(48);
    if pool.dtype() == DataType::String {
        // The standard library does not report that it has no memory for a text.
        memory::probe_strings(OP, pool.len(), pool.byte_len())?;
        let mut items: HashMap<Box<str>, u32, Folded> = HashMap::default();
        items.try_reserve(pool.len()).map_err(|_| missing(bytes))?;
        for text in pool.iter_str() {
            pace.step(1 + text.len() / 8);
            let new = items.len() as u32;
            let known = items.get(text).copied();
            numbers.push(known.unwrap_or(new));
            if known.is_none() {
                items.insert(text.into(), new);
            }
        }
        return Ok((Items::Texts(items), numbers));
    }
    let wide = cast(pool, DataType::I64, Rounding::default())?;
    let mut items: HashMap<i64, u32, Folded> = HashMap::default();
    items.try_reserve(pool.len()).map_err(|_| missing(bytes))?;
    for &number in wide.as_slice::<i64>()? {
        pace.step(1);
        let new = items.len() as u32;
        numbers.push(*items.entry(number).or_insert(new));
    }
    Ok((Items::Numbers(items), numbers))
}

impl Items {
    fn len(&self) -> usize {
        match self {
            Items::Texts(items) => items.len(),
            Items::Numbers(items) => items.len(),
        }
    }

    /// Returns the numbers of the elements; [`NONE`] for those that no n-gram has.
    fn of(&self, x: &TensorData) -> Result<Vec<u32>, Error> {
        const OP: &str = "count_ngrams";
        Ok(match self {
            Items::Texts(items) => {
                memory::collected(OP, x.iter_str().map(|text| items.get(text).copied().unwrap_or(NONE)))?
            }
            Items::Numbers(items) => {
                let wide = cast(x, DataType::I64, Rounding::default())?;
                let number = |number: &i64| items.get(number).copied().unwrap_or(NONE);
                memory::collected(OP, wide.as_slice::<i64>()?.iter().map(number))?
            }
        })
    }
}

impl Grams {
    /// Makes the table of the n-grams of lengths `least..=most`.
    fn new(
        pool: &TensorData,
        starts: &[i64],
        places: &[i64],
        [least, most]: [usize; 2],
    ) -> Result<Grams, Error> {
        const OP: &str = "count_ngrams";
        let wrong = |what: &str, problem: String| Error::Operator {
            op: "TfIdfVectorizer".to_owned(),
            part: what.into(),
            problem,
        };
        let (items, numbers) = numbered(pool)?;
        let first = memory::filled(OP, NONE, items.len())?;
        let mut grams = Grams {
            pool: pool.clone(),
            starts: memory::copied(OP, starts)?,
            places: memory::copied(OP, places)?,
            lengths: [least, most],
            items,
            first,
            next: HashMap::default(),
            ends: Vec::new(),
        };
        let (mut places, mut pace) = (places.iter(), Pace::new());
        for (i, &start) in starts.iter().enumerate() {
            let size = i + 1;
            let end = starts.get(size).copied().unwrap_or(numbers.len() as i64);
            let range =
                usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
            let run = numbers.get(range).ok_or_else(|| {
                wrong("ngram_counts", format!("has {start} to {end} of a pool of {}", numbers.len()))
            })?;
            for gram in run.chunks_exact(size) {
                let Some(&place) = places.next() else {
                    return Err(wrong(
                        "ngram_indexes",
                        "has fewer numbers than the pool has n-grams".to_owned(),
                    ));
                };
                pace.step(size);
                if (least..=most).contains(&size) {
                    grams.add(gram, usize::try_from(place).ok())?;
                }
            }
        }
        Ok(grams)
    }

    fn add(&mut self, gram: &[u32], place: Option<usize>) -> Result<(), Error> {
        let mut at = None;
        for &item in gram {
            let new = self.ends.len() as u32;
            let slot = match at {
                None => self.first.get_mut(item as usize),
                Some(at) => {
                    self.next.try_reserve(1).map_err(|_| missing(self.next.len().saturating_mul(24)))?;
                    Some(self.next.entry((at, item)).or_insert(NONE))
                }
            };
            let Some(slot) = slot else { return Ok(()) };
            if *slot == NONE {
                *slot = new;
                memory::push("count_ngrams", &mut self.ends, None)?;
            }
            at = Some(*slot);
        }
        if let Some(end) = at.and_then(|at| self.ends.get_mut(at as usize)) {
            *end = place;
        }
        Ok(())
    }

    /// Returns the beginning that is another one and an item; [`NONE`] if no n-gram has it.
    #[inline]
    fn after(&self, at: Option<u32>, item: u32) -> u32 {
        match at {
            None => self.first.get(item as usize).copied().unwrap_or(NONE),
            Some(at) => self.next.get(&(at, item)).copied().unwrap_or(NONE),
        }
    }

    /// Counts the n-grams of a row whose items lie one, two, … apart.
    fn count(&self, row: &[u32], skips: usize, counts: &mut [f32], pace: &mut Pace) {
        let [mut least, most] = self.lengths;
        // Items farther apart than the row is long make no n-gram.
        for apart in 1..=skips.saturating_add(1).min(row.len().max(1)) {
            for start in 0..row.len() {
                pace.step(1);
                let mut at = None;
                for (size, &item) in (1..=most).zip(row.iter().skip(start).step_by(apart)) {
                    let next = self.after(at, item);
                    if next == NONE {
                        break;
                    }
                    at = Some(next);
                    pace.step(1);
                    let place = self.ends.get(next as usize).copied().flatten().filter(|_| size >= least);
                    if let Some(count) = place.and_then(|place| counts.get_mut(place)) {
                        *count += 1.0;
                    }
                }
            }
            // A single item has no distance, and is counted once.
            least = least.max(2);
            if least > most {
                break;
            }
        }
    }
}

/// Counts the n-grams of each row.
fn counted(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    const OP: &str = "count_ngrams";
    let [x] = crate::ext::host::operands(OP, inputs)?;
    let pool = take::Data(OP, params.first())?;
    let (starts, places) = (take::Ints(OP, params.get(1))?, take::Ints(OP, params.get(2))?);
    let weights = take::Floats(OP, params.get(3))?;
    let &[least, most, skips] = take::Ints(OP, params.get(4))? else {
        return Err(Error::excluded("three lengths as a parameter of `count_ngrams`"));
    };
    let counting = take::Bool(OP, params.get(5))?;
    let shape = take::Extents(OP, params.get(6))?;
    let length = |n: i64| usize::try_from(n).unwrap_or(0);
    let lengths = [length(least).max(1), length(most)];
    let fits = |own: &Grams| {
        own.lengths == lengths && same(&own.pool, pool) && own.starts == starts && own.places == places
    };
    let bytes = pool.byte_len().saturating_add(size_of_val(places));
    let grams = GRAMS.get(bytes, fits, || Grams::new(pool, starts, places, lengths))?;
    let items = grams.items.of(x)?;
    let width = shape.last().copied().unwrap_or(1);
    let length_of_row = x.shape().last().copied().unwrap_or(1);
    let rows = bb_ir::element_count(shape).unwrap_or(0) / width.max(1);
    let mut y = memory::filled(OP, 0f32, rows * width)?;
    let mut pace = Pace::new();
    for (row, counts) in y.chunks_mut(width).enumerate() {
        pace.step(width);
        let row = items.get(row * length_of_row..(row + 1) * length_of_row).unwrap_or_default();
        grams.count(row, length(skips), counts, &mut pace);
        if !counting {
            counts.iter_mut().for_each(|count| *count = count.min(1.0));
        }
        for (count, weight) in counts.iter_mut().zip(weights) {
            *count *= *weight as f32;
        }
    }
    Ok(vec![TensorData::new(shape, &y)?])
}

/// Tells whether two tensors have the same elements.
pub(super) fn same(a: &TensorData, b: &TensorData) -> bool {
    let (Ok(left), Ok(right)) = (a.unaligned_bytes(), b.unaligned_bytes()) else { return false };
    a.dtype() == b.dtype() && a.len() == b.len() && (left.as_ptr() == right.as_ptr() || left == right)
}
