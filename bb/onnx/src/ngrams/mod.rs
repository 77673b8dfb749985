//! `TfIdfVectorizer`: counts n-grams by looking up sequences of items in a table.

mod grams;

use crate::cache::{Kept, same};
use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::HostKernel;
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use grams::Grams;

operators! {
    "" {
        TfIdfVectorizer => HostByDefault(tf_idf_vectorizer), infer: By(tf_idf_vectorizer_types), halves: Moves;
    }
}

/// The maximum number of elements in a row of the result.
const MOST: usize = 1 << 28;

static COUNT: HostKernel = HostKernel { name: "count_ngrams", random: false, run: counted };

/// Infers the type of `TfIdfVectorizer`: one element for each index in `ngram_indexes`.
fn tf_idf_vectorizer_types(at: NodeFacts<'_>) -> Option<Types> {
    let most = at.ints("ngram_indexes")?.iter().max()?;
    let width = most.checked_add(1).map_or(Dim::Unknown, rule::extent);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[width]].concat());
    at.one(Some(DataType::F32), at.dims(0).and_then(shape))
}

/// `TfIdfVectorizer`.
///
/// Each weight belongs to an element of the result, not to an n-gram, as in ONNX's reference evaluator and
/// ONNX Runtime.
pub(super) fn tf_idf_vectorizer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
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
    let pool = match call.texts("pool_strings")? {
        Some(list) => TensorData::strings(&[list.len()], list),
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
    if let [_, _, skips @ ..=-1] = limits {
        return Err(call.wrong("max_skip_count", format!("is {skips}, expected 0 or more")).into());
    }
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

/// The tables of the models that ran most recently.
static GRAMS: Kept<Grams> = Kept::new();

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

    /// Counts as the definition says: for each distance, each start and each n-gram.
    fn defined(row: &[i64], grams: &[Vec<i64>], [least, most]: [usize; 2], skips: usize) -> Vec<f32> {
        let mut counts = vec![0f32; grams.len()];
        for (gram, count) in grams.iter().zip(&mut counts) {
            let size = gram.len();
            if !(least..=most).contains(&size) {
                continue;
            }
            // An n-gram of a single item has no distance, so it is counted once.
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

    /// Counts n-grams, which must be ordered by their sizes.
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

    /// Generates the items of a row, and n-grams of up to three of these items, with a simple random
    /// generator.
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

    /// Counts pairs among half a million items, at any distance. A test of each pair would take hours.
    #[test]
    fn pairs_at_all_distances_take_no_square_of_the_row() {
        let n = 500_000u64;
        let row: Vec<i64> = (0..n as i64).map(|i| i % 2).collect();
        let half = n / 2;
        let counts = count(&row, &[vec![0, 0], vec![0, 1]], [1, 2], 1 << 40);
        // Pairs of zeros: each zero with all later zeros. Pairs of zero and one: each one with all zeros
        // before it.
        assert_eq!(counts, [(half * (half - 1) / 2) as f32, (half * (half + 1) / 2) as f32]);
    }
}
