//! Searches an answer for stop strings while it is being generated.

use crate::Error;

/// The maximum number of stop strings, and of their bytes in total.
const COUNT: usize = 64;
const BYTES: usize = 64 << 10;

/// A stop string, which ends an answer.
#[derive(Debug)]
struct Stop {
    text: Vec<u8>,
    /// For each prefix of the string, the length of its longest proper suffix that is also a prefix of the string.
    ///
    /// Source: D. Knuth, J. Morris, V. Pratt: Fast pattern matching in strings, 1977.
    shorter: Vec<u32>,
    /// The length of the prefix that the answer ends with so far.
    matched: usize,
}

impl Stop {
    fn new(text: &str) -> Stop {
        let mut stop = Stop { text: text.as_bytes().to_vec(), shorter: Vec::new(), matched: 0 };
        stop.shorter.reserve(text.len());
        for at in 0..text.len() {
            // Search the string in itself, from its second byte on.
            if at > 0 {
                stop.advance(text.as_bytes().get(at).copied());
            }
            stop.shorter.push(stop.matched as u32);
        }
        stop.matched = 0;
        stop
    }

    /// Advances the search by a byte. Returns whether the string ends with this byte.
    fn advance(&mut self, byte: Option<u8>) -> bool {
        let fallback = |matched: usize| -> usize {
            matched.checked_sub(1).and_then(|at| self.shorter.get(at)).map_or(0, |x| *x as usize)
        };
        let mut matched = match self.matched == self.text.len() {
            true => fallback(self.matched),
            false => self.matched,
        };
        while matched > 0 && self.text.get(matched).copied() != byte {
            matched = fallback(matched);
        }
        self.matched = matched + usize::from(self.text.get(matched).copied() == byte);
        self.matched == self.text.len()
    }
}

/// The stop strings of an answer, and the state of the search for each. The search time per byte does not depend on the lengths of
/// the strings.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    stops: Vec<Stop>,
}

impl Stops {
    /// Prepares the search for strings. Empty strings are ignored. `longest` is the length of the longest answer, in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for too many strings, or too long ones.
    pub(crate) fn new(texts: &[String], longest: usize) -> Result<Stops, Error> {
        let refused =
            |found: usize, expected| Error::Option { option: "stop", found: found as f64, expected };
        if texts.len() > COUNT {
            return Err(refused(texts.len(), "at most 64 texts"));
        }
        let bytes = texts.iter().fold(0usize, |sum, text| sum.saturating_add(text.len()));
        if bytes > BYTES {
            return Err(refused(bytes, "at most 65536 bytes in all"));
        }
        if let Some(text) = texts.iter().find(|text| text.len() > longest) {
            return Err(refused(text.len(), "no more bytes than the longest answer has"));
        }
        Ok(Stops {
            stops: texts.iter().filter(|text| !text.is_empty()).map(|text| Stop::new(text)).collect(),
        })
    }

    /// Searches the next part of a text. If a stop string is found, returns the number of bytes from its start to the end of the
    /// text, for the stop string that starts first.
    pub(crate) fn push(&mut self, new: &str) -> Option<usize> {
        let first = |stop: &mut Stop| {
            let end = new.bytes().position(|byte| stop.advance(Some(byte)))?;
            Some(new.len() - (end + 1) + stop.text.len())
        };
        self.stops.iter_mut().filter_map(first).max()
    }

    /// Returns the length of the longest suffix of the text that may be the beginning of a stop string.
    pub(crate) fn begun(&self) -> usize {
        self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    /// Returns all strings of the letters `a`, `b` and `é` up to a length.
    fn texts(most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..most {
            last = last.iter().flat_map(|text| ["a", "b", "é"].map(|c| format!("{text}{c}"))).collect();
            all.extend_from_slice(&last);
        }
        all
    }

    /// Compares the search with the definition: the first occurrence of each stop string in the whole text, and the longest suffix
    /// that is a prefix of a stop string.
    #[test]
    fn stops_are_found_where_a_search_of_the_whole_text_finds_them() {
        let (stops, answers) = (texts(3), texts(6));
        for (i, stop) in stops.iter().enumerate() {
            let all = [stop.clone(), stops[(7 * i + 3) % stops.len()].clone()];
            for answer in &answers {
                let mut search = Stops::new(&all, 100).unwrap();
                let mut so_far = String::new();
                // Each piece has two letters.
                let letters: Vec<char> = answer.chars().collect();
                for piece in letters.chunks(2) {
                    let piece: String = piece.iter().collect();
                    so_far.push_str(&piece);
                    let found = search.push(&piece).map(|before| so_far.len() - before);
                    let known = all.iter().filter(|stop| !stop.is_empty());
                    let expected = known.clone().filter_map(|stop| so_far.find(stop.as_str())).min();
                    assert_eq!(found, expected, "{all:?} in {so_far:?}");
                    if found.is_some() {
                        break;
                    }
                    let begins = |at: &usize| known.clone().any(|stop| stop.starts_with(&so_far[*at..]));
                    let at = so_far.char_indices().map(|(at, _)| at).find(begins).unwrap_or(so_far.len());
                    assert_eq!(search.begun(), so_far.len() - at, "{all:?} in {so_far:?}");
                }
            }
        }
    }

    #[test]
    fn too_many_and_too_long_stops_are_refused() {
        let refused = |texts: &[String], longest| {
            matches!(Stops::new(texts, longest), Err(Error::Option { option: "stop", .. }))
        };
        assert!(refused(&vec!["a".to_owned(); 65], 100));
        assert!(!refused(&vec!["a".to_owned(); 64], 100));
        assert!(refused(&["a".repeat(101)], 100) && !refused(&["a".repeat(100)], 100));
        assert!(refused(&["a".repeat(40_000), "b".repeat(40_000)], 1 << 20));
    }

    /// The search of two million bytes ends soon, because it compares each byte at most twice on average.
    #[test]
    fn a_stop_that_repeats_itself_is_searched_in_linear_time() {
        let stop = format!("{}b", "a".repeat(60_000));
        let mut search = Stops::new(&[stop], 1 << 20).unwrap();
        for _ in 0..2_000_000 {
            assert_eq!(search.push("a"), None);
        }
        assert_eq!(search.begun(), 60_000);
        assert_eq!(search.push("b"), Some(60_001));
    }
}
