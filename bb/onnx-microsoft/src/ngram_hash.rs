//! `NGramHashMapping`: hashes of the n-grams that end with each token, used as indices into embedding tables.

use super::only;
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
use bb_ir::{Shape, TensorData, memory};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        NGramHashMapping => HostByDefault(ngram_hash_mapping), infer: By(ngram_hash_mapping_types), halves: Moves;
    }
}

const OP: &str = "NGramHashMapping";

static MAPPING: HostKernel = HostKernel {
    name: "ngram_hash_mapping",
    random: false,
    run: |inputs, params| {
        let int = |at: usize| take::Int("ngram_hash_mapping", params.get(at));
        let (size, heads, pad, reset) = (int(0)? as usize, int(1)? as usize, int(2)?, int(3)? != 0);
        let operand = |at: usize| inputs.get(at).copied().flatten();
        let list = |at: usize| operand(at).map(bb_core::ext::integers).transpose();
        let ids = operand(0).ok_or(bb_ir::Error::Arity { op: OP, expected: "7 operands", got: 0 })?;
        let narrow = ids.dtype() == DataType::I32;
        let (offsets, end) = (list(4)?, list(5)?);
        let hashing = Hashing {
            size,
            heads,
            narrow,
            factors: &list(1)?.unwrap_or_default(),
            sizes: &list(2)?.unwrap_or_default(),
            offsets: offsets.as_deref(),
            end: end.and_then(|end| end.first().copied()),
            reset,
        };
        let filler = hashing.end.unwrap_or(pad);
        let (past, segments) = (list(3)?, list(6)?);
        let length = ids.shape().get(1).copied().unwrap_or(0);
        let (history, width) = (size - 1, (size - 1) * heads);
        let all = bb_core::ext::integers(ids)?;
        let batch = ids.shape().first().copied().unwrap_or(0);
        let mut hashes = memory::room(OP, all.len().saturating_mul(width))?;
        let mut present = memory::room(OP, batch.saturating_mul(history))?;
        let mut pace = Pace::new();
        for row in 0..batch {
            let own = all.get(row * length..(row + 1) * length).unwrap_or_default();
            let before = past.as_ref().and_then(|past| past.get(row * history..(row + 1) * history));
            let before = before.map_or_else(|| vec![filler; history], <[i64]>::to_vec);
            let segments = segments.as_ref().and_then(|all| all.get(row * length..(row + 1) * length));
            let tokens = [before.as_slice(), own].concat();
            hashing.row(&tokens, segments, filler, &mut hashes, &mut pace);
            present.extend_from_slice(tokens.get(tokens.len() - history..).unwrap_or_default());
        }
        let tensor = |shape: &[usize], elements: &[i64]| {
            if narrow {
                let elements = memory::collected(OP, elements.iter().map(|&x| x as i32))?;
                TensorData::new(shape, &elements)
            } else {
                TensorData::new(shape, elements)
            }
        };
        Ok(vec![tensor(&[batch, length, width], &hashes)?, tensor(&[batch, history], &present)?])
    },
};

/// The parameters for hashing n-grams of 2 to `size` tokens.
struct Hashing<'a> {
    size: usize,
    heads: usize,
    /// Whether tokens and hashes have 32 bits.
    narrow: bool,
    factors: &'a [i64],
    sizes: &'a [i64],
    offsets: Option<&'a [i64]>,
    end: Option<i64>,
    reset: bool,
}

