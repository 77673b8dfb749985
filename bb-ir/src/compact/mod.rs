//! The byte format of compiled models.
//!
//! Every type has one form: integers are variable-length, a list is its length and its items, an enum is a number and its
//! fields. Tensors are numbers of a table, whose elements are stored separately so that they can be mapped ([`file`]). The form may change
//! with each version of the format, and a file of another version is refused.
//!
//! A reader trusts nothing: an item takes at least a byte of the file, lists grow as their items are read, and nesting is
//! bounded. Each item that is read is in range for its type; the caller checks whether the items are consistent.

mod base;
mod file;
mod graph;
mod params;

pub use file::{Saved, is_saved, load, write};

use crate::limits::within;
use crate::{DataType, Error, Identity, Limits, TensorData};
use std::collections::HashMap;

/// A type that compiled models contain.
pub trait Compact: Sized {
    /// Appends the value.
    fn write(&self, to: &mut Writer);

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if the bytes are no value of this type; [`Error::Limit`]; [`Error::Memory`].
    fn read(from: &mut Reader<'_>) -> Result<Self, Error>;
}

/// Writes [`Compact`] values, and collects the tensors that they refer to.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    tensors: Vec<TensorData>,
    /// The tensors by the location of their elements, so that tensors that share elements are stored once.
    known: HashMap<Key, usize>,
}

/// A key that identifies a tensor without reading its elements.
type Key = (Identity, DataType, Vec<usize>);

impl Writer {
    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes that were written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the tensors that the written data refers to, in the order of their numbers.
    pub fn tensors(&self) -> &[TensorData] {
        &self.tensors
    }

    /// Returns the number of a tensor in the table.
    fn number_of(&mut self, x: &TensorData) -> usize {
        let key = (x.identity(), x.dtype(), x.shape().to_vec());
        let Writer { tensors, known, .. } = self;
        *known.entry(key).or_insert_with(|| {
            tensors.push(x.clone());
            tensors.len() - 1
        })
    }
}

/// Reads [`Compact`] values.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
    tensors: &'a [TensorData],
    limits: &'a Limits,
    nesting: usize,
    nodes: usize,
}

impl<'a> Reader<'a> {
    /// Reads from bytes that refer to these tensors.
    pub fn new(bytes: &'a [u8], tensors: &'a [TensorData], limits: &'a Limits) -> Reader<'a> {
        Reader { rest: bytes, len: bytes.len(), tensors, limits, nesting: 0, nodes: 0 }
    }

    /// Returns the number of bytes read so far.
    pub fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Returns the limits.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// Returns the error for malformed bytes.
    #[cold]
    pub fn fault(&self, expected: &'static str) -> Error {
        Error::SavedForm { at: self.position(), expected }
    }

    /// Takes `count` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.fault("more bytes"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes one byte.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if there is none.
    pub fn byte(&mut self) -> Result<u8, Error> {
        match self.rest {
            [first, rest @ ..] => {
                self.rest = rest;
                Ok(*first)
            }
            [] => Err(self.fault("more bytes")),
        }
    }

    /// Reads a nested item.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`] if it nests too deep; the errors of `read`.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let limit = self.limits.nesting.min(Limits::MAX_NESTING);
        within("nesting", "levels of nesting", self.nesting, limit)?;
        self.nesting += 1;
        let value = read(self);
        self.nesting -= 1;
        value
    }

    /// Counts a node.
    fn count_node(&mut self) -> Result<(), Error> {
        self.nodes += 1;
        within("nodes", "nodes", self.nodes, self.limits.nodes)
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if bytes are left.
    pub fn finish(self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.fault("no more bytes")) }
    }
}

/// Implements [`Compact`] for a struct by its fields, or for an enum by the numbers of its variants.
#[doc(hidden)]
#[macro_export]
macro_rules! __compact {
    (struct $ty:ty { $($field:ident),* $(,)? }) => {
        impl $crate::compact::Compact for $ty {
            fn write(&self, to: &mut $crate::compact::Writer) {
                $( $crate::compact::Compact::write(&self.$field, to); )*
            }

            fn read(from: &mut $crate::compact::Reader<'_>) -> ::core::result::Result<Self, $crate::Error> {
                Ok(Self { $( $field: $crate::compact::Compact::read(from)? ),* })
            }
        }
    };
    (enum $ty:ty: $expected:literal {
        $( $number:literal => $variant:ident $(( $($item:ident),* ))? $({ $($field:ident),* })? ),* $(,)?
    }) => {
        impl $crate::compact::Compact for $ty {
            fn write(&self, to: &mut $crate::compact::Writer) {
                match self { $(
                    Self::$variant $(( $($item),* ))? $({ $($field),* })? => {
                        to.bytes(&[$number]);
                        $( $( $crate::compact::Compact::write($item, to); )* )?
                        $( $( $crate::compact::Compact::write($field, to); )* )?
                    }
                )* }
            }

            fn read(from: &mut $crate::compact::Reader<'_>) -> ::core::result::Result<Self, $crate::Error> {
                Ok(match from.byte()? {
                    $( $number => {
                        $( $( let $item = $crate::compact::Compact::read(from)?; )* )?
                        $( $( let $field = $crate::compact::Compact::read(from)?; )* )?
                        Self::$variant $(( $($item),* ))? $({ $($field),* })?
                    } )*
                    _ => return Err(from.fault($expected)),
                })
            }
        }
    };
}
