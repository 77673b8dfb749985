//! The steps of a search: the sequences so far, and the choice of their next tokens.

use super::beams::{Beams, Chosen};
use super::feeds::Feeds;
use super::options::{Prompt, SearchOptions};
use super::scores::Scores;
use super::{OP, SearchKind, draw, speech};
use bb_core::contract::check_value;
use bb_core::ext::{ErasedBackend, ErasedError, ErasedTensor, Mersenne};
use bb_core::operator::{OnnxValue, Round, Rounds};
use bb_core::plan::Item;
use bb_core::{Backend, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Node;
use bb_ir::{DataType, Limits, TensorData, memory};

/// A search in progress.
#[derive(Debug)]
struct Search {
    how: SearchOptions,
    feeds: Feeds,
    /// The tokens of each active sequence.
    sequences: Vec<Vec<i32>>,
    /// The number of tokens that were added to each sequence.
    added: usize,
    /// The scores of the sequences and the finished sequences, for a beam search.
    beams: Option<Beams>,
    /// Whether each sequence has ended, for other searches.
    ended: Vec<bool>,
    /// The random number generator, if tokens are sampled.
    random: Option<Mersenne>,
    /// The scores of all tokens, one list per step, if they are an output.
    scores: Vec<Vec<f32>>,
    /// The probability of silence for each batch element, if it is an output.
    silence: Vec<f32>,
    vocabulary: usize,
    over: bool,
}

/// Begins a search.
pub(super) fn begin(
    on: &ErasedBackend<'_>,
    kind: SearchKind,
    node: &Node,
    operands: Vec<Option<Item<ErasedTensor>>>,
) -> Result<Box<dyn Rounds>, ErasedError> {
    Ok(Box::new(Search::begin(on, kind, node, &operands)?))
}

impl Search {
    fn begin(
        on: &ErasedBackend<'_>,
        kind: SearchKind,
        node: &Node,
        operands: &[Option<Item<ErasedTensor>>],
    ) -> Result<Search, ErasedError> {
        let (how, prompt) = SearchOptions::read(on, kind, node, operands)?;
        let Prompt { tokens, mask, sound } = prompt;
        let mut sequences = Vec::new();
        for row in &tokens {
            let first =
                if how.encodes && !how.hears { std::slice::from_ref(&how.start) } else { row.as_slice() };
            for _ in 0..how.beams {
                let own = memory::copied(OP, first).map_err(Error::from)?;
                memory::push(OP, &mut sequences, own).map_err(Error::from)?;
            }
        }
        let feeds = Feeds::begin(on, &how, node, &tokens, mask, sound)?;
        let beams = kind.follows_beams().then(|| Beams::new(&how)).transpose()?;
        let random = (kind == SearchKind::Sampling).then(|| Mersenne::new(how.draw.seed));
        let over = sequences.is_empty();
        let ended = vec![false; sequences.len()];
        let (scores, vocabulary) = (Vec::new(), how.vocabulary.unwrap_or(0));
        let silence = Vec::new();
        Ok(Search {
            how,
            feeds,
            sequences,
            added: 0,
            beams,
            ended,
            random,
            scores,
            silence,
            vocabulary,
            over,
        })
    }

    /// Reads the logits after the last token of each sequence. `logits` is `[rows, length, tokens]`.
    fn read(&mut self, on: &ErasedBackend<'_>, logits: &ErasedTensor) -> Result<Scores, ErasedError> {
        let rows = self.how.rows();
        // As long as the sequences of a batch element are equal, a subgraph may return one row per batch element.
        let (length, width, repeat) = match *logits.shape() {
            [all, length, width] if all == rows => (length, width, 1),
            [all, length, width] if all == self.how.batch => (length, width, self.how.beams),
            _ => {
                let problem = format!(
                    "gives logits of the extents {:?}, expected [{rows}, length, tokens]",
                    logits.shape()
                );
                return Err(self.how.wrong("decoder", problem).into());
            }
        };
        let vocabulary = self.how.vocabulary.unwrap_or(width);
        if length == 0
            || vocabulary == 0
            || vocabulary > width
            || (self.added > 0 && vocabulary != self.vocabulary)
        {
            let problem = format!(
                "gives logits of the extents {:?}, expected those of {} tokens",
                logits.shape(),
                self.how.vocabulary.unwrap_or(self.vocabulary)
            );
            return Err(self.how.wrong("decoder", problem).into());
        }
        for (mask, part) in [(&self.how.mask, 1), (&self.how.prefix_mask, self.how.batch)] {
            if mask.as_ref().is_some_and(|mask| mask.len() != vocabulary * part) {
                return Err(self
                    .how
                    .wrong("vocab_mask", format!("is not one of {vocabulary} tokens"))
                    .into());
            }
        }
        if self.how.presence.as_ref().is_some_and(|mask| mask.len() != vocabulary * self.how.batch) {
            return Err(self.how.wrong("presence_mask", format!("is not one of {vocabulary} tokens")).into());
        }
        let first = self.how.marks.as_ref().map(|marks| ("beginning_timestamp_token_id", marks.first()));
        let silence = self.how.silence.map(|token| usize::try_from(token).unwrap_or(usize::MAX));
        for (name, token) in first.into_iter().chain(silence.map(|token| ("no_speech_token_id", token))) {
            if token >= vocabulary {
                return Err(self.how.wrong(name, format!("is none of the {vocabulary} tokens")).into());
            }
        }
        self.vocabulary = vocabulary;
        let last =
            on.slice(logits, &[length as i64 - 1, 0], &[length as i64, vocabulary as i64], &[1, 2], &[])?;
        let host = on.to_host(&last)?;
        let wide = cast(&host, DataType::F32, Rounding::default()).map_err(Error::from)?;
        let numbers = wide.as_slice::<f32>().map_err(Error::from)?;
        let mut elements = memory::room(OP, rows.saturating_mul(vocabulary)).map_err(Error::from)?;
        for row in numbers.chunks(vocabulary) {
            for _ in 0..repeat {
                elements.extend_from_slice(row);
            }
        }
        Ok(Scores { vocabulary, elements })
    }

    /// Chooses the next tokens; `None` if all sequences have ended.
    fn choose(&mut self, scores: &mut Scores) -> Result<Option<Chosen>, Error> {
        let first = self.added == 0;
        if let Some(beams) = &mut self.beams {
            scores.normalise();
            scores.restrict(&self.how, &self.sequences, first)?;
            beams.add_to(scores);
            if self.how.wants[2] {
                let step = memory::copied(OP, &scores.elements)?;
                memory::push(OP, &mut self.scores, step)?;
            }
            return beams.choose(&self.how, scores, &self.sequences);
        }
        scores.restrict(&self.how, &self.sequences, first)?;
        let tokens = match &mut self.random {
            Some(random) => {
                self.how.draw.filter(scores)?;
                if self.how.wants[1] {
                    self.scores = vec![memory::copied(OP, &scores.elements)?];
                }
                draw::drawn(scores, || random.unit())?
            }
            None => draw::most_probable(scores)?,
        };
        let mut chosen = Chosen::new();
        for (row, (token, ended)) in tokens.into_iter().zip(&mut self.ended).enumerate() {
            *ended |= token == self.how.end;
            chosen.push((row, if *ended { self.how.padding } else { token }));
        }
        Ok(Some(chosen))
    }

    /// Returns the node's results.
    fn results(self, on: &ErasedBackend<'_>) -> Result<Vec<Item<ErasedTensor>>, ErasedError> {
        let how = &self.how;
        let tensor = |data: TensorData| -> Result<Item<ErasedTensor>, ErasedError> {
            Ok(Item::Parts(OnnxValue::Tensor(on.constant(&data)?)))
        };
        let tokens = |rows: &[&[i32]]| -> Result<Vec<i32>, Error> {
            let mut all = memory::room(OP, rows.len().saturating_mul(how.most))?;
            for row in rows {
                all.extend(row.iter().copied().chain(std::iter::repeat(how.padding)).take(how.most));
            }
            Ok(all)
        };
        let Some(beams) = self.beams else {
            let rows: Vec<&[i32]> = self.sequences.iter().map(Vec::as_slice).collect();
            let sequences = TensorData::new(&[how.batch, how.most], &tokens(&rows)?).map_err(Error::from)?;
            let mut results = vec![tensor(sequences)?];
            if how.wants[1] {
                let (elements, extents) = match self.scores.first() {
                    Some(elements) => (elements.as_slice(), [how.batch, self.vocabulary]),
                    None => (&[][..], [how.batch, 0]),
                };
                results.push(tensor(TensorData::new(&extents, elements).map_err(Error::from)?)?);
            }
            return Ok(results);
        };
        let best = beams.finish(how, &self.sequences)?;
        let (rows, scores): (Vec<&[i32]>, Vec<f32>) =
            best.iter().map(|(tokens, score)| (tokens.as_slice(), *score)).unzip();
        let numbers = |extents: &[usize], elements: &[f32]| -> Result<TensorData, Error> {
            let wide = TensorData::new(extents, elements)?;
            Ok(cast(&wide, how.scores, Rounding::default())?)
        };
        let each = [how.batch, how.returned];
        let sequences = TensorData::new(&[how.batch, how.returned, how.most], &tokens(&rows)?);
        let mut results = vec![tensor(sequences.map_err(Error::from)?)?, tensor(numbers(&each, &scores)?)?];
        if how.wants[2] {
            let begun = self.sequences.first().map_or(0, |row| row.len() - self.added);
            let extents = [how.most - begun, how.batch, how.beams, self.vocabulary];
            check_value(DataType::F32, &extents, Limits::default().value_bytes)?;
            let count: usize = extents.iter().product();
            let mut all = memory::room(OP, count).map_err(Error::from)?;
            self.scores.iter().for_each(|step| all.extend_from_slice(step));
            all.resize(count, 0.0);
            results.push(tensor(numbers(&extents, &all)?)?);
        }
        if how.silence.is_some() {
            // Fill in empty results before it that the model omits. They are never read.
            while results.len() < 4 {
                results.push(tensor(numbers(&[0], &[])?)?);
            }
            let mut silence = memory::copied(OP, &self.silence).map_err(Error::from)?;
            silence.resize(how.batch, 0.0);
            results.push(tensor(numbers(&[how.batch], &silence)?)?);
        }
        Ok(results)
    }
}

impl Rounds for Search {
    fn next(&mut self, on: &ErasedBackend<'_>) -> Result<Option<Round<ErasedTensor>>, ErasedError> {
        if self.over {
            return Ok(None);
        }
        self.feeds.next(on, &self.how, &self.sequences).map(Some)
    }

    fn absorb(
        &mut self,
        on: &ErasedBackend<'_>,
        results: Vec<Item<ErasedTensor>>,
    ) -> Result<(), ErasedError> {
        let results = results.into_iter().map(|item| match item {
            Item::Parts(OnnxValue::Tensor(x)) => Ok(x),
            _ => Err(self.how.wrong("decoder", "gives a result that is no tensor")),
        });
        let results = results.collect::<Result<Vec<ErasedTensor>, Error>>()?;
        let Some(logits) = self.feeds.absorb(on, &self.how, results)? else { return Ok(()) };
        let mut scores = self.read(on, &logits)?;
        if let (0, Some(token)) = (self.added, self.how.silence) {
            let token = usize::try_from(token).unwrap_or(usize::MAX);
            self.silence = speech::probability(&scores, token, self.how.beams);
        }
        let Some(chosen) = self.choose(&mut scores)? else {
            self.over = true;
            return Ok(());
        };
        let mut sequences: Vec<Vec<i32>> = memory::room(OP, chosen.len()).map_err(Error::from)?;
        if self.beams.is_none() {
            sequences = std::mem::take(&mut self.sequences);
            for (row, (_, token)) in sequences.iter_mut().zip(&chosen) {
                memory::push(OP, row, *token).map_err(Error::from)?;
            }
        } else {
            for &(row, token) in &chosen {
                let before = self.sequences.get(row).map_or(&[][..], Vec::as_slice);
                let mut next = memory::copied(OP, before).map_err(Error::from)?;
                memory::push(OP, &mut next, token).map_err(Error::from)?;
                sequences.push(next);
            }
        }
        self.sequences = sequences;
        self.added += 1;
        self.over = self.ended.iter().all(|ended| *ended)
            || self.sequences.first().is_none_or(|row| row.len() >= self.how.most);
        if !self.over {
            let length = self.sequences.first().map_or(0, Vec::len);
            self.feeds.select(on, &self.how, &chosen, length)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, on: &ErasedBackend<'_>) -> Result<Vec<Item<ErasedTensor>>, ErasedError> {
        (*self).results(on)
    }

    fn bytes(&self) -> usize {
        let tokens: usize = self.sequences.iter().map(|row| size_of_val(row.as_slice())).sum();
        let scores: usize = self.scores.iter().map(|step| size_of_val(step.as_slice())).sum();
        let ended = self.beams.as_ref().map_or(0, Beams::bytes);
        [tokens, scores, ended].iter().fold(self.feeds.bytes(), |sum, bytes| sum.saturating_add(*bytes))
    }
}
