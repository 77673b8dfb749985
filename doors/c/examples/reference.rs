//! Exports the reference backend as a library.

bb::export_backend!(bb_reference::Reference);
