//! The inputs of a search's subgraphs, and the state of its sequences on the backend.
//!
//! There are three kinds of decoders. The inputs of a decoder like GPT-2 are tokens, positions, a mask, and a cache for each layer,
//! `[2, rows, heads, length, size]`. The inputs of a decoder like T5 are tokens, the mask of the encoder, maybe the encoder's
//! output, and for each layer the keys and values of the self-attention and of the attention to the encoder. A decoder like Whisper
//! has no mask, because the input of its encoder is sound; this encoder also takes the prompt. After the caches, all decoders may
//! have three more inputs: the used length of a cache, the number of sequences per batch element, and for each position the
//! sequence whose cache contains it.

use super::OP;
use super::beams::Chosen;
use super::options::SearchOptions;
use crate::grouped::grouped_keys;
use bb_core::error::NodePart;
use bb_core::ext::{ErasedBackend, ErasedError, ErasedTensor};
use bb_core::operator::{OnnxValue, Round};
use bb_core::plan::{Item, tensor_bytes};
use bb_core::{Backend, Error, RunOptions, Tensor};
use bb_ir::graph::{Dim, Graph, Node, ValueType};
use bb_ir::{DataType, Limits, TensorData, memory};

/// The subgraph that runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The encoder, which may also run the first step of decoding.
    Encoder,
    /// The first run of a decoder.
    First,
    /// A later run, which adds one token to each sequence.
    Later,
}

/// The declared type of a subgraph's input.
#[derive(Debug, Clone)]
struct Port {
    dtype: DataType,
    shape: Option<Vec<Dim>>,
}

/// The inputs and the state of the subgraphs.
#[derive(Debug)]
pub(super) struct Feeds {
    stage: Stage,
    /// The attribute with the body of the decoder's first run.
    first: &'static str,
    decoder: Vec<Port>,
    encoder: Vec<Port>,
    /// The number of encoder results before its caches.
    before_caches: usize,
    /// Whether the decoder has the encoder's output as an input.
    hidden: bool,
    /// The number of decoder inputs that are caches and grow with each step.
    growing: usize,
    /// The index of the first decoder input after its caches.
    behind: usize,
    /// Whether caches are allocated for the maximum length from the start.
    shared: bool,
    /// Whether the keys that the first run returns must be converted to groups; see [`grouped_keys`].
    groups: bool,
    /// The tokens of the prompt.
    prompt: Vec<Vec<i32>>,
    /// The masks of the tokens. For a decoder there is one mask per row, for an encoder one mask per batch element.
    mask: Vec<Vec<i32>>,
    /// The position of the next token of each row.
    positions: Vec<i32>,
    /// The growing caches.
    past: Vec<ErasedTensor>,
    /// The encoder's output, if the decoder has this input, and the keys and values computed from it.
    encoded: Vec<ErasedTensor>,
    /// The mask of the encoder, for each row.
    encoder_mask: Option<ErasedTensor>,
    /// The sound that is the encoder's input.
    sound: Option<ErasedTensor>,
    /// For each row and position, the sequence of the same batch element whose cache contains the position.
    origins: Vec<Vec<i32>>,
}

/// Returns the number of results of an encoder before the caches.
///
/// # Errors
///
/// An error if the inputs or results do not fit a decoder with these caches.
fn before_the_caches(
    how: &SearchOptions,
    encoder: &Graph,
    caches: usize,
    hidden: bool,
) -> Result<usize, Error> {
    let (inputs, results) = (encoder.inputs.len(), encoder.outputs.len());
    let before = if how.hears || inputs > 2 { 2 } else { 0 };
    let expected = if before > 0 { 2 + 2 * caches } else { caches };
    let most = if how.hears { 2 } else { 3 };
    if inputs > most || results != expected || (before == 0 && hidden) {
        let problem =
            format!("has {inputs} inputs and {results} results, which fit no decoder with {caches} caches");
        return Err(how.wrong("encoder", problem));
    }
    Ok(before)
}

/// The first tokens of each row, their mask, and the position of the next token.
struct Tokens {
    tokens: Vec<Vec<i32>>,
    mask: Vec<Vec<i32>>,
    positions: Vec<i32>,
}

