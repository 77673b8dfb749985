//! What the end-to-end tests share: the backends they run on, one of which behaves as a device does, one that
//! counts, one that is tampered with, and models made on the spot.

pub mod backends;
pub mod counting;
pub mod device;
pub mod model;
pub mod tampered;

/// The programs in the README, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
