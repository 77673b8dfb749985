//! `TfIdfVectorizer`: counts of n-grams, by looking runs of items up.

use super::folded::Folded;
use super::kept::{Kept, same};
use super::ml::texts;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{HostKernel, Ops};
use bb_core::operator::{Call, OpResult};
use bb_core::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, At, Types};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use std::collections::HashMap;

operators! {
    "" {
        TfIdfVectorizer => HostByDefault(tf_idf_vectorizer), infer: By(tf_idf_vectorizer_types), halves: Moves;
    }
}

/// The most elements that a row of the result has.
const MOST: usize = 1 << 28;

static COUNT: HostKernel = HostKernel { name: "count_ngrams", random: false, run: counted };

/// `TfIdfVectorizer`: a number for each place that an n-gram has.
fn tf_idf_vectorizer_types(at: At<'_>) -> Option<Types> {
    let most = at.ints("ngram_indexes")?.iter().max()?;
    let width = most.checked_add(1).map_or(Dim::Unknown, rule::extent);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[width]].concat());
    at.one(Some(DataType::F32), at.dims(0).and_then(shape))
}

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
    /// The items that follow a beginning, with what they lead to, ordered by the beginning.
    following: Vec<Following>,
    /// Where the followers of each beginning start, and at last where all end.
    from: Vec<usize>,
}

/// An item that continues a beginning.
#[derive(Debug, Clone, Copy)]
struct Following {
    item: u32,
    /// The beginning that both are.
    to: u32,
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
            following: Vec::new(),
            from: Vec::new(),
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
        grams.order(&mut pace)?;
        Ok(grams)
    }

    /// Orders what follows by what it follows.
    fn order(&mut self, pace: &mut Pace) -> Result<(), Error> {
        const OP: &str = "count_ngrams";
        let all = self.next.iter().map(|(&(at, item), &to)| (at, Following { item, to }));
        let mut all: Vec<(u32, Following)> = memory::collected(OP, all)?;
        all.sort_unstable_by_key(|(at, following)| {
            pace.step(1);
            (*at, following.item)
        });
        self.from = memory::filled(OP, 0, self.ends.len() + 1)?;
        for (at, _) in &all {
            if let Some(count) = self.from.get_mut(*at as usize + 1) {
                *count += 1;
            }
        }
        let mut before = 0;
        for from in &mut self.from {
            before += *from;
            *from = before;
        }
        self.following = memory::collected(OP, all.into_iter().map(|(_, following)| following))?;
        Ok(())
    }

    /// Returns the items that follow a beginning.
    #[inline]
    fn following(&self, at: u32) -> &[Following] {
        let from = |at: usize| self.from.get(at).copied().unwrap_or(0);
        self.following.get(from(at as usize)..from(at as usize + 1)).unwrap_or_default()
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
    fn count(&self, row: &[u32], skips: usize, counts: &mut [u64], pace: &mut Pace) -> Result<(), Error> {
        let [least, most] = self.lengths;
        if most == 0 {
            return Ok(());
        }
        // Items farther apart than the row is long make no n-gram.
        let farthest = skips.saturating_add(1).min(row.len());
        let places = if most > 1 { Places::of(row, farthest, pace)? } else { Places::default() };
        for (start, &item) in row.iter().enumerate() {
            pace.step(1);
            let at = self.after(None, item);
            if at == NONE {
                continue;
            }
            // A single item has no distance, and is counted once.
            if least == 1 {
                self.found(at, 1, counts);
            }
            let following = self.following(at);
            if most == 1 || following.is_empty() {
                continue;
            }
            let window = start + 1..row.len().min(start.saturating_add(farthest).saturating_add(1));
            // Either the items in reach are looked up among those that follow, or those that follow among the items.
            if places.is_empty() || window.len() <= following.len().saturating_mul(8) {
                for second in window {
                    pace.step(1);
                    let next = row.get(second).map_or(NONE, |&item| self.after(Some(at), item));
                    if next != NONE {
                        self.continued(row, [start, second], next, counts, pace);
                    }
                }
                continue;
            }
            for following in following {
                pace.step(4);
                let within = places.within(following.item, &window);
                if most == 2 || self.following(following.to).is_empty() {
                    if least <= 2 {
                        self.found(following.to, within.len() as u64, counts);
                    }
                    continue;
                }
                for &(_, second) in within {
                    pace.step(1);
                    self.continued(row, [start, second as usize], following.to, counts, pace);
                }
            }
        }
        Ok(())
    }

    /// Counts the n-grams that begin with the items at two places, which are the beginning `at`.
    fn continued(
        &self,
        row: &[u32],
        [first, second]: [usize; 2],
        mut at: u32,
        counts: &mut [u64],
        pace: &mut Pace,
    ) {
        let [least, most] = self.lengths;
        if least <= 2 {
            self.found(at, 1, counts);
        }
        let rest = row.iter().skip(second).step_by(second - first).skip(1);
        for (size, &item) in (3..=most).zip(rest) {
            pace.step(1);
            at = self.after(Some(at), item);
            if at == NONE {
                return;
            }
            if size >= least {
                self.found(at, 1, counts);
            }
        }
    }

    /// Counts an n-gram, if the beginning is one.
    #[inline]
    fn found(&self, at: u32, times: u64, counts: &mut [u64]) {
        let place = self.ends.get(at as usize).copied().flatten();
        if let Some(count) = place.and_then(|place| counts.get_mut(place)) {
            *count += times;
        }
    }
}

/// Where each item is in a row.
#[derive(Default)]
struct Places {
    /// The items that n-grams have, with their places, ordered.
    places: Vec<(u32, u32)>,
}

