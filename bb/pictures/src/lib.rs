//! Decodes images for the operator `ImageDecoder`: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP.
//!
//! A program that runs models with this operator links this crate with `use bb_pictures as _;`, and uses none of its names. The feature
//! `image` of `bb` does the same.
//!
//! The memory of a decoder is bounded before it starts, because the process aborts if an allocation of the decoder fails.

mod canvas;
mod claims;
mod codestream;
mod decoder;
mod formats;
mod jpeg2000;
mod tiff;
