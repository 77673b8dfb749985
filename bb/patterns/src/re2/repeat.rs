//! Repetitions.

use super::{Parser, Part};
use regex_syntax::hir::{Hir, Repetition};

/// The maximum count of a repetition, and the maximum product of counts of nested repetitions.
const COUNT: u32 = 1000;

impl<'a> Parser<'a> {
    /// Parses a repetition operator, and returns it. A `{` without counts is a literal.
    pub(super) fn repetition(&mut self, repeated: Option<&'a str>) -> Result<Option<&'a str>, String> {
        let all = self.rest;
        let counts = match self.next() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            _ => match self.counts() {
                Some(counts) => counts,
                None => {
                    self.rest = all.get(1..).unwrap_or_default();
                    self.literal('{');
                    return Ok(None);
                }
            },
        };
        // A `?` makes the operator lazy, which makes no difference here, because the longest match counts.
        self.takes("?");
        let operator = all.get(..all.len() - self.rest.len()).unwrap_or_default();
        if let Some(before) = repeated {
            return Err(format!("`{before}{operator}` repeats a repetition"));
        }
        let (min, max) = counts;
        if max.is_some_and(|max| max < min) || max.unwrap_or(min) > COUNT {
            return Err(format!("`{operator}` is no count: at most {COUNT}, the smaller one first"));
        }
        let Some(part) = self.group.take_last() else {
            return Err(format!("`{operator}` has nothing to repeat"));
        };
        let is_counted = operator.starts_with('{');
        let times = if is_counted { part.times * max.unwrap_or(min).max(1) } else { part.times };
        if times > COUNT {
            return Err(format!("`{operator}` makes {times} repetitions together, expected at most {COUNT}"));
        }
        let sub = Box::new(part.hir);
        let hir = Hir::repetition(Repetition { min, max, greedy: true, sub });
        let part = Part { hir, depth: part.depth + 1, times }.bounded()?;
        self.group.end_text();
        self.group.last.push(part);
        Ok(Some(operator))
    }

    /// Parses counts after `{`: `n}`, `n,}` or `n,m}`.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let min = self.count_of_repetition()?;
        let max = if !self.takes(",") {
            Some(min)
        } else if self.rest.starts_with('}') {
            None
        } else {
            Some(self.count_of_repetition()?)
        };
        self.takes("}").then_some((min, max))
    }

    fn count_of_repetition(&mut self) -> Option<u32> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let text = self.rest.get(..digits)?;
        if text.len() > 1 && text.starts_with('0') {
            return None;
        }
        self.skip(digits);
        text.parse().ok().filter(|count| *count < 1_000_000_000)
    }
}
