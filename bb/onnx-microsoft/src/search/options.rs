//! The options of a search, read from its operands and attributes.

use super::SearchKind;
use super::speech::Marks;
use bb_core::contract::check_value;
use bb_core::error::NodePart;
use bb_core::ext::{ErasedBackend, ErasedError, ErasedTensor, integers};
use bb_core::plan::Item;
use bb_core::{Backend, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Node;
use bb_ir::{DataType, Limits, TensorData};

/// The maximum number of sequences that a search follows per batch element.
const MOST_BEAMS: i64 = 1 << 12;

/// The indices of operands that differ between the operators.
struct OperandPositions {
    repetition: usize,
    vocab_mask: usize,
    prefix_mask: usize,
    attention_mask: usize,
}

impl OperandPositions {
    fn of(kind: SearchKind) -> OperandPositions {
        match kind.follows_beams() {
            true => OperandPositions { repetition: 6, vocab_mask: 7, prefix_mask: 8, attention_mask: 9 },
            false => OperandPositions { repetition: 3, vocab_mask: 4, prefix_mask: 5, attention_mask: 6 },
        }
    }
}

/// Returns the index of the last operand of an operator.
fn last_operand(kind: SearchKind) -> usize {
    match kind {
        SearchKind::Beams => 11,
        SearchKind::Greedy => 6,
        SearchKind::Sampling => 8,
        SearchKind::Speech => 14,
    }
}

/// The options of a search.
#[derive(Debug)]
pub(super) struct SearchOptions {
    /// The operator, for errors.
    op: String,
    /// Whether an encoder runs first.
    pub(super) encodes: bool,
    /// Whether the encoder's input is speech. Decoding then begins with the prompt.
    pub(super) hears: bool,
    pub(super) batch: usize,
    pub(super) beams: usize,
    /// The number of sequences that are returned per batch element.
    pub(super) returned: usize,
    /// The maximum number of tokens of a sequence, including the prompt.
    pub(super) most: usize,
    /// The minimum number of tokens of a sequence before it may end.
    pub(super) least: usize,
    pub(super) end: i32,
    pub(super) padding: i32,
    /// The token that decoding begins with if there is an encoder.
    pub(super) start: i32,
    pub(super) length_penalty: f32,
    pub(super) early_stopping: bool,
    pub(super) repetition_penalty: f32,
    /// The length of token sequences that may not occur twice; 0 for no limit.
    pub(super) ngram: usize,
    /// The number of logits that are used, if the attribute is present.
    pub(super) vocabulary: Option<usize>,
    /// For each token, whether it may be chosen.
    pub(super) mask: Option<Vec<bool>>,
    /// For each batch element and each token, whether the token may follow the prompt.
    pub(super) prefix_mask: Option<Vec<bool>>,
    /// For each batch element and each token, the number that is subtracted from the token's score.
    pub(super) presence: Option<Vec<f32>>,
    pub(super) temperature: f32,
    /// The timestamp tokens of speech, if their order is enforced.
    pub(super) marks: Option<Marks>,
    /// The token for silence, if its probability is an output.
    pub(super) silence: Option<i32>,
    pub(super) draw: Draw,
    /// The element type of scores.
    pub(super) scores: DataType,
    pub(super) wants: [bool; 3],
}

/// The options for drawing a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub(super) top_p: f32,
    pub(super) filtered: f32,
    pub(super) kept: usize,
    /// Whether to keep tokens from the most probable one on, instead of dropping tokens from the least probable one on.
    pub(super) from_first: bool,
    pub(super) seed: u64,
}

/// The operands of a search.
pub(super) struct SearchOperands<'a> {
    op: &'a str,
    operands: &'a [Option<Item<ErasedTensor>>],
}

pub(super) fn wrong(op: &str, part: impl Into<NodePart>, problem: impl Into<String>) -> Error {
    Error::Operator { op: op.to_owned(), part: part.into(), problem: problem.into() }
}

