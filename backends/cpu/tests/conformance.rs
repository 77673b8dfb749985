//! Tests that the CPU backend passes the cases of every primitive, on the threads of the process and on its own, and ONNX's cases.

use bb_cpu::Cpu;

bb::conformance!(Cpu::new());

bb::conformance!(on_one_thread, Cpu::builder().threads(1).build().expect("one thread"), cases = none);