impl Tokens {
    /// Creates the rows of a prompt. Without an explicit mask, the mask follows from the padding.
    fn of(how: &SearchOptions, prompt: &[Vec<i32>], given: Option<Vec<Vec<i32>>>) -> Result<Tokens, Error> {
        let counts = |row: &[i32]| -> Vec<i32> {
            // An encoder's padding is on the left. A later token with the same value may be the end of the sequence, so it is not
            // masked.
            let mut begun = false;
            let one = |token: &i32| {
                begun |= *token != how.padding;
                i32::from(if how.encodes { begun } else { *token != how.padding })
            };
            row.iter().map(one).collect()
        };
        let own = given.unwrap_or_else(|| prompt.iter().map(|row| counts(row)).collect());
        let (mut tokens, mut mask, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (row, own) in prompt.iter().zip(&own) {
            for _ in 0..if how.encodes { 1 } else { how.beams } {
                memory::push(OP, &mut tokens, memory::copied(OP, row)?)?;
                memory::push(OP, &mut mask, memory::copied(OP, own)?)?;
                // Positions follow from the tokens, even if there is an explicit mask.
                let count = row.iter().filter(|token| **token != how.padding).count();
                memory::push(OP, &mut positions, i32::try_from(count).unwrap_or(i32::MAX))?;
            }
        }
        Ok(Tokens { tokens, mask, positions })
    }
}

impl Feeds {
    pub(super) fn begin(
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        node: &Node,
        prompt: &[Vec<i32>],
        mask: Option<Vec<Vec<i32>>>,
        sound: Option<ErasedTensor>,
    ) -> Result<Feeds, ErasedError> {
        let graph = |name: &str| node.attributes.graph(name).map_err(Error::from);
        let missing = || how.wrong("decoder", "is missing");
        let body = graph("decoder")?.ok_or_else(missing)?;
        let decoder = ports(body);
        let caches = body.outputs.len().saturating_sub(1);
        let named = |at: usize, name: &str| body.inputs.get(at).is_some_and(|id| body.name_of(*id) == name);
        // If the encoder's input is sound, the decoder has no encoder mask.
        let given = if how.hears { 1 } else { 2 };
        let hidden = how.encodes && named(given, "encoder_hidden_states");
        let (leading, behind) = match how.encodes {
            false => (3, 3 + caches),
            true => {
                let leading = given + usize::from(hidden);
                (leading, leading + 2 * caches)
            }
        };
        if decoder.len() < behind || decoder.len() > behind + 3 || caches == 0 {
            let problem = format!(
                "has {} inputs and {} results, expected {behind} inputs for as many caches as it gives, and up to 3 more",
                decoder.len(),
                body.outputs.len()
            );
            return Err(how.wrong("decoder", problem).into());
        }
        let (mut encoder, mut before_caches, mut first) = (Vec::new(), 0, "decoder");
        if how.encodes {
            let body = graph("encoder")?.ok_or_else(missing)?;
            encoder = ports(body);
            before_caches = before_the_caches(how, body, caches, hidden)?;
        } else if let Some(body) = graph("init_decoder")? {
            first = "init_decoder";
            if body.inputs.len() != decoder.len() || body.outputs.len() != caches + 1 {
                let problem = "has other numbers of inputs and results than `decoder`";
                return Err(how.wrong("init_decoder", problem).into());
            }
        }
        let Tokens { tokens, mask, positions } = Tokens::of(how, prompt, mask)?;
        let mut new = Feeds {
            stage: if how.encodes { Stage::Encoder } else { Stage::First },
            first,
            shared: decoder.len() > behind,
            groups: first == "init_decoder" && decoder.len() > behind && has_groups(body),
            decoder,
            encoder,
            before_caches,
            hidden,
            growing: caches,
            behind,
            prompt: tokens,
            mask,
            positions,
            past: Vec::new(),
            encoded: Vec::new(),
            encoder_mask: None,
            sound,
            origins: Vec::new(),
        };
        if !how.encodes || new.before_caches == 0 {
            new.past = (0..caches).map(|at| new.room(on, how, leading + at)).collect::<Result<_, _>>()?;
        }
        if new.decoder.len() > behind + 2 {
            let own = |row: usize| vec![i32::try_from(row % how.beams).unwrap_or(0); how.most];
            new.origins = (0..how.rows()).map(own).collect();
        }
        Ok(new)
    }