impl Hashing<'_> {
    /// Wraps a number to the type of the tokens, because the arithmetic is defined in this type.
    fn wrapped(&self, number: i64) -> i64 {
        if self.narrow { i64::from(number as i32) } else { number }
    }

    /// Hashes the n-grams that end with each token after the history.
    fn row(
        &self,
        tokens: &[i64],
        segments: Option<&[i64]>,
        filler: i64,
        out: &mut Vec<i64>,
        pace: &mut Pace,
    ) {
        let history = self.size - 1;
        // The first index whose token is part of n-grams of later tokens.
        let mut from = 0;
        for (place, &token) in tokens.iter().enumerate() {
            let at = place.wrapping_sub(history);
            if place >= history {
                let parts = segments.and_then(|all| Some((all.get(at.checked_sub(1)?)?, all.get(at)?)));
                if parts.is_some_and(|(a, b)| a != b) {
                    from = from.max(place);
                }
                pace.step(self.size);
                self.token(tokens, place, from, filler, out);
            }
            if self.reset && self.end == Some(token) {
                from = from.max(place + 1);
            }
        }
    }

    fn token(&self, tokens: &[i64], place: usize, from: usize, filler: i64, out: &mut Vec<i64>) {
        let mut mix = 0i64;
        for (shift, &factor) in self.factors.iter().enumerate().take(self.size) {
            let own = tokens.get(place - shift).copied().unwrap_or(filler);
            let token = if shift > 0 && place - shift < from { filler } else { own };
            mix ^= self.wrapped(token.wrapping_mul(factor));
            let Some(order) = shift.checked_sub(1) else { continue };
            for head in order * self.heads..(order + 1) * self.heads {
                let size = self.sizes.get(head).copied().unwrap_or(1).max(1);
                let offset = self.offsets.and_then(|all| all.get(head)).copied().unwrap_or(0);
                out.push(self.wrapped(mix.rem_euclid(size).wrapping_add(offset)));
            }
        }
    }
}

/// Infers the types of `NGramHashMapping`: hashes per token, n-gram size and head, and the last tokens.
fn ngram_hash_mapping_types(at: NodeFacts<'_>) -> Option<Types> {
    let (history, heads) = (at.int("max_ngram_size", 0)?.checked_sub(1)?, at.int("n_head_per_ngram", 0)?);
    let shape = |last: Dim, length: bool| {
        let [batch, steps] = at.dims(0)? else { return None };
        Some(if length { vec![batch.clone(), steps.clone(), last] } else { vec![batch.clone(), last] })
    };
    let width = rule::extent(history.checked_mul(heads)?);
    Some(vec![
        rule::tensor(at.dtype(0), shape(width, true)),
        rule::tensor(at.dtype(0), shape(rule::extent(history), false)),
    ])
}

/// `NGramHashMapping`: computes the hashes, and returns the tokens that the next call needs.
pub(crate) fn ngram_hash_mapping(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["max_ngram_size", "n_head_per_ngram", "pad_id", "reset_on_eos"])?;
    let number = |name: &str, least: i64| -> Result<i64, Error> {
        let value = call.int(name)?;
        if (least..1 << 16).contains(&value) {
            return Ok(value);
        }
        Err(call.wrong(name, format!("is {value}, expected at least {least}, and less than {}", 1 << 16)))
    };
    let (size, heads) = (number("max_ngram_size", 2)?, number("n_head_per_ngram", 1)?);
    let ids = call.input(0)?;
    let dtype = ids.dtype();
    if !matches!(dtype, DataType::I32 | DataType::I64) {
        return Err(call
            .wrong(NodePart::Operand(0), format!("has elements of {dtype}, expected i32 or i64"))
            .into());
    }
    let &[batch, length] = ids.shape() else {
        return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 2", ids.rank())).into());
    };
    let (history, width) = (size as usize - 1, (size as usize - 1) * heads as usize);
    let expected: [(usize, &[usize]); 5] =
        [(2, &[width]), (3, &[batch, history]), (4, &[width]), (5, &[]), (6, &[batch, length])];
    for (index, shape) in expected {
        let Some(x) = call.optional(index) else { continue };
        let one = index == 5 && x.shape().iter().product::<usize>() == 1;
        if x.shape() != shape && !one {
            let problem = format!("has the shape {:?}, expected {shape:?}", x.shape());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
    }
    if call.input(1)?.rank() != 1 || call.input(1)?.shape().first().is_none_or(|&n| n <= history) {
        let problem = format!("has the shape {:?}, expected at least {size} numbers", call.input(1)?.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    call.input(2)?;
    let operands: Vec<Option<&TracedTensor>> = (0..7).map(|at| call.optional(at)).collect();
    let reset = call.flag("reset_on_eos", false)?;
    let params =
        [Param::Int(size), Param::Int(heads), Param::Int(call.int("pad_id")?), Param::Int(reset.into())];
    let results: [(DataType, Shape); 2] =
        [(dtype, [batch, length, width].as_slice().into()), (dtype, [batch, history].as_slice().into())];
    Ok(on.on_host(&MAPPING, &operands, &params, &results)?.into_iter().map(Some).collect())
}
