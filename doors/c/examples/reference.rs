//! A library of the reference backend.
#![allow(unsafe_code, reason = "the library exports a symbol")]

bb::export_backend!(bb_reference::Reference);
