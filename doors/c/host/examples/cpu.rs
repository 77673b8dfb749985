//! Exports the CPU backend as a library.

bb::export_backend!(bb_cpu::Cpu);