impl Places {
    /// Finds the places, if n-grams reach so far that looking them up is worth it.
    fn of(row: &[u32], farthest: usize, pace: &mut Pace) -> Result<Places, Error> {
        if farthest <= 8 || u32::try_from(row.len()).is_err() {
            return Ok(Places::default());
        }
        let places = row.iter().enumerate().map(|(place, &item)| (item, place as u32));
        let mut places: Vec<(u32, u32)> =
            memory::collected("count_ngrams", places.filter(|(item, _)| *item != NONE))?;
        places.sort_unstable_by(|a, b| {
            pace.step(1);
            a.cmp(b)
        });
        Ok(Places { places })
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the places of an item within a range.
    fn within(&self, item: u32, range: &std::ops::Range<usize>) -> &[(u32, u32)] {
        let before =
            |end: usize| self.places.partition_point(|&(other, place)| (other, place as usize) < (item, end));
        self.places.get(before(range.start)..before(range.end)).unwrap_or_default()
    }
}

/// Counts the n-grams of each row.
fn counted(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    const OP: &str = "count_ngrams";
    let [x] = bb_core::ext::host::operands(OP, inputs)?;
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
    let (mut counts, mut pace) = (memory::filled(OP, 0u64, width)?, Pace::new());
    for (row, y) in y.chunks_mut(width).enumerate() {
        pace.step(width);
        let row = items.get(row * length_of_row..(row + 1) * length_of_row).unwrap_or_default();
        counts.fill(0);
        grams.count(row, length(skips), &mut counts, &mut pace)?;
        for (y, &count) in y.iter_mut().zip(&counts) {
            *y = if counting { count as f32 } else { count.min(1) as f32 };
        }
        for (y, weight) in y.iter_mut().zip(weights) {
            *y *= *weight as f32;
        }
    }
    Ok(vec![TensorData::new(shape, &y)?])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    /// Counts by the definition: for each distance, each start and each n-gram.
    fn defined(row: &[i64], grams: &[Vec<i64>], [least, most]: [usize; 2], skips: usize) -> Vec<f32> {
        let mut counts = vec![0f32; grams.len()];
        for (gram, count) in grams.iter().zip(&mut counts) {
            let size = gram.len();
            if !(least..=most).contains(&size) {
                continue;
            }
            // A single item is the same at all distances.
            let farthest = if size == 1 { 0 } else { skips };
            for apart in 1..=farthest + 1 {
                for start in 0..row.len() {
                    let items = (0..size).map(|i| row.get(start + i * apart));
                    *count += f32::from(items.eq(gram.iter().map(Some)));
                }
            }
        }
        counts
    }

    /// Makes the parameters of n-grams, which are ordered by their sizes.
    fn count(row: &[i64], grams: &[Vec<i64>], [least, most]: [usize; 2], skips: usize) -> Vec<f32> {
        let pool: Vec<i64> = grams.concat();
        let start = |size: usize| grams.iter().map(Vec::len).filter(|len| *len < size).sum::<usize>() as i64;
        let starts: Vec<i64> = (1..=3).map(start).collect();
        let places: Vec<i64> = (0..grams.len() as i64).collect();
        let x = TensorData::new(&[row.len()], row).unwrap();
        let pool = TensorData::new(&[pool.len()], &pool).unwrap();
        let shape = [grams.len()];
        let params = [
            Param::Data(std::borrow::Cow::Borrowed(&pool)),
            Param::Ints(starts.into()),
            Param::Ints(places.into()),
            Param::Floats(Vec::new().into()),
            Param::Ints(vec![least as i64, most as i64, skips as i64].into()),
            Param::Bool(true),
            Param::Extents(shape.as_slice().into()),
        ];
        counted(&[Some(&x)], &params).unwrap()[0].as_slice::<f32>().unwrap().to_vec()
    }

    /// Items of a row, and n-grams of up to three of them, by a simple generator.
    fn drawn(seed: u64, length: usize, items: u64) -> (Vec<i64>, Vec<Vec<i64>>) {
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as i64
        };
        let row = (0..length).map(|_| next(items + 1)).collect();
        let mut grams: Vec<Vec<i64>> =
            (0..12u64).map(|i| (0..=i / 4).map(|_| next(items)).collect()).collect();
        grams.sort_by_key(|gram| (gram.len(), gram.clone()));
        grams.dedup();
        (row, grams)
    }

    #[test]
    fn counts_are_those_of_the_definition() {
        for seed in 0..30 {
            let (row, grams) = drawn(seed, 1 + seed as usize * 7 % 90, 1 + seed % 5);
            for skips in [0, 1, 12, 60] {
                for lengths in [[1, 1], [1, 2], [2, 2], [1, 3], [2, 3], [3, 3]] {
                    let expected = defined(&row, &grams, lengths, skips);
                    assert_eq!(count(&row, &grams, lengths, skips), expected, "{seed} {skips} {lengths:?}");
                }
            }
        }
    }

    /// Pairs of half a million items, as far apart as they like: looking at each would take hours.
    #[test]
    fn pairs_at_all_distances_take_no_square_of_the_row() {
        let n = 500_000u64;
        let row: Vec<i64> = (0..n as i64).map(|i| i % 2).collect();
        let half = n / 2;
        let counts = count(&row, &[vec![0, 0], vec![0, 1]], [1, 2], 1 << 40);
        // Of the zeros each with those behind it; of zeros and ones, a one with the zeros before it.
        assert_eq!(counts, [(half * (half - 1) / 2) as f32, (half * (half + 1) / 2) as f32]);
    }
}