impl SearchOperands<'_> {
    /// Returns the operand at `index`, if it is present.
    pub(super) fn tensor(&self, index: usize) -> Option<&ErasedTensor> {
        self.operands.get(index).and_then(Option::as_ref).and_then(Item::tensor)
    }

    fn host(&self, on: &ErasedBackend<'_>, index: usize) -> Result<Option<TensorData>, ErasedError> {
        self.tensor(index).map(|x| on.to_host(x)).transpose()
    }

    /// Reads an operand that has a single integer.
    fn int(&self, on: &ErasedBackend<'_>, index: usize) -> Result<Option<i64>, ErasedError> {
        let Some(host) = self.host(on, index)? else { return Ok(None) };
        match integers(&host).map_err(Error::from)?.as_slice() {
            [only] => Ok(Some(*only)),
            other => Err(self.single(index, other.len()).into()),
        }
    }

    /// Reads an operand that has a single number.
    fn float(&self, on: &ErasedBackend<'_>, index: usize) -> Result<Option<f32>, ErasedError> {
        let Some(host) = self.host(on, index)? else { return Ok(None) };
        let wide = cast(&host, DataType::F32, Rounding::default()).map_err(Error::from)?;
        match *wide.as_slice::<f32>().map_err(Error::from)? {
            [only] => Ok(Some(only)),
            ref other => Err(self.single(index, other.len()).into()),
        }
    }

    fn single(&self, index: usize, count: usize) -> Error {
        wrong(self.op, NodePart::Operand(index), format!("has {count} elements, expected 1"))
    }

    /// Reads an operand of integers, and checks its shape against `expected`.
    fn ints(
        &self,
        on: &ErasedBackend<'_>,
        index: usize,
        expected: &[Option<usize>],
    ) -> Result<Option<Vec<i64>>, ErasedError> {
        let Some(host) = self.host(on, index)? else { return Ok(None) };
        let fits =
            |(got, expected): (&usize, &Option<usize>)| expected.is_none_or(|expected| *got == expected);
        if host.shape().len() != expected.len() || !host.shape().iter().zip(expected).all(fits) {
            let expected: Vec<String> =
                expected.iter().map(|e| e.map_or_else(|| "?".to_owned(), |e| e.to_string())).collect();
            let problem = format!("has the extents {:?}, expected [{}]", host.shape(), expected.join(", "));
            return Err(wrong(self.op, NodePart::Operand(index), problem).into());
        }
        Ok(Some(integers(&host).map_err(Error::from)?))
    }

    /// Refuses operands after the last one of the operator.
    fn at_most(&self, last: usize) -> Result<(), Error> {
        match (last + 1..self.operands.len()).find(|&index| self.tensor(index).is_some()) {
            Some(index) => Err(wrong(self.op, NodePart::Operand(index), "is not served")),
            None => Ok(()),
        }
    }

    /// Reads the tokens that each sequence begins with.
    fn begun(&self, on: &ErasedBackend<'_>, hears: bool, start: i32) -> Result<Begun, ErasedError> {
        let first = self.tensor(0).ok_or_else(|| wrong(self.op, NodePart::Operand(0), "is missing"))?;
        match (hears, first.shape()) {
            (true, &[batch, _, _]) => {
                let sound = Some(first.clone());
                let Some(ids) = self.ints(on, 10, &[Some(batch), None])? else {
                    return Ok(Begun { sound, ids: vec![i64::from(start); batch], batch, length: 1 });
                };
                let length = self.tensor(10).map_or(0, |x| x.shape().get(1).copied().unwrap_or(0));
                Ok(Begun { sound, ids, batch, length })
            }
            (false, &[batch, length]) => {
                let ids = self.ints(on, 0, &[None, None])?.unwrap_or_default();
                Ok(Begun { sound: None, ids, batch, length })
            }
            (_, extents) => {
                let rank = if hears { 3 } else { 2 };
                let problem = format!("has the extents {extents:?}, expected {rank} of them");
                Err(wrong(self.op, NodePart::Operand(0), problem).into())
            }
        }
    }

    /// Reads the maximum number of tokens of a sequence that begins with `begun` tokens.
    fn most(&self, on: &ErasedBackend<'_>, begun: usize) -> Result<usize, ErasedError> {
        let most = self.int(on, 1)?.ok_or_else(|| wrong(self.op, NodePart::Operand(1), "is missing"))?;
        let fits = usize::try_from(most).ok().filter(|&most| most > begun);
        Ok(fits.ok_or_else(|| {
            let problem = format!("is {most}, expected more than the {begun} tokens that are there first");
            wrong(self.op, NodePart::Operand(1), problem)
        })?)
    }

    /// Reads the number of sequences that a beam search follows per batch element, and the number that it returns.
    fn widths(&self, on: &ErasedBackend<'_>) -> Result<(usize, usize), ErasedError> {
        let count = |index: usize| -> Result<usize, ErasedError> {
            let got = self.int(on, index)?.unwrap_or(1);
            let count = usize::try_from(got).ok().filter(|_| (1..=MOST_BEAMS).contains(&got));
            Ok(count.ok_or_else(|| {
                wrong(self.op, NodePart::Operand(index), format!("is {got}, expected 1 to {MOST_BEAMS}"))
            })?)
        };
        let (width, returned) = (count(3)?, count(4)?);
        if returned > width {
            let problem = format!("is {returned}; only {width} sequences are followed");
            return Err(wrong(self.op, NodePart::Operand(4), problem).into());
        }
        Ok((width, returned))
    }

    /// Reads an operand of booleans.
    fn truths(
        &self,
        on: &ErasedBackend<'_>,
        index: usize,
        expected: &[Option<usize>],
    ) -> Result<Option<Vec<bool>>, ErasedError> {
        Ok(self.ints(on, index, expected)?.map(|ints| ints.iter().map(|&n| n != 0).collect()))
    }

    /// Reads the seed of a search that samples.
    fn seed(&self, on: &ErasedBackend<'_>) -> Result<u64, ErasedError> {
        let seed = self.int(on, 8)?.unwrap_or(0);
        let negative = |_| wrong(self.op, NodePart::Operand(8), format!("is {seed}, expected 0 or more"));
        Ok(u64::try_from(seed).map_err(negative)?)
    }

    fn temperature(
        &self,
        on: &ErasedBackend<'_>,
        kind: SearchKind,
        attributes: &SearchAttributes<'_>,
    ) -> Result<f32, ErasedError> {
        let temperature = match kind {
            SearchKind::Sampling => attributes.float("temperature", 1.0)?,
            // As in ONNX Runtime, a temperature that is not positive is ignored.
            SearchKind::Speech => self.float(on, 14)?.filter(|given| *given > 0.0).unwrap_or(1.0),
            SearchKind::Beams | SearchKind::Greedy => 1.0,
        };
        if temperature.is_nan() || temperature <= 0.0 {
            let problem = format!("is {temperature}, expected more than 0");
            return Err(wrong(self.op, "temperature", problem).into());
        }
        Ok(temperature)
    }
}

