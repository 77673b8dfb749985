//! The CPU backend keeps what every primitive promises, on rayon's threads and on its own, and passes ONNX's cases.

use bb_cpu::Cpu;

bb::conformance!(Cpu::new());

bb::conformance!(on_one_thread, Cpu::builder().threads(1).build().expect("one thread"), cases = none);
