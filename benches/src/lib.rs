//! Measuring things side by side.
//!
//! Machines are noisy, so what is compared runs in turns within one process, and the least time of many turns is
//! what counts: noise only ever adds.

use std::hint::black_box;
use std::time::Instant;

/// Something to measure, and its name.
pub struct Subject<'a> {
    name: &'a str,
    run: Box<dyn FnMut() + 'a>,
}

/// Names something to measure. Its result is kept from the optimiser and dropped within the time measured.
pub fn subject<'a, R>(name: &'a str, mut run: impl FnMut() -> R + 'a) -> Subject<'a> {
    Subject {
        name,
        run: Box::new(move || {
            black_box(run());
        }),
    }
}

/// Turns per subject.
const TURNS: usize = 30;

/// The least time of a turn, in seconds, below which a clock's own cost would show.
const TURN: f64 = 2e-3;

/// Measures subjects in turns and prints, for each, its time and the ratio to the first's.
///
/// Units: seconds per run, in the subjects' order.
pub fn compare(title: &str, mut subjects: Vec<Subject<'_>>) -> Vec<f64> {
    let mut runs: Vec<usize> = Vec::with_capacity(subjects.len());
    for subject in &mut subjects {
        let mut n = 1;
        while time(subject, n) < TURN && n < 1 << 24 {
            n *= 2;
        }
        runs.push(n);
    }
    let mut best = vec![f64::INFINITY; subjects.len()];
    for _ in 0..TURNS {
        for ((subject, &n), best) in subjects.iter_mut().zip(&runs).zip(&mut best) {
            *best = best.min(time(subject, n) / n as f64);
        }
    }
    println!("{title}");
    let first = best.first().copied().unwrap_or(f64::NAN);
    for (subject, &seconds) in subjects.iter().zip(&best) {
        println!("  {:38} {:>12} {:>8.2}x", subject.name, pretty(seconds), seconds / first);
    }
    best
}

fn time(subject: &mut Subject<'_>, runs: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..runs {
        (subject.run)();
    }
    start.elapsed().as_secs_f64()
}

fn pretty(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s => format!("{:.3} ms", s * 1e3),
    }
}
