//! The CPU backend of `bb`.
