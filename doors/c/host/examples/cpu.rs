//! A library of the CPU backend.

bb::export_backend!(bb_cpu::Cpu);
