//! The reference backend keeps what every primitive promises.

bb::conformance!(bb_reference::Reference);
