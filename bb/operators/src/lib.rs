//! Links the operators of every domain: ONNX, `com.microsoft`, `ai.onnx.ml`, training, regular expressions and images.
//!
//! A program that runs any model writes `use bb_operators as _;`. The features of `bb` link the same crates one by one. Programs that
//! share a target folder should use this crate instead, because `bb` is compiled again for each different set of features.

#![forbid(unsafe_code)]

use bb_onnx as _;
use bb_onnx_microsoft as _;
use bb_onnx_ml as _;
use bb_onnx_training as _;
use bb_patterns as _;
use bb_pictures as _;
