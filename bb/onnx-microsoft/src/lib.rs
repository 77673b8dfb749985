//! Operators of the domain `com.microsoft`, which models exported for ONNX Runtime contain, and of two domains that ONNX Runtime
//! creates when it optimizes a model.
//!
//! A program that runs models with these operators links this crate and uses none of its names, except in tests:
//! `use bb_onnx_microsoft as _;`. The feature `microsoft` of `bb`, which is enabled by default, does the same.
//!
//! The attributes are not checked beforehand, so each function lists the attributes that it supports and refuses others. Operands
//! for unsupported features, for example caches shared between calls, are refused, too.
//!
//! Source: the schemas of ONNX Runtime 1.32.

#![forbid(unsafe_code)]

mod attention;
mod blocks;
mod channels_last;
mod crop;
mod decoding;
mod distance;
mod experts;
mod fused;
mod gates;
mod group_query;
mod grouped;
mod hash;
mod inverse;
mod linear_attention;
mod masked;
mod nchwc;
mod nchwc_block;
mod ngram_hash;
mod normalize;
mod older;
mod packed_sequences;
mod paged;
mod quantized;
mod rotary;
mod router;
mod search;
mod sparse_attention;
mod table;
mod tokenizer;
mod unfold;
mod words;

pub use table::linked;

use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_onnx::shared::served::{alike, no_operand, no_results_from, none_from, only, only_int, only_text};

/// Returns `x` plus the bias, if there is one.
fn plus(on: &Tracer, x: &TracedTensor, bias: Option<&TracedTensor>) -> Result<TracedTensor, TraceStop> {
    bias.map_or_else(|| Ok(x.clone()), |bias| on.add(x, bias))
}
