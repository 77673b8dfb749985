//! Measures several functions side by side.
//!
//! Machines are noisy, so the compared functions run in turns within one process. The least time of many turns counts,
//! because noise only adds time. Measurements in another process take turns, too.

mod numpy;

pub use numpy::NumPy;
use std::hint::black_box;
use std::time::Instant;

/// A function to measure, with its name.
pub struct Subject<'a> {
    name: &'a str,
    /// Runs the function a number of times and returns the seconds.
    time: Box<dyn FnMut(usize) -> f64 + 'a>,
}

/// Makes a subject. The measured time includes dropping the result, and the optimiser cannot remove the
/// result.
pub fn subject<'a, R>(name: &'a str, mut run: impl FnMut() -> R + 'a) -> Subject<'a> {
    timed(name, move |runs| {
        let start = Instant::now();
        for _ in 0..runs {
            black_box(run());
        }
        start.elapsed().as_secs_f64()
    })
}

/// Makes a subject that measures itself: it runs the given number of times and returns the seconds.
pub fn timed<'a>(name: &'a str, time: impl FnMut(usize) -> f64 + 'a) -> Subject<'a> {
    Subject { name, time: Box::new(time) }
}

/// Returns whether a title contains one of the texts in `cargo bench … -- TEXT`; true if there are none.
pub fn asked(title: &str) -> bool {
    let mut texts = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    texts.peek().is_none() || texts.any(|text| title.contains(&text))
}

/// The number of turns per subject.
const TURNS: usize = 100;

/// The least time of a turn in seconds, so that the cost of reading the clock is negligible.
const TURN: f64 = 2e-3;

/// Measures subjects in turns. Prints the time of each and its ratio to the time of the first.
///
/// Units: seconds per run, in the subjects' order.
pub fn compare(title: &str, mut subjects: Vec<Subject<'_>>) -> Vec<f64> {
    let mut runs: Vec<usize> = Vec::with_capacity(subjects.len());
    for subject in &mut subjects {
        // The first run touches new memory, so it does not count.
        (subject.time)(1);
        let mut n = 1;
        while (subject.time)(n) < TURN && n < 1 << 24 {
            n *= 2;
        }
        runs.push(n);
    }
    let mut best = vec![f64::INFINITY; subjects.len()];
    for _ in 0..TURNS {
        for ((subject, &n), best) in subjects.iter_mut().zip(&runs).zip(&mut best) {
            *best = best.min((subject.time)(n) / n as f64);
        }
    }
    println!("{title}");
    let first = best.first().copied().unwrap_or(f64::NAN);
    for (subject, &seconds) in subjects.iter().zip(&best) {
        println!("  {:38} {:>12} {:>8.2}x", subject.name, pretty(seconds), seconds / first);
    }
    best
}

fn pretty(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s => format!("{:.3} ms", s * 1e3),
    }
}
