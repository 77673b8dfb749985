//! Decoding steps between two runs of a language model, and alignment by attention weights after the last run.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{ScatterElementsOptions, ScatterReduction, math};
use bb_core::operator::{Call, OpOutputs, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        BifurcationDetector => Host(bifurcation_detector), infer: By(bifurcation_types);
        DynamicTimeWarping => Host(dynamic_time_warping), infer: By(warping_types);
        NGramRepeatBlock => HostByDefault(ngram_repeat_block), infer: By(ngram_repeat_block_types), halves: Moves;
    }
}

/// Infers the type of `NGramRepeatBlock`: the type of the scores, which are operand 1.
fn ngram_repeat_block_types(at: NodeFacts<'_>) -> Option<Types> {
    Some(vec![at.ty(1).clone()])
}

/// `NGramRepeatBlock`: sets the score of a token to -∞ if the token would complete an n-gram that already occurs.
pub(crate) fn ngram_repeat_block(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["ngram_size"])?;
    let (tokens, scores) = (call.input(0)?, call.input(1)?);
    let size = call.int("ngram_size")?;
    if !(1..1 << 16).contains(&size) {
        return Err(call.wrong("ngram_size", format!("is {size}, expected a positive number")).into());
    }
    if tokens.rank() != 2 || scores.rank() != 2 {
        let problem = format!("of rank {} and {} came, expected 2 and 2", tokens.rank(), scores.rank());
        return Err(call.wrong(NodePart::other("tokens and scores"), problem).into());
    }
    // Compare each n-gram without its last token with the last `size - 1` tokens, which begin the next n-gram. Each iteration
    // compares one token of all n-grams.
    let before = size - 1;
    let column = |start: i64, end: i64| on.slice(tokens, &[start], &[end], &[1], &[]);
    let end = |place: i64| if place == before { i64::MAX } else { place - before };
    let last = column(before, i64::MAX)?;
    let mut repeats = on.equal(&last, &last)?;
    for place in 0..before {
        let own = column(place - before, if place + 1 == before { i64::MAX } else { place - before + 1 })?;
        repeats = on.and(&repeats, &on.equal(&column(place, end(place))?, &own)?)?;
    }
    let marks = math::to(on, &repeats, scores.dtype())?;
    let options = ScatterElementsOptions { axis: 1, reduction: ScatterReduction::Add };
    let zeros = on.zeros_like(scores, None)?;
    let found = on.scatter_elements(&zeros, &last, &marks, options)?;
    let banned = on.greater(&found, &on.scalar_like(&found, 0.0)?)?;
    Ok(one(on.r#where(&banned, &on.scalar_like(scores, f64::NEG_INFINITY)?, scores)?))
}

/// Reads a vector of tokens.
fn vector<'a>(call: &Call<'a, TensorData>, index: usize) -> Result<&'a [i64], Error> {
    let x = call.input(index)?;
    if x.shape().len() != 1 {
        let problem = format!("has the shape {:?}, expected a vector", x.shape());
        return Err(call.wrong(NodePart::Operand(index), problem));
    }
    Ok(x.as_slice()?)
}

/// Infers the types of `BifurcationDetector`: a vector whose length depends on the elements, and a single number.
fn bifurcation_types(at: NodeFacts<'_>) -> Option<Types> {
    Some(vec![
        rule::tensor(at.dtype(1), Some(vec![Dim::Unknown])),
        rule::tensor(at.dtype(2), at.dims(2).map(<[Dim]>::to_vec)),
    ])
}

