//! The n-grams of a vectorizer, as a trie: a table of the items that can follow each prefix.

use crate::folded::Folded;
use bb_core::{DataType, Error};
use bb_ir::convert::{Rounding, cast};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use std::collections::HashMap;

/// An index that is neither an item nor a prefix.
pub(super) const NONE: u32 = u32::MAX;

/// The index of each item that occurs in n-grams.
pub(super) enum Items {
    Texts(HashMap<Box<[u8]>, u32, Folded>),
    Numbers(HashMap<i64, u32, Folded>),
}

/// N-grams by their prefixes. Each prefix has an index.
pub(super) struct Grams {
    /// The pool that the table was built from.
    pub(super) pool: TensorData,
    pub(super) starts: Vec<i64>,
    pub(super) places: Vec<i64>,
    pub(super) lengths: [usize; 2],
    pub(super) items: Items,
    /// The prefixes that consist of one item, by the index of the item.
    first: Vec<u32>,
    /// The prefixes that extend another prefix by an item, by the indices of both.
    next: HashMap<(u32, u32), u32, Folded>,
    /// For each prefix that is an n-gram, the index of its count in the result.
    ends: Vec<Option<usize>>,
    /// The items that can follow a prefix, with the longer prefixes that result, ordered by the prefix.
    following: Vec<Following>,
    /// For each prefix, the index in `following` of its first item, and at the end the length of `following`.
    from: Vec<usize>,
}

/// An item that extends a prefix.
#[derive(Debug, Clone, Copy)]
struct Following {
    item: u32,
    /// The extended prefix.
    to: u32,
}

pub(super) fn missing(bytes: usize) -> Error {
    bb_ir::Error::Memory { op: "count_ngrams", bytes }.into()
}

/// Assigns indices to the items of a pool. Also returns the index of each element of the pool.
fn numbered(pool: &TensorData) -> Result<(Items, Vec<u32>), Error> {
    const OP: &str = "count_ngrams";
    let (mut numbers, mut pace) = (memory::room(OP, pool.len())?, Pace::new());
    let bytes = pool.len().saturating_mul(48);
    if pool.dtype() == DataType::String {
        // The standard library aborts if it has no memory for a string, so the memory is checked beforehand.
        memory::probe_strings(OP, pool.len(), pool.byte_len())?;
        let mut items: HashMap<Box<[u8]>, u32, Folded> = HashMap::default();
        items.try_reserve(pool.len()).map_err(|_| missing(bytes))?;
        for text in pool.iter_bytes() {
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
    pub(super) fn len(&self) -> usize {
        match self {
            Items::Texts(items) => items.len(),
            Items::Numbers(items) => items.len(),
        }
    }

    /// Returns the index of each element; [`NONE`] for elements that are in no n-gram.
    pub(super) fn of(&self, x: &TensorData) -> Result<Vec<u32>, Error> {
        const OP: &str = "count_ngrams";
        Ok(match self {
            Items::Texts(items) => {
                memory::collected(OP, x.iter_bytes().map(|text| items.get(text).copied().unwrap_or(NONE)))?
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
    /// Builds the table of the n-grams of lengths `least..=most`.
    pub(super) fn new(
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

    /// Sorts the items that extend prefixes by their prefix.
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

    /// Returns the items that can follow a prefix.
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

    /// Returns the prefix that extends another prefix, or the empty one, by an item; [`NONE`] if no n-gram begins
    /// with it.
    #[inline]
    fn after(&self, at: Option<u32>, item: u32) -> u32 {
        match at {
            None => self.first.get(item as usize).copied().unwrap_or(NONE),
            Some(at) => self.next.get(&(at, item)).copied().unwrap_or(NONE),
        }
    }

    /// Counts the n-grams of a row. Their items may be up to `skips + 1` elements apart, at equal distances.
    pub(super) fn count(
        &self,
        row: &[u32],
        skips: usize,
        counts: &mut [u64],
        pace: &mut Pace,
    ) -> Result<(), Error> {
        let [least, most] = self.lengths;
        if most == 0 {
            return Ok(());
        }
        // Items at a distance beyond the length of the row form no n-gram.
        let farthest = skips.saturating_add(1).min(row.len());
        let places = if most > 1 { ItemPlaces::of(row, farthest, pace)? } else { ItemPlaces::default() };
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
            // Two searches are possible: look up each item in reach among those that can follow, or search the row
            // for each item that can follow. The cheaper one is chosen.
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

    /// Counts the n-grams that begin with the items at two indices of the row. These two items are the prefix `at`.
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

    /// Adds `times` to the count of an n-gram, if the prefix is one.
    #[inline]
    fn found(&self, at: u32, times: u64, counts: &mut [u64]) {
        let place = self.ends.get(at as usize).copied().flatten();
        if let Some(count) = place.and_then(|place| counts.get_mut(place)) {
            *count += times;
        }
    }
}

/// The indices of each item in a row.
#[derive(Default)]
struct ItemPlaces {
    /// The items that occur in n-grams, with their indices in the row, sorted.
    places: Vec<(u32, u32)>,
}

impl ItemPlaces {
    /// Builds the index of a row, if n-grams reach far enough to make a look-up worthwhile. Otherwise returns an
    /// empty one.
    fn of(row: &[u32], farthest: usize, pace: &mut Pace) -> Result<ItemPlaces, Error> {
        if farthest <= 8 || u32::try_from(row.len()).is_err() {
            return Ok(ItemPlaces::default());
        }
        let places = row.iter().enumerate().map(|(place, &item)| (item, place as u32));
        let mut places: Vec<(u32, u32)> =
            memory::collected("count_ngrams", places.filter(|(item, _)| *item != NONE))?;
        places.sort_unstable_by(|a, b| {
            pace.step(1);
            a.cmp(b)
        });
        Ok(ItemPlaces { places })
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the entries of an item whose index is within a range.
    fn within(&self, item: u32, range: &std::ops::Range<usize>) -> &[(u32, u32)] {
        let before =
            |end: usize| self.places.partition_point(|&(other, place)| (other, place as usize) < (item, end));
        self.places.get(before(range.start)..before(range.end)).unwrap_or_default()
    }
}
