//! A library of the CPU backend.
#![allow(unsafe_code, reason = "the library exports a symbol")]

bb::export_backend!(bb_cpu::Cpu);