    /// Returns the size of the stored tensors and rows, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let tensors = self.past.iter().chain(&self.encoded).chain(&self.encoder_mask).chain(&self.sound);
        let held: usize = tensors.map(tensor_bytes).fold(0, usize::saturating_add);
        let rows = self.prompt.iter().chain(&self.mask).chain(&self.origins);
        rows.map(|row| size_of_val(row.as_slice())).fold(held, usize::saturating_add)
    }

    /// Creates an empty cache.
    fn room(
        &self,
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        input: usize,
    ) -> Result<ErasedTensor, ErasedError> {
        let port = self.decoder.get(input).ok_or_else(|| Error::excluded("an input of the decoder"))?;
        let known = |dim: Option<&Dim>| match dim {
            Some(Dim::Known(extent)) => Some(*extent),
            _ => None,
        };
        let dims = port.shape.as_deref().unwrap_or_default();
        let length = if self.shared { how.most } else { 0 };
        let extents = match dims {
            [_, _, heads, _, size] => {
                known(Some(heads)).zip(known(Some(size))).map(|(h, s)| vec![2, how.rows(), h, length, s])
            }
            [_, heads, _, size] => {
                known(Some(heads)).zip(known(Some(size))).map(|(h, s)| vec![how.rows(), h, length, s])
            }
            _ => None,
        };
        let extents = extents.ok_or_else(|| {
            let part = NodePart::Other(format!("input {input} of `decoder`").into());
            how.wrong(part, "does not declare how many heads the cache has, and of which size")
        })?;
        zeros(on, port.dtype, &extents)
    }

    /// Converts rows of integers to an input of a subgraph.
    fn ints(
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        port: Option<&Port>,
        rows: &[Vec<i32>],
    ) -> Result<Item<ErasedTensor>, ErasedError> {
        let width = rows.first().map_or(0, Vec::len);
        Self::integers(on, how, port, &[rows.len(), width], rows.iter().flatten().copied())
    }

    fn integers(
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        port: Option<&Port>,
        shape: &[usize],
        elements: impl Iterator<Item = i32>,
    ) -> Result<Item<ErasedTensor>, ErasedError> {
        let port = port.ok_or_else(|| Error::excluded("an input of the subgraph"))?;
        let data = match port.dtype {
            DataType::I32 => TensorData::new(shape, &memory::collected(OP, elements).map_err(Error::from)?),
            DataType::I64 => {
                TensorData::new(shape, &memory::collected(OP, elements.map(i64::from)).map_err(Error::from)?)
            }
            other => {
                let problem = format!("declares an input of {other}, expected int32");
                return Err(how.wrong("decoder", problem).into());
            }
        };
        Ok(Item::Parts(OnnxValue::Tensor(on.constant(&data.map_err(Error::from)?)?)))
    }

