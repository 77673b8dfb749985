//! Tests that the CPU backend passes the cases of every primitive and the ONNX test cases, on the shared threads and on threads of
//! its own.

use bb_cpu::Cpu;

bb::conformance!(Cpu::new());

bb::conformance!(on_one_thread, Cpu::builder().threads(1).build().expect("one thread"), cases = none);
