//! Searches extents that neither the model nor the options determine: tries common extents until the model runs.
//!
//! A choice of extents is first checked by inference, which takes milliseconds, and then by running the model. The search ends after a
//! number of choices or after some time. The time limit also stops a run, except the run of the first choice.

use super::extents::{Extents, Open};
use super::solve::Solution;
use bb::RunOptions;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Common extents of models, in descending order of their success with models.
pub(super) const USUAL: [usize; 15] = [32, 64, 224, 320, 512, 640, 16, 8, 128, 256, 48, 96, 160, 384, 1024];

/// Small extents, which work because of broadcasting or because little is computed. Models are rarely used with them.
const SMALL: [usize; 3] = [4, 2, 1];

/// The maximum number of choices that are enumerated.
const MOST_LISTED: usize = 100_000;

/// The maximum numbers of choices that are inferred, and of those that are run.
const MOST_INFERRED: usize = 3000;
const MOST_TRIED: usize = 200;

/// The maximum number of extents and demands that are examined over all choices.
const MOST_COMPARED: usize = 1 << 26;

/// The maximum number of elements of all inputs together. Larger choices are skipped, except the first one.
const MOST_ELEMENTS: usize = 1 << 24;

/// The time after which no further choices are tried for a model.
pub(super) const LONGEST: Duration = Duration::from_secs(20);

/// Enumerates choices for all open extents, the most likely first.
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
    // First, all extents are equal, except batch sizes.
    let first = USUAL.map(&alike).into_iter();
    // Second, one extent differs: it is doubled or larger by 1, because a cache and its new part occur together; or it is 1.
    let second = USUAL.into_iter().flat_map({
        let (free, alike) = (free.clone(), alike.clone());
        move |extent| {
            let (free, alike) = (free.clone(), alike.clone());
            free.into_iter().flat_map(move |place| {
                [extent * 2, 1, extent + 1].map(|other| with(alike(extent), place, other))
            })
        }
    });
    // Third, one extent that looks like a batch size gets the value of the other extents.
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
    // Fourth, two extents differ from the rest.
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

/// A choice: a value for each open extent.
pub(super) type Choice = Vec<(Open, usize)>;

/// The result of a failed search.
pub(super) struct Failed<E> {
    /// The number of choices that were tried.
    pub(super) tried: usize,
    /// The error of the first choice.
    pub(super) first: Option<Box<E>>,
}

/// Searches a choice that lets `infers` and `works` succeed. Returns the choice and the result of `works`. Extents that `solution`
/// determines are not searched, and choices that it excludes are skipped. An error that `is_final` accepts ends the search, because no
/// other choice can avoid it. `elements` returns the number of elements of all inputs for a choice. After `until`, only a first choice is
/// tried.
pub(super) fn search<T, E>(
    extents: &Extents,
    solution: &Solution,
    infers: impl Fn(&dyn Fn(&Open) -> usize) -> Result<(), E>,
    mut works: impl FnMut(&dyn Fn(&Open) -> usize) -> Result<T, E>,
    elements: impl Fn(&dyn Fn(&Open) -> usize) -> usize,
    is_final: impl Fn(&E) -> bool,
    until: Instant,
) -> Result<(Choice, T), Failed<E>> {
    let all = extents.open();
    let open: Vec<Open> = all.iter().filter(|open| !solution.determines(open)).cloned().collect();
    let names: HashMap<String, usize> =
        open.iter().enumerate().map(|(at, open)| (open.to_string(), at)).collect();
    let places: HashMap<&Open, usize> = open.iter().enumerate().map(|(at, open)| (open, at)).collect();
    let batches = extents.batches();
    let batch: Vec<bool> = open.iter().map(|open| batches.contains(open)).collect();
    let mut failed = Failed { tried: 0, first: None };
    let mut runs = 0;
    let number = |choice: &[usize], wanted: &str| {
        choice.get(*names.get(wanted)?).and_then(|extent| i64::try_from(*extent).ok())
    };
    // Limits the number of choices, because each stores a value per open extent and is checked against all demands.
    let listed = MOST_LISTED.min(MOST_COMPARED / (1 + all.len() + solution.size())).max(USUAL.len());
    let begun = Cell::new(false);
    let admitted = choices(&open, &batch)
        .take(listed)
        .take_while(|_| !begun.get() || Instant::now() < until)
        .filter(|choice| solution.admits(&|name| number(choice, name)));
    for choice in admitted.take(MOST_INFERRED) {
        if failed.tried > 0 && (runs >= MOST_TRIED || Instant::now() >= until) {
            break;
        }
        let choose = |wanted: &Open| {
            let chosen = places.get(wanted).and_then(|place| choice.get(*place)).copied();
            chosen.or_else(|| solution.value(wanted, &|name| number(&choice, name))).unwrap_or(1)
        };
        if begun.get() && elements(&choose) > MOST_ELEMENTS {
            continue;
        }
        failed.tried += 1;
        // The first choice is usually right, so its run has no time limit.
        let options = RunOptions::default();
        let options = if begun.replace(true) { options.with_deadline(until) } else { options };
        let result = options.within(|| {
            infers(&choose).and_then(|()| {
                runs += 1;
                works(&choose)
            })
        });
        match result {
            Ok(found) => return Ok((all.iter().map(|open| (open.clone(), choose(open))).collect(), found)),
            Err(error) if is_final(&error) => return Err(Failed { first: Some(Box::new(error)), ..failed }),
            Err(error) => failed.first = failed.first.or_else(|| Some(Box::new(error))),
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
    fn the_first_choice_has_batch_one_and_equal_extents() {
        let open = names(&["n", "h", "w"]);
        let all: Vec<Vec<usize>> = choices(&open, &[true, false, false]).take(5).collect();
        assert_eq!(all, [[1, 32, 32], [1, 64, 64], [1, 224, 224], [1, 320, 320], [1, 512, 512]]);
    }

    #[test]
    fn a_choice_doubles_one_extent_for_a_cache() {
        let open = names(&["new", "past", "all"]);
        assert!(choices(&open, &[false; 3]).any(|choice| choice == [32, 32, 64]));
    }

    #[test]
    fn choices_are_finite_and_differ() {
        let open = names(&["n", "a", "b"]);
        let all: Vec<Vec<usize>> = choices(&open, &[true, false, false]).collect();
        let different: HashSet<&Vec<usize>> = all.iter().collect();
        assert_eq!(all.len(), different.len());
        assert!(all.contains(&vec![1, 48, 320]) && all.contains(&vec![32, 32, 32]));
        assert_eq!(choices(&[], &[]).count(), 1);
    }
}
