//! Tests that this backend computes the same results as the reference backend. The test calls random primitives on
//! random element types, with operands that are views of views.

use bb::Backend;
use bb::conformance::{Random, difference};
use bb_cpu::Cpu;
use bb_reference::Reference;

/// The number of random calls. To reproduce a failure, start at its seed.
const CASES: u64 = 100_000;

#[test]
fn random_calls_agree_with_the_reference() {
    let (fast, plain) = (Cpu::new(), Reference);
    let mut computed = 0;
    for seed in 0..CASES {
        let case = Random::new(seed).case();
        match (case.run(&fast), case.run(&plain)) {
            (Ok(got), Ok(want)) => {
                assert_eq!(got.len(), want.len(), "seed {seed}: {case:?}");
                for (got, want) in got.iter().zip(&want) {
                    let got = fast.to_host(got).expect("an array can be copied");
                    let want = plain.to_host(want).expect("an array can be copied");
                    let other = difference(&got, &want);
                    assert!(other.is_none(), "seed {seed}: {}\n{case:?}", other.unwrap_or_default());
                }
                computed += 1;
            }
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => panic!("seed {seed}: only the reference refuses: {error}\n{case:?}"),
            (Err(error), Ok(_)) => panic!("seed {seed}: the reference computes this: {error}\n{case:?}"),
        }
    }
    // Only a few cases may be refused: divisions by zero, means of no integers, and invalid text.
    assert!(computed > CASES * 8 / 10, "only {computed} of {CASES} cases computed something");
}
