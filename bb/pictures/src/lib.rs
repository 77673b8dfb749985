//! Decodes pictures for `ImageDecoder`: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP.
//!
//! A program that runs models with this operator links this crate with `use bb_pictures as _;`. It names no item of the crate. The feature
//! `image` of `bb` does the same.
//!
//! Everything that a decoder allocates is bounded before it starts, because its own allocations end the process if they fail.

mod canvas;
mod claims;
mod codestream;
mod decoder;
mod formats;
mod jpeg2000;
mod tiff;
