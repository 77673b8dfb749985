//! Matches regular expressions in the syntax of RE2, for the operators `RegexFullMatch` and `Tokenizer`.
//!
//! A program that runs models with these operators links this crate with `use bb_patterns as _;`, and uses none of its names. The
//! feature `regex` of `bb` does the same.
//!
//! Matching takes time proportional to the lengths of the text and the pattern. Of the matches that start first, the longest is
//! returned.

mod compiled;
mod re2;
mod search;
mod walk;
