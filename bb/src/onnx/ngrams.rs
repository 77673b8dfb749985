//! `TfIdfVectorizer`: counts of n-grams, by looking runs of items up.

use super::call::{Call, OpResult};
use super::infer;
use super::ml::texts;
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::{HostKernel, Ops};
use crate::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{Param, take};
use bb_ir::{TensorData, memory};
use std::collections::HashMap;

operators! {
    "" {
        TfIdfVectorizer => HostByDefault(tf_idf_vectorizer), infer: By(infer::ml::tf_idf);
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

/// Items that begin n-grams: what follows each, and where the n-gram that ends with it is counted.
#[derive(Default)]
struct Trie<'a> {
    next: HashMap<Item<'a>, usize>,
    place: Option<usize>,
}

/// A string or a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item<'a> {
    Text(&'a str),
    Number(i64),
}

fn items<'a>(x: &'a TensorData, wide: &'a TensorData) -> Result<Vec<Item<'a>>, Error> {
    Ok(match x.dtype() {
        DataType::String => memory::collected("count_ngrams", x.iter_str().map(Item::Text))?,
        _ => memory::collected("count_ngrams", wide.as_slice::<i64>()?.iter().map(|&v| Item::Number(v)))?,
    })
}

/// Casts integers to `i64`; leaves strings alone.
fn widened(x: &TensorData) -> Result<TensorData, Error> {
    Ok(match x.dtype() {
        DataType::String => x.clone(),
        _ => cast(x, DataType::I64, Rounding::default())?,
    })
}

/// Builds the trie of the n-grams of lengths `least..=most`; node 0 is the root.
fn grown<'a>(
    pool: &[Item<'a>],
    starts: &[i64],
    places: &[i64],
    [least, most]: [usize; 2],
) -> Result<Vec<Trie<'a>>, Error> {
    let wrong = |what: &str, problem: String| Error::Operator {
        op: "TfIdfVectorizer".to_owned(),
        part: what.into(),
        problem,
    };
    let mut nodes = vec![Trie::default()];
    let mut places = places.iter();
    for (i, &start) in starts.iter().enumerate() {
        let size = i + 1;
        let end = starts.get(size).copied().unwrap_or(pool.len() as i64);
        let range = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
        let run = pool.get(range).ok_or_else(|| {
            wrong("ngram_counts", format!("has {start} to {end} of a pool of {}", pool.len()))
        })?;
        for gram in run.chunks_exact(size) {
            let Some(&place) = places.next() else {
                return Err(wrong("ngram_indexes", "has fewer numbers than the pool has n-grams".to_owned()));
            };
            if !(least..=most).contains(&size) {
                continue;
            }
            let mut at = 0;
            for item in gram {
                let new = nodes.len();
                let Some(node) = nodes.get_mut(at) else { break };
                at = *node.next.entry(*item).or_insert(new);
                if at == new {
                    nodes.push(Trie::default());
                }
            }
            if let Some(node) = nodes.get_mut(at) {
                node.place = usize::try_from(place).ok();
            }
        }
    }
    Ok(nodes)
}

/// Counts the n-grams of each row whose items lie one, two, … apart.
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
    let (least, most) = (length(least).max(1), length(most));
    let (wide_pool, wide) = (widened(pool)?, widened(x)?);
    let pool_items = items(pool, &wide_pool)?;
    let nodes = grown(&pool_items, starts, places, [least, most])?;
    let row_items = items(x, &wide)?;
    let width = shape.last().copied().unwrap_or(1);
    let length_of_row = x.shape().last().copied().unwrap_or(1);
    let rows = bb_ir::element_count(shape).unwrap_or(0) / width.max(1);
    let mut y = memory::filled(OP, 0f32, rows * width)?;
    for (row, counts) in y.chunks_mut(width).enumerate() {
        let row = row_items.get(row * length_of_row..(row + 1) * length_of_row).unwrap_or_default();
        let mut least = least;
        // Items farther apart than the row is long make no n-gram.
        for apart in 1..=length(skips).saturating_add(1).min(row.len().max(1)) {
            for start in 0..row.len() {
                let mut at = 0;
                for (size, item) in (1..=most).zip(row.iter().skip(start).step_by(apart)) {
                    let next = nodes.get(at).and_then(|node| node.next.get(item));
                    let Some(&next) = next else { break };
                    at = next;
                    let place = nodes.get(at).and_then(|node| node.place).filter(|_| size >= least);
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
        for (i, count) in counts.iter_mut().enumerate() {
            let kept = if counting { *count } else { count.min(1.0) };
            *count = kept * weights.get(i).copied().unwrap_or(1.0) as f32;
        }
    }
    Ok(vec![TensorData::new(shape, &y)?])
}
