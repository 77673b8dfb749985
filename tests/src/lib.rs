//! Shared parts of the end-to-end tests: the backends that they run on (one behaves like a device, one
//! counts, one is modified by tests, one loses its device), and functions that build models.

pub mod backends;
pub mod capped;
pub mod counting;
pub mod device;
pub mod few;
pub mod large;
pub mod lossy;
pub mod model;
pub mod on_reference;
pub mod tampered;

/// The programs in the README, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The component in the page of programs, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../bb/docs/programs.md")]
pub struct Programs;

/// The program in the page about training, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../bb/docs/training.md")]
pub struct Training;

/// The programs in the page about layers, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../bb/docs/composing.md")]
pub struct Composing;

/// The programs in the page about services, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../bb/docs/services.md")]
pub struct Services;