/// The start of all sequences.
struct Begun {
    /// The sound, if the encoder's input is sound instead of tokens.
    sound: Option<ErasedTensor>,
    /// The tokens, row by row.
    ids: Vec<i64>,
    batch: usize,
    /// The number of tokens in each row.
    length: usize,
}

/// The attributes of a search.
struct SearchAttributes<'a> {
    op: &'a str,
    node: &'a Node,
}

impl SearchAttributes<'_> {
    fn int(&self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.node.attributes.int(name)?.unwrap_or(default))
    }

    fn float(&self, name: &str, default: f32) -> Result<f32, Error> {
        Ok(self.node.attributes.float(name)?.unwrap_or(default))
    }

    /// Reads an integer that must not be negative. The default is 0.
    fn natural(&self, name: &'static str) -> Result<usize, Error> {
        let got = self.int(name, 0)?;
        usize::try_from(got).map_err(|_| wrong(self.op, name, format!("is {got}, expected 0 or more")))
    }

    /// Reads a token. Without a default, the attribute is required.
    fn token(&self, name: &'static str, default: Option<i32>) -> Result<i32, Error> {
        match (self.node.attributes.int(name)?, default) {
            (None, Some(default)) => Ok(default),
            (None, None) => Err(wrong(self.op, name, "is missing; the operator needs it")),
            (Some(got), _) => {
                i32::try_from(got).map_err(|_| wrong(self.op, name, format!("is {got}, which is no token")))
            }
        }
    }

    /// Reads the kind of model: 0 for a decoder only, 1 with an encoder of tokens, 2 with an encoder of speech.
    fn model(&self, kind: SearchKind) -> Result<i64, Error> {
        let models: &[i64] = match kind {
            SearchKind::Beams => &[0, 1, 2],
            SearchKind::Greedy | SearchKind::Sampling => &[0, 1],
            SearchKind::Speech => &[2],
        };
        let model = self.int("model_type", if kind == SearchKind::Speech { 2 } else { 0 })?;
        match models.contains(&model) {
            true => Ok(model),
            false => Err(wrong(self.op, "model_type", format!("is {model}, expected one of {models:?}"))),
        }
    }
}

