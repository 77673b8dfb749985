//! A library of the reference backend.

bb::export_backend!(bb_reference::Reference);
