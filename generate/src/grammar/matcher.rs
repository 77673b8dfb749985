//! The state of the grammar after the tokens of an answer so far.

use super::Vocabulary;
use super::compile::shown;
use super::refusal::Refusal;
use super::watch::Allowance;
use crate::Error;
use bb_ir::BoxError;
use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::toktrie::SimpleVob;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The number of tokens in a word of a mask.
const BITS: usize = u32::BITS as usize;

/// The state of the grammar of an answer after the last token.
pub(crate) struct Matcher {
    parser: TokenParser,
    allowance: Allowance,
    vocabulary: Arc<Vocabulary>,
    /// The logits after masking. The buffer is reused, so that it is allocated once.
    masked: Vec<f32>,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matcher({} tokens)", self.parser.num_tokens())
    }
}

impl Matcher {
    pub(super) fn new(mut parser: TokenParser, vocabulary: Arc<Vocabulary>) -> Matcher {
        let allowance = Allowance::new(parser.enable_cancellation());
        Matcher { parser, allowance, vocabulary, masked: Vec::new() }
    }

    /// Returns the logits, with minus infinity for tokens that the grammar does not allow. An end token is allowed if the text is
    /// complete; with `ignore_end`, only if no other token is allowed.
    pub(crate) fn masked(&mut self, logits: &[f32], ignore_end: bool) -> Result<&[f32], Error> {
        let Matcher { parser, allowance, vocabulary, masked } = self;
        allowance.add();
        let mask = guarded(allowance, || parser.compute_mask());
        let mut mask = mask.map_err(|error| match parser.stop_reason() {
            StopReason::NoExtensionBias => Error::NoneLeft,
            _ => error,
        })?;
        if ignore_end {
            pass_over(&mut mask, vocabulary.ends());
        }
        masked.clear();
        masked.resize(logits.len(), f32::NEG_INFINITY);
        let parts = masked.chunks_mut(BITS).zip(logits.chunks(BITS));
        for ((to, from), word) in parts.zip(mask.as_slice()) {
            match *word {
                0 => {}
                u32::MAX => to.copy_from_slice(from),
                word => {
                    for (bit, (to, from)) in to.iter_mut().zip(from).enumerate() {
                        if word >> bit & 1 == 1 {
                            *to = *from;
                        }
                    }
                }
            }
        }
        Ok(masked)
    }

    /// Advances the grammar by the next token, which must be allowed and must not be an end token. Returns whether the text is complete,
    /// so that nothing can follow.
    pub(crate) fn take(&mut self, token: u32) -> Result<bool, Error> {
        let Matcher { parser, allowance, .. } = self;
        guarded(allowance, || {
            parser.consume_token(token)?;
            parser.check_stop()
        })
    }
}

/// Removes the end tokens from a mask, unless no other token is allowed.
fn pass_over(mask: &mut SimpleVob, ends: &[u32]) {
    let possible: Vec<u32> = ends.iter().copied().filter(|end| mask.is_allowed(*end)).collect();
    possible.iter().for_each(|end| mask.disallow_token(*end));
    if mask.is_zero() {
        possible.iter().for_each(|end| mask.allow_token(*end));
    }
}

/// Calls the library within the remaining time. A panic of the library becomes an error.
fn guarded<T, E: Into<BoxError>>(
    allowance: &mut Allowance,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, Error> {
    let failed = |source: BoxError| Error::GrammarFailed { source };
    let called = allowance.spend(|| catch_unwind(AssertUnwindSafe(call)));
    match called.map_err(|refusal| failed(refusal.into()))? {
        Ok(result) => result.map_err(|error| failed(shown(error.into()))),
        Err(_) => Err(failed(Refusal::Panic.into())),
    }
}