/// The tokens of the prompt, row by row, and their mask, if there is one.
pub(super) struct Prompt {
    pub(super) tokens: Vec<Vec<i32>>,
    pub(super) mask: Option<Vec<Vec<i32>>>,
    /// The sound, if the encoder's input is sound instead of tokens.
    pub(super) sound: Option<ErasedTensor>,
}

impl SearchOptions {
    pub(super) fn wrong(&self, part: impl Into<NodePart>, problem: impl Into<String>) -> Error {
        wrong(&self.op, part, problem)
    }

    /// Returns the number of active sequences in the whole batch.
    pub(super) fn rows(&self) -> usize {
        self.batch.saturating_mul(self.beams)
    }

    /// Reads the operands and attributes of a node.
    pub(super) fn read(
        on: &ErasedBackend<'_>,
        kind: SearchKind,
        node: &Node,
        operands: &[Option<Item<ErasedTensor>>],
    ) -> Result<(SearchOptions, Prompt), ErasedError> {
        let op = node.op_type.as_str();
        known(kind, node)?;
        let given = SearchOperands { op, operands };
        let attributes = SearchAttributes { op, node };
        given.at_most(last_operand(kind))?;
        let places = OperandPositions::of(kind);
        let (beams, sampling) = (kind.follows_beams(), kind == SearchKind::Sampling);
        let model = attributes.model(kind)?;
        let (encodes, hears) = (model > 0, model == 2);
        let asks = encodes && (!hears || given.tensor(10).is_none());
        let start = attributes.token("decoder_start_token_id", if asks { None } else { Some(-1) })?;
        let Begun { sound, ids, batch, length } = given.begun(on, hears, start)?;
        if hears {
            unheard(node, &given)?;
            if length == 0 {
                return Err(wrong(op, NodePart::Operand(10), "has no tokens to begin with").into());
            }
        }
        let most = given.most(on, if encodes && !hears { 1 } else { length })?;
        let (width, returned) = if beams { given.widths(on)? } else { (1, 1) };
        check_value(DataType::I32, &[batch, width, most], Limits::default().value_bytes)?;
        let repetition_penalty = given.float(on, places.repetition)?.unwrap_or(1.0);
        if repetition_penalty.is_nan() || repetition_penalty <= 0.0 {
            let problem = format!("is {repetition_penalty}, expected more than 0");
            return Err(wrong(op, NodePart::Operand(places.repetition), problem).into());
        }
        let vocabulary = Some(attributes.int("vocab_size", -1)?).filter(|&size| size > 0);
        let attention = match hears {
            true => None,
            false => given.ints(on, places.attention_mask, &[Some(batch), Some(length)])?,
        };
        let penalty = attributes.float("presence_penalty", 0.0)?;
        let presence =
            if sampling && penalty != 0.0 { given.ints(on, 7, &[Some(batch), None])? } else { None };
        let halves =
            beams && [5, 6].iter().any(|&at| given.tensor(at).is_some_and(|x| x.dtype() == DataType::F16));
        let rows = |ints: Vec<i64>| -> Vec<Vec<i32>> {
            let row = |at: usize| {
                let row = ints.get(at * length..(at + 1) * length).unwrap_or_default();
                row.iter().map(|&n| i32::try_from(n).unwrap_or(i32::MAX)).collect()
            };
            (0..batch).map(row).collect()
        };
        let end = attributes.token("eos_token_id", None)?;
        // The logits processor only affects speech, as in ONNX Runtime.
        let orders = beams && given.int(on, 11)?.is_some_and(|processor| processor == 1) && hears;
        let options = SearchOptions {
            op: op.to_owned(),
            encodes,
            hears,
            batch,
            beams: width,
            returned,
            most,
            least: usize::try_from(given.int(on, 2)?.unwrap_or(0)).unwrap_or(0),
            end,
            padding: attributes.token("pad_token_id", None)?,
            start,
            length_penalty: if beams { given.float(on, 5)?.unwrap_or(1.0) } else { 1.0 },
            early_stopping: attributes.int("early_stopping", 0)? == 1,
            repetition_penalty,
            ngram: attributes.natural("no_repeat_ngram_size")?,
            vocabulary: vocabulary.map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
            mask: given.truths(on, places.vocab_mask, &[None])?,
            prefix_mask: given.truths(on, places.prefix_mask, &[Some(batch), None])?,
            presence: presence.map(|ints| ints.iter().map(|&n| n as f32 * penalty).collect()),
            temperature: given.temperature(on, kind, &attributes)?,
            marks: if orders { Some(Marks::read(node, start, end)?) } else { None },
            silence: match node.outputs.get(4) {
                Some(Some(_)) => Some(attributes.token("no_speech_token_id", None)?),
                _ => None,
            },
            draw: Draw {
                top_p: attributes.float("top_p", 0.0)?,
                filtered: attributes.float("filter_value", f32::NEG_INFINITY)?,
                kept: attributes.natural("min_tokens_to_keep")?,
                from_first: attributes.int("custom", 0)? != 0,
                seed: if sampling { given.seed(on)? } else { 0 },
            },
            scores: if halves { DataType::F16 } else { DataType::F32 },
            wants: [0, 1, 2].map(|at| node.outputs.get(at).is_some_and(Option::is_some)),
        };
        Ok((options, Prompt { tokens: rows(ids), mask: attention.map(rows), sound }))
    }
}

