//! The byte format of compiled models.
//!
//! Every type has one encoding: integers have a variable length; a list is its length, followed by its items; an enum is the number of its
//! variant, followed by the fields. A tensor is an index of a table; the elements are stored separately, so that they can be mapped
//! ([`file`]). The encoding may change with each version of the format, and a file of another version is refused.
//!
//! A reader accepts untrusted bytes: each item takes at least one byte of the file, lists grow only while their items are read, and
//! nesting is limited. Each decoded item is valid for its type; the caller checks whether the items are consistent.

mod base;
mod file;
mod graph;
mod params;

pub use file::{Saved, is_saved, load, write};

use crate::limits::within;
use crate::{DataType, Error, Identity, Limits, TensorData};
use std::collections::HashMap;

/// A type that compiled models can contain.
pub trait Compact: Sized {
    /// Encodes the value, and appends the bytes to `to`.
    fn write(&self, to: &mut Writer);

    /// Decodes a value.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if the bytes are not a value of this type; [`Error::Limit`]; [`Error::Memory`].
    fn read(from: &mut Reader<'_>) -> Result<Self, Error>;
}

/// An encoder of [`Compact`] values, which collects the tensors that they refer to.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    tensors: Vec<TensorData>,
    /// The index of each tensor, so that tensors that share their elements are stored once.
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

    /// Returns the tensors that the written data refers to, in the order of their indices.
    pub fn tensors(&self) -> &[TensorData] {
        &self.tensors
    }

    /// Returns the index of a tensor in the table; adds the tensor if it is not in the table yet.
    fn number_of(&mut self, x: &TensorData) -> usize {
        let key = (x.identity(), x.dtype(), x.shape().to_vec());
        let Writer { tensors, known, .. } = self;
        *known.entry(key).or_insert_with(|| {
            tensors.push(x.clone());
            tensors.len() - 1
        })
    }
}

/// A decoder of [`Compact`] values.
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
    /// Creates a reader of `bytes`, which refer to these tensors.
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

    /// Reads `count` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if fewer bytes are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.fault("more bytes"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads one byte.
    ///
    /// # Errors
    ///
    /// [`Error::SavedForm`] if no byte is left.
    pub fn byte(&mut self) -> Result<u8, Error> {
        match self.rest {
            [first, rest @ ..] => {
                self.rest = rest;
                Ok(*first)
            }
            [] => Err(self.fault("more bytes")),
        }
    }

    /// Reads a nested item with `read`.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`] if the nesting is too deep; the errors of `read`.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let limit = self.limits.nesting.min(Limits::MAX_NESTING);
        within("nesting", "levels of nesting", self.nesting, limit)?;
        self.nesting += 1;
        let value = read(self);
        self.nesting -= 1;
        value
    }

    /// Counts a node against the limit.
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