    /// Returns the next subgraph to run, and its inputs.
    pub(super) fn next(
        &mut self,
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        sequences: &[Vec<i32>],
    ) -> Result<Round<ErasedTensor>, ErasedError> {
        let mut given = Vec::new();
        let tensor = |x: &ErasedTensor| Item::Parts(OnnxValue::Tensor(x.clone()));
        if let (Stage::Encoder, Some(sound)) = (self.stage, &self.sound) {
            given.push(tensor(sound));
            given.push(Self::ints(on, how, self.encoder.get(1), &self.prompt)?);
            return Ok(Round { body: "encoder", given });
        }
        if self.stage == Stage::Encoder {
            given.push(Self::ints(on, how, self.encoder.first(), &self.prompt)?);
            given.push(Self::ints(on, how, self.encoder.get(1), &self.mask)?);
            if self.before_caches > 0 {
                let start = std::iter::repeat_n(how.start, how.batch);
                given.push(Self::integers(on, how, self.encoder.get(2), &[how.batch, 1], start)?);
            }
            return Ok(Round { body: "encoder", given });
        }
        let first = self.stage == Stage::First;
        let last = |row: &Vec<i32>| row.last().map_or_else(Vec::new, |last| vec![*last]);
        let whole =
            || !matches!(self.decoder.first().and_then(|p| p.shape.as_deref()), Some([_, Dim::Known(1)]));
        if how.encodes {
            let tokens: Vec<Vec<i32>> = match whole() {
                true => sequences.to_vec(),
                false => sequences.iter().map(last).collect(),
            };
            given.push(Self::ints(on, how, self.decoder.first(), &tokens)?);
            given.extend(self.encoder_mask.iter().map(tensor));
            let hidden = usize::from(self.hidden);
            given.extend(self.encoded.iter().take(hidden).map(tensor));
            given.extend(self.past.iter().map(tensor));
            given.extend(self.encoded.iter().skip(hidden).map(tensor));
        } else if first {
            let position = |row: &Vec<i32>| {
                let mut count = 0;
                let one = |token: &i32| {
                    let counts = *token != how.padding;
                    count += i32::from(counts);
                    if counts { count - 1 } else { 0 }
                };
                row.iter().map(one).collect()
            };
            let positions: Vec<Vec<i32>> = self.prompt.iter().map(position).collect();
            given.push(Self::ints(on, how, self.decoder.first(), &self.prompt)?);
            given.push(Self::ints(on, how, self.decoder.get(1), &positions)?);
            given.push(Self::ints(on, how, self.decoder.get(2), &self.mask)?);
            given.extend(self.past.iter().map(tensor));
        } else {
            let tokens: Vec<Vec<i32>> = sequences.iter().map(last).collect();
            let positions = [self.positions.len(), 1];
            given.push(Self::ints(on, how, self.decoder.first(), &tokens)?);
            let own = self.positions.iter().copied();
            given.push(Self::integers(on, how, self.decoder.get(1), &positions, own)?);
            given.push(Self::ints(on, how, self.decoder.get(2), &self.mask)?);
            given.extend(self.past.iter().map(tensor));
        }
        self.behind_caches(on, how, sequences, &mut given)?;
        Ok(Round { body: if first { self.first } else { "decoder" }, given })
    }

    /// Adds the decoder inputs after its caches.
    fn behind_caches(
        &self,
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        sequences: &[Vec<i32>],
        given: &mut Vec<Item<ErasedTensor>>,
    ) -> Result<(), ErasedError> {
        let port = |at: usize| self.decoder.get(self.behind + at);
        let one = |port: &Port, count: usize| {
            let count = i32::try_from(count).unwrap_or(i32::MAX);
            Self::integers(on, how, Some(port), &[1], std::iter::once(count))
        };
        if let Some(port) = port(0) {
            let length = sequences.first().map_or(0, Vec::len);
            // The caches are empty in the first run of a decoder, unless its encoder has begun to decode.
            let used = if self.stage == Stage::First { 0 } else { length - 1 };
            given.push(one(port, used)?);
        }
        if let Some(port) = port(1) {
            given.push(one(port, how.beams)?);
        }
        if let Some(port) = port(2) {
            let shape = [how.batch, how.beams, how.most];
            given.push(Self::integers(on, how, Some(port), &shape, self.origins.iter().flatten().copied())?);
        }
        Ok(())
    }

    /// Stores the results of a subgraph, and returns its logits; `None` if it has no logits.
    pub(super) fn absorb(
        &mut self,
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        results: Vec<ErasedTensor>,
    ) -> Result<Option<ErasedTensor>, ErasedError> {
        RunOptions::check_current()?;
        let mut results = results.into_iter();
        if self.stage != Stage::Encoder {
            let logits = results.next();
            self.past = results.take(self.growing).collect();
            if self.stage == Stage::First && self.groups {
                for past in &mut self.past {
                    *past = grouped(on, past)?;
                }
            }
            return Ok(logits);
        }
        // Repeat each batch element for its sequences.
        let rows: Vec<i64> = (0..how.rows()).map(|row| (row / how.beams) as i64).collect();
        let index = TensorData::new(&[rows.len()], &rows).map_err(Error::from)?;
        let index = on.constant(&index)?;
        let spread = |x: &ErasedTensor| if how.beams == 1 { Ok(x.clone()) } else { on.gather(x, &index, 0) };
        if self.sound.take().is_none() {
            let mask = Self::ints(on, how, self.decoder.get(1), &self.mask)?;
            self.encoder_mask = mask.tensor().map(spread).transpose()?;
        }
        let logits = if self.before_caches > 0 { results.next() } else { None };
        if self.before_caches > 0 {
            let hidden = results.next();
            if self.hidden {
                self.encoded = hidden.iter().map(spread).collect::<Result<_, _>>()?;
            }
            let caches = results.by_ref().take(self.growing);
            self.past = caches.map(|x| self.lengthened(on, how, spread(&x)?)).collect::<Result<_, _>>()?;
        }
        for x in results {
            self.encoded.push(spread(&x)?);
        }
        self.stage = if logits.is_some() { Stage::Later } else { Stage::First };
        Ok(logits)
    }