/// `BifurcationDetector`: appends predicted tokens up to the first one that differs from the source, and finds the index after
/// the result's last tokens in the source.
pub(crate) fn bifurcation_detector(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    const OP: &str = "BifurcationDetector";
    only(call, &["max_ngram_size", "min_ngram_size"])?;
    let (source, current) = (vector(call, 0)?, vector(call, 1)?);
    let &[from] = call.input(2)?.as_slice::<i64>()? else {
        return Err(call.wrong(NodePart::Operand(2), "has more or less than one element"));
    };
    let mut tokens = memory::collected(OP, current.iter().copied())?;
    if call.optional(3).is_some() {
        let predicted = vector(call, 3)?;
        let rest = usize::try_from(from).ok().and_then(|from| source.get(from..));
        let rest = rest.ok_or_else(|| {
            call.wrong(NodePart::Operand(2), format!("is {from}, in a source of {} tokens", source.len()))
        })?;
        if predicted.len() != rest.len() + 1 {
            let problem = format!("has {} tokens, expected {}", predicted.len(), rest.len() + 1);
            return Err(call.wrong(NodePart::Operand(3), problem));
        }
        let same = predicted.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let taken = predicted.iter().take(same + 1);
        tokens = memory::collected(OP, tokens.iter().chain(taken).copied())?;
    }
    let sizes = (call.int_or("min_ngram_size", 1)?, call.int_or("max_ngram_size", 3)?);
    let (least, most) = match sizes {
        (least @ 1.., most) if most >= least => (least as usize, most as usize),
        _ => {
            let problem = format!("is {}, and `max_ngram_size` {}", sizes.0, sizes.1);
            return Err(call.wrong("min_ngram_size", problem));
        }
    };
    let found = matched(source, &tokens, least..=most.min(tokens.len()));
    let shape = call.input(2)?.shape();
    let place = found.map_or(-1, |place| place as i64);
    Ok(smallvec![Some(TensorData::new(&[tokens.len()], &tokens)?), Some(TensorData::new(shape, &[place])?)])
}

/// Returns the index after the only match of the last tokens in the source. While there are several matches, tries longer
/// sequences of last tokens.
fn matched(source: &[i64], tokens: &[i64], sizes: std::ops::RangeInclusive<usize>) -> Option<usize> {
    let mut pace = Pace::new();
    for size in sizes {
        let end = tokens.get(tokens.len().checked_sub(size)?..)?;
        let mut places = source.windows(size).enumerate().filter(|(_, window)| {
            pace.step(size);
            *window == end
        });
        let (first, _) = places.next()?;
        if places.next().is_none() {
            return Some(first + size);
        }
    }
    None
}

/// Infers the type of `DynamicTimeWarping`: the points of a path.
fn warping_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), Some(vec![Dim::Known(2), Dim::Unknown]))
}

/// `DynamicTimeWarping`: the path of lowest cost from one corner of a matrix to the opposite one.
pub(crate) fn dynamic_time_warping(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    const OP: &str = "DynamicTimeWarping";
    only(call, &[])?;
    let x = call.input(0)?;
    let (&[rows, columns] | &[1, rows, columns]) = x.shape() else {
        let problem = format!("has the shape {:?}, expected [m, n] or [1, m, n]", x.shape());
        return Err(call.wrong(NodePart::Operand(0), problem));
    };
    let costs = x.as_slice::<f32>()?;
    if costs.is_empty() {
        return Ok(one(TensorData::new::<i32>(&[2, 0], &[])?));
    }
    // The cost of the best path to each element, with an extra row and column at the start, and the last step of each path.
    let width = columns + 1;
    let too_large = || call.wrong(NodePart::Operand(0), "is too large");
    let count = rows.checked_add(1).and_then(|rows| rows.checked_mul(width)).ok_or_else(too_large)?;
    let mut best = memory::filled(OP, f32::INFINITY, count)?;
    let mut steps = memory::filled(OP, 0u8, count)?;
    if let Some(corner) = best.first_mut() {
        *corner = 0.0;
    }
    let mut pace = Pace::new();
    for (row, line) in (1..).zip(costs.chunks_exact(columns.max(1))) {
        for (column, cost) in (1..).zip(line) {
            pace.step(1);
            let at = row * width + column;
            let before = |back: usize| best.get(at - back).copied().unwrap_or(f32::INFINITY);
            let (both, up, left) = (before(width + 1), before(width), before(1));
            let (least, step) = if both < up && both < left {
                (both, 0)
            } else if up < both && up < left {
                (up, 1)
            } else {
                (left, 2)
            };
            if let (Some(slot), Some(way)) = (best.get_mut(at), steps.get_mut(at)) {
                (*slot, *way) = (cost + least, step);
            }
        }
    }
    let (mut row, mut column) = (rows, columns);
    let mut path = Vec::new();
    while row > 0 || column > 0 {
        pace.step(1);
        path.push((row as i32 - 1, column as i32 - 1));
        match steps.get(row * width + column) {
            _ if row == 0 => column -= 1,
            _ if column == 0 => row -= 1,
            Some(0) => (row, column) = (row - 1, column - 1),
            Some(1) => row -= 1,
            _ => column -= 1,
        }
    }
    path.reverse();
    let both = path.iter().map(|p| p.0).chain(path.iter().map(|p| p.1));
    Ok(smallvec![Some(TensorData::new(&[2, path.len()], &memory::collected(OP, both)?)?)])
}