/// Refuses operands and attributes that a search on speech does not support.
fn unheard(node: &Node, given: &SearchOperands<'_>) -> Result<(), Error> {
    let op = node.op_type.as_str();
    for (index, why) in [(9, "an encoder of speech takes no mask"), (13, "it belongs to `cross_qk`")] {
        if given.tensor(index).is_some() {
            return Err(wrong(op, NodePart::Operand(index), format!("is not served: {why}")));
        }
    }
    let weighs = node.attributes.int("decoder_output_cross_qk")?.unwrap_or(0) != 0;
    if weighs || node.outputs.get(3).is_some_and(Option::is_some) {
        let problem = "is not served: kernels of the CPU have no results for the weights of attention";
        return Err(wrong(op, "decoder_output_cross_qk", problem));
    }
    Ok(())
}

/// Refuses attributes that the operator does not support.
fn known(kind: SearchKind, node: &Node) -> Result<(), Error> {
    const ALL: &[&str] = &[
        "decoder",
        "decoder_start_token_id",
        "encoder",
        "eos_token_id",
        "init_decoder",
        "model_type",
        "no_repeat_ngram_size",
        "pad_token_id",
        "vocab_size",
    ];
    let own: &[&str] = match kind {
        SearchKind::Beams => &["early_stopping"],
        SearchKind::Speech => &[
            "beginning_timestamp_token_id",
            "decoder_output_cross_qk",
            "early_stopping",
            "no_speech_token_id",
            "no_timestamps_token_id",
            "start_of_lm_token_id",
            "transcribe_token_id",
            "translate_token_id",
        ],
        SearchKind::Greedy => &[],
        SearchKind::Sampling => {
            &["custom", "filter_value", "min_tokens_to_keep", "presence_penalty", "temperature", "top_p"]
        }
    };
    let names = node.attributes.iter().map(|(name, _)| name);
    match names.filter(|name| !name.starts_with("__")).find(|n| !ALL.contains(n) && !own.contains(n)) {
        Some(name) => Err(wrong(&node.op_type, name, "is no attribute that the operator is served with")),
        None => Ok(()),
    }
}