    /// Extends a cache to the maximum length, if the decoder requires it.
    fn lengthened(
        &self,
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        x: ErasedTensor,
    ) -> Result<ErasedTensor, ErasedError> {
        let mut extents = x.shape().to_vec();
        let Some(length) = extents.get_mut(2).filter(|_| self.shared) else { return Ok(x) };
        *length = how.most.saturating_sub(*length);
        let rest = zeros(on, x.dtype(), &extents)?;
        on.concat(&[&x, &rest], 2)
    }

    /// Continues the search from the chosen rows.
    pub(super) fn select(
        &mut self,
        on: &ErasedBackend<'_>,
        how: &SearchOptions,
        chosen: &Chosen,
        length: usize,
    ) -> Result<(), ErasedError> {
        let later = self.stage == Stage::Later;
        self.stage = Stage::Later;
        if !how.encodes {
            for mask in &mut self.mask {
                memory::push(OP, mask, 1).map_err(Error::from)?;
            }
            if later {
                self.positions.iter_mut().for_each(|position| *position = position.saturating_add(1));
            }
        }
        if how.beams == 1 {
            return Ok(());
        }
        if !self.origins.is_empty() {
            self.follow(how, chosen, length - 1);
            return Ok(());
        }
        let rows: Vec<i64> = chosen.iter().map(|(row, _)| *row as i64).collect();
        let index = on.constant(&TensorData::new(&[rows.len()], &rows).map_err(Error::from)?)?;
        let axis = if how.encodes { 0 } else { 1 };
        for past in &mut self.past {
            *past = on.gather(past, &index, axis)?;
        }
        Ok(())
    }

    /// Records the sequences whose caches contain the positions of each row. The first `kept` positions stay in their caches. Later
    /// positions will be stored in the row's own cache.
    fn follow(&mut self, how: &SearchOptions, chosen: &Chosen, kept: usize) {
        let before = std::mem::take(&mut self.origins);
        let origins = |(own, (row, _)): (usize, &(usize, i32))| {
            let mut origins = before.get(*row).cloned().unwrap_or_default();
            let own = i32::try_from(own % how.beams).unwrap_or(0);
            origins.iter_mut().skip(kept).for_each(|origin| *origin = own);
            origins
        };
        self.origins = chosen.iter().enumerate().map(origins).collect();
    }
}

/// Returns whether a decoder requires grouped keys in its cache.
fn has_groups(body: &Graph) -> bool {
    body.nodes.iter().any(|n| n.domain == "com.microsoft" && n.op_type == "DecoderMaskedSelfAttention")
}

/// Creates a tensor of zeros.
fn zeros(on: &ErasedBackend<'_>, dtype: DataType, shape: &[usize]) -> Result<ErasedTensor, ErasedError> {
    on.constant(&TensorData::zeros(dtype, shape, Limits::default().value_bytes).map_err(Error::from)?)
}

/// Converts the keys in a cache `[2, rows, heads, room, size]` to groups.
fn grouped(on: &ErasedBackend<'_>, past: &ErasedTensor) -> Result<ErasedTensor, ErasedError> {
    let part = |at: i64| on.slice(past, &[at], &[at + 1], &[0], &[]);
    let keys = grouped_keys(on, &on.squeeze(&part(0)?, &[0])?, past.dtype(), false)?;
    on.concat(&[&on.unsqueeze(&keys, &[0])?, &part(1)?], 0)
}

/// Returns the declared types of a subgraph's inputs.
fn ports(body: &Graph) -> Vec<Port> {
    let declared = |value: &bb_ir::graph::ValueId| {
        match body.values.get(value.index()).map(|v| v.claimed()) {
            Some(ValueType::Tensor { dtype, shape }) => Port { dtype, shape },
            // An undeclared input is assumed to be tokens.
            _ => Port { dtype: DataType::I32, shape: None },
        }
    };
    body.inputs.iter().map(declared).collect()
}
