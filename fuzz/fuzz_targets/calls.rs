//! Calls every operation with hostile parameters on two backends, which must agree: both refuse the call, or both
//! give the same results.
#![no_main]

use bb::conformance::{elements, numbers_of};
use bb::ir::op::Family;
use bb::{DataType, Error, RunOptions, TensorData};
use bb_fuzz::backends::BACKENDS;
use bb_fuzz::call::{Call, shown};
use bb_fuzz::draw::Draw;
use libfuzzer_sys::fuzz_target;
use std::time::{Duration, Instant};

fuzz_target!(|data: &[u8]| {
    let call = Call::draw(&mut Draw::new(data));
    let options = RunOptions::default().with_deadline(Instant::now() + Duration::from_secs(2));
    let [cpu, reference] = [0, 1].map(|at| options.within(|| call.run(&BACKENDS[at])));
    let found = match (cpu, reference) {
        (Ok(got), Ok(want)) if got.len() != want.len() => Some("other numbers of results".to_owned()),
        (Ok(got), Ok(want)) => got.iter().zip(&want).find_map(|(got, want)| difference(&call, got, want)),
        (Err(error), Ok(_)) if !of_circumstances(&error) => {
            Some(format!("only cpu refuses it: {}", chain(&error)))
        }
        (Ok(_), Err(error)) if !of_circumstances(&error) => {
            Some(format!("only the reference refuses it: {}", chain(&error)))
        }
        _ => None,
    };
    match found {
        // For collecting several findings before the backends are built again.
        Some(found) if std::env::var_os("BB_FUZZ_GO_ON").is_some() => eprintln!("finding: {call}: {found}"),
        Some(found) => panic!("{call}: {found}"),
        None => (),
    }
});

/// Joins the messages of an error and its causes.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns whether an error is about memory or time, which backends take differently much of.
fn of_circumstances(error: &Error) -> bool {
    let text = chain(error);
    text.contains("memory") || text.ends_with(&Error::DeadlineExceeded.to_string())
}

/// Returns in what results differ. Floats have a tolerance of some units in the last place of the result and, because sums
/// cancel, of the operands. What is not finite is compared where no sum may overflow.
fn difference(call: &Call, got: &TensorData, want: &TensorData) -> Option<String> {
    let both = format!("{got:?} {} on cpu, {want:?} {} on the reference", shown(got), shown(want));
    if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
        return Some(both);
    }
    // A negative epsilon may cancel a variance and lose all its digits.
    let cancels = call.op.method.ends_with("_normalization") && call.floats().any(|epsilon| epsilon < 0.0);
    if cancels {
        return None;
    }
    if !want.dtype().is_float() {
        return Some(both).filter(|_| elements(got) != elements(want));
    }
    // A parameter may require another precision than the result's type.
    let tolerance = call.types().chain([want.dtype()]).map(tolerance).fold(0.0, f64::max);
    let finite = |x: &TensorData| {
        numbers_of(x).into_iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()))
    };
    let greatest = call.data().filter(|x| x.dtype().is_float()).map(finite).fold(0.0, f64::max);
    let overflows = may_overflow(call, want.dtype(), greatest);
    let other = |(got, want): (f64, f64)| {
        let lost = overflows && !(got.is_finite() && want.is_finite());
        let same = got == want || (got.is_nan() && want.is_nan()) || lost;
        let near = (got - want).abs() <= tolerance * (want.abs() + greatest);
        !same && !near
    };
    let mut pairs = numbers_of(got).into_iter().zip(numbers_of(want));
    let at = pairs.position(other)?;
    Some(format!("element {at} differs: {both}"))
}

/// Returns whether a sum of products of elements up to `greatest` may leave the range of the type that computes it. The order of the
/// sum, which backends choose, then decides between infinities, NaN and numbers.
fn may_overflow(call: &Call, dtype: DataType, greatest: f64) -> bool {
    let limit = if dtype == DataType::F64 { f64::MAX } else { f64::from(f32::MAX) };
    let terms = call.data().map(TensorData::len).max().unwrap_or(0).max(1);
    let adds = match call.op.family {
        Family::Nn | Family::Llm | Family::Image | Family::Ml => true,
        Family::Primitive => call.op.method == "matmul" || call.op.method.starts_with("reduce"),
        _ => false,
    };
    adds && greatest * greatest.max(1.0) * terms as f64 > limit
}

/// Returns the relative tolerance of results that are computed in a type.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 8.0 * f64::powi(2.0, -10),
        DataType::BF16 => 8.0 * f64::powi(2.0, -7),
        DataType::F32 => 64.0 * f64::from(f32::EPSILON),
        DataType::F64 => 64.0 * f64::EPSILON,
        _ => 0.0,
    }
}
