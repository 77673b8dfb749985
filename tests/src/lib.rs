//! What the end-to-end tests share: a backend that behaves as a device does, and models made on the spot.

pub mod device;
pub mod model;
