//! Extents for what neither the model nor the options say: usual ones, until the model works with them.
//!
//! Whether a choice works is asked of inference first, which takes milliseconds, and then of the model itself. The search
//! ends after so many choices or so much time; what a model does with a choice cannot be interrupted.

use super::extents::{Extents, Open};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Extents that models are used with, the first of which work with most.
const USUAL: [usize; 15] = [32, 64, 224, 320, 512, 640, 16, 8, 128, 256, 48, 96, 160, 384, 1024];

/// Extents that work where little is computed, or by broadcasting, which is seldom what a model is used with.
const SMALL: [usize; 3] = [4, 2, 1];

/// The most choices that are inferred, and the most that are tried by running the model.
const MOST_INFERRED: usize = 3000;
const MOST_TRIED: usize = 200;

/// How long a search goes on to a next choice.
const LONGEST: Duration = Duration::from_secs(20);

/// Lists choices for what is open, the likeliest first; each has an extent for each.
pub(super) fn choices(open: &[Open], batch: &[bool]) -> impl Iterator<Item = Vec<usize>> {
    let count = open.len();
    let batches: Vec<bool> = (0..count).map(|i| batch.get(i).copied().unwrap_or(false)).collect();
    let free: Vec<usize> = (0..count).filter(|i| batches.get(*i) == Some(&false)).collect();
    let alike = {
        let batches = batches.clone();
        move |extent: usize| -> Vec<usize> {
            batches.iter().map(|batch| if *batch { 1 } else { extent }).collect()
        }
    };
    let with = |mut choice: Vec<usize>, place: usize, extent: usize| {
        if let Some(slot) = choice.get_mut(place) {
            *slot = extent;
        }
        choice
    };
    // All alike, but for batches.
    let first = USUAL.map(&alike).into_iter();
    // One unlike the others: as long as two of them, because a cache and what is new come together, or 1.
    let second = USUAL.into_iter().flat_map({
        let (free, alike) = (free.clone(), alike.clone());
        move |extent| {
            let (free, alike) = (free.clone(), alike.clone());
            free.into_iter().flat_map(move |place| {
                [extent * 2, 1, extent + 1].map(|other| with(alike(extent), place, other))
            })
        }
    });
    // What seemed to be a batch may be none.
    let third = USUAL.into_iter().chain(SMALL).flat_map({
        let alike = alike.clone();
        move |extent| {
            let alike = alike.clone();
            let mut choices: Vec<Vec<usize>> = (0..count)
                .filter(|i| batches.get(*i) == Some(&true))
                .map(|i| with(alike(extent), i, extent))
                .collect();
            choices.push(vec![extent; count]);
            choices
        }
    });
    let small = SMALL.map(&alike).into_iter();
    // Two that have extents of their own.
    let fourth = USUAL.into_iter().flat_map(move |extent| {
        let (free, alike) = (free.clone(), alike.clone());
        let pairs: Vec<(usize, usize)> = free
            .iter()
            .enumerate()
            .flat_map(|(i, a)| free.iter().skip(i + 1).map(move |b| (*a, *b)))
            .collect();
        pairs.into_iter().flat_map(move |(a, b)| {
            let alike = alike.clone();
            USUAL.into_iter().flat_map(move |x| {
                let alike = alike.clone();
                USUAL.map(move |y| with(with(alike(extent), a, x), b, y))
            })
        })
    });
    let mut seen = HashSet::new();
    first
        .chain(second)
        .chain(small)
        .chain(third)
        .chain(fourth)
        .filter(move |choice| seen.insert(choice.clone()))
}

/// An extent for each that is open.
pub(super) type Choice = Vec<(Open, usize)>;

/// How a search ended without a choice.
pub(super) struct Failed<E> {
    /// How many choices there were.
    pub(super) tried: usize,
    /// Why the first did not work.
    pub(super) first: Option<E>,
}

/// Looks for a choice with which `infers` finds nothing wrong and that `works`; returns it and what `works` returned. An
/// error of which `is_final` says that no choice mends it ends the search.
pub(super) fn search<T, E>(
    extents: &Extents,
    infers: impl Fn(&dyn Fn(&Open) -> usize) -> Result<(), E>,
    mut works: impl FnMut(&dyn Fn(&Open) -> usize) -> Result<T, E>,
    is_final: impl Fn(&E) -> bool,
) -> Result<(Choice, T), Failed<E>> {
    let open = extents.open();
    let batch: Vec<bool> = open.iter().map(|open| extents.is_batch(open)).collect();
    let start = Instant::now();
    let mut failed = Failed { tried: 0, first: None };
    let mut runs = 0;
    for choice in choices(&open, &batch).take(MOST_INFERRED) {
        if failed.tried > 0 && (runs >= MOST_TRIED || start.elapsed() > LONGEST) {
            break;
        }
        failed.tried += 1;
        let choose = |wanted: &Open| {
            let place = open.iter().position(|open| open == wanted);
            place.and_then(|place| choice.get(place)).copied().unwrap_or(1)
        };
        let result = infers(&choose).and_then(|()| {
            runs += 1;
            works(&choose)
        });
        match result {
            Ok(found) => return Ok((open.iter().cloned().zip(choice).collect(), found)),
            Err(error) if is_final(&error) => return Err(Failed { first: Some(error), ..failed }),
            Err(error) => failed.first = failed.first.or(Some(error)),
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Open> {
        names.iter().map(|name| Open::Name((*name).to_owned())).collect()
    }

    #[test]
    fn a_batch_is_one_and_the_rest_are_alike_first() {
        let open = names(&["n", "h", "w"]);
        let all: Vec<Vec<usize>> = choices(&open, &[true, false, false]).take(5).collect();
        assert_eq!(all, [[1, 32, 32], [1, 64, 64], [1, 224, 224], [1, 320, 320], [1, 512, 512]]);
    }

    #[test]
    fn a_cache_and_what_is_new_come_together() {
        let open = names(&["new", "past", "all"]);
        assert!(choices(&open, &[false; 3]).any(|choice| choice == [32, 32, 64]));
    }

    #[test]
    fn no_choice_comes_twice_and_there_is_an_end() {
        let open = names(&["n", "a", "b"]);
        let all: Vec<Vec<usize>> = choices(&open, &[true, false, false]).collect();
        let different: HashSet<&Vec<usize>> = all.iter().collect();
        assert_eq!(all.len(), different.len());
        assert!(all.contains(&vec![1, 48, 320]) && all.contains(&vec![32, 32, 32]));
        assert_eq!(choices(&[], &[]).count(), 1);
    }
}
