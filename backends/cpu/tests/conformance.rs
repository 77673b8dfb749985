//! The backend keeps what every primitive promises.

bb::conformance!(bb_cpu::Cpu::new());
