//! Matches regular expressions of the syntax of RE2, for `RegexFullMatch` and `Tokenizer`.
//!
//! A program that runs models with these operators links this crate with `use bb_patterns as _;`. It names no item of the crate. The
//! feature `regex` of `bb` does the same.
//!
//! Matching takes time in proportion to the text and the pattern, whatever they are. Of the matches that start first the
//! longest counts.

mod compiled;
mod re2;
mod search;
mod walk;
