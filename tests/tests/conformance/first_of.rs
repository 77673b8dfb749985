//! ONNX's cases on combined backends: each case has its result, whichever backend runs its nodes.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx::Suite;
use bb::{BackendHandle, FirstOf, Runtime, first_of};
use bb_tests::few::Few;
use std::num::NonZeroUsize;

/// A backend with the least set of types, then the CPU backend.
fn few_and_cpu() -> FirstOf {
    let few = BackendHandle::new(Runtime::erased("least", Few::least(), &[]));
    first_of([few, BackendHandle::start("cpu", bb_cpu::Cpu::new())]).unwrap()
}

#[test]
fn onnx_passes_whatever_runs_its_nodes() {
    for (name, several) in [("by-cost", few_and_cpu()), ("by-order", few_and_cpu().with_order())] {
        let on = BackendHandle::start(name, several.clone());
        // `.ci/nightly` runs all cases.
        let suite = Suite::new(on.runtime().clone()).with_every(NonZeroUsize::new(13).unwrap());
        let report = suite.run().unwrap();
        assert_eq!(report.failures(), Vec::<String>::new(), "{name}");
        assert!(report.counts()[0] > 100, "{:?}", report.counts());
        assert!(several.parts().iter().all(|&parts| parts > 5), "both run: {:?}", several.parts());
    }
}
