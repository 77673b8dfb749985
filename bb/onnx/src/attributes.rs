//! Reads the attributes of a node in one place, for its function and for the rule that infers the types of its results.
//!
//! A function reads the attributes of a [`Call`]; a rule reads the attributes of a [`NodeFacts`]. Attributes that both need are read into a
//! struct through the trait [`Attributes`], so that the names and the defaults are defined once.

use bb_core::Error;
use bb_core::operator::Call;
use bb_ir::infer::rule::NodeFacts;

/// A source from where the attributes of a node can be read.
pub trait Attributes<'a> {
    /// The error if an attribute has a different kind than the caller expects.
    type Error;

    /// Returns an integer, or `default` if the attribute is omitted.
    fn int_or(&self, name: &str, default: i64) -> Result<i64, Self::Error>;

    /// Returns whether an integer is not 0, or `default` if the attribute is omitted.
    fn flag(&self, name: &str, default: bool) -> Result<bool, Self::Error>;

    /// Returns a list of integers, if the attribute is present.
    fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, Self::Error>;

    /// Returns a string, or `default` if the attribute is omitted.
    fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, Self::Error>;
}

impl<'a, T> Attributes<'a> for Call<'a, T> {
    type Error = Error;

    fn int_or(&self, name: &str, default: i64) -> Result<i64, Error> {
        Call::int_or(self, name, default)
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        Call::flag(self, name, default)
    }

    fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, Error> {
        Call::ints(self, name)
    }

    fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, Error> {
        Call::text_or(self, name, default)
    }
}

impl<'a> Attributes<'a> for NodeFacts<'a> {
    type Error = bb_ir::Error;

    fn int_or(&self, name: &str, default: i64) -> Result<i64, bb_ir::Error> {
        Ok(self.node.attributes.int(name)?.unwrap_or(default))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, bb_ir::Error> {
        Ok(self.node.attributes.int(name)?.map_or(default, |v| v != 0))
    }

    fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, bb_ir::Error> {
        self.node.attributes.ints(name)
    }

    fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, bb_ir::Error> {
        Ok(self.node.attributes.text(name)?.unwrap_or(default))
    }
}
