//! The interface between `ImageDecoder` and the crates that decode pictures.
//!
//! A crate that decodes pictures submits a [`PictureDecoder`]. A program links the crate with `use bb_pictures as _;`. This crate
//! contains no decoder.

use crate::{BoxError, DataType, Error};
use std::sync::OnceLock;

/// The channels of a pixel, in the order of their bytes. Each channel takes one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Only the luma.
    Grayscale,
}

impl PixelFormat {
    /// Returns the number of channels.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_ir::picture::PixelFormat;
    /// assert_eq!([PixelFormat::Bgr, PixelFormat::Grayscale].map(PixelFormat::channels), [3, 1]);
    /// ```
    pub const fn channels(self) -> usize {
        match self {
            PixelFormat::Rgb | PixelFormat::Bgr => 3,
            PixelFormat::Grayscale => 1,
        }
    }
}

/// A decoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The number of rows.
    pub height: usize,
    /// The number of pixels of a row.
    pub width: usize,
    /// The pixels, row by row from the top, in the requested [`PixelFormat`].
    pub bytes: Vec<u8>,
}

/// A decoder's limits on time and on the size of the result.
pub trait Allowance {
    /// Returns an error if decoding must end. A decoder calls this at least every few milliseconds; a call takes some nanoseconds.
    ///
    /// # Errors
    ///
    /// The reason why decoding must end, which the decoder returns as [`PictureError::Ended`].
    fn check(&self) -> Result<(), BoxError>;

    /// Returns an error if a result of this type and shape is too large. A decoder calls this before it allocates the picture.
    ///
    /// # Errors
    ///
    /// The reason, which the decoder returns as [`PictureError::Ended`].
    fn bound(&self, dtype: DataType, shape: &[usize]) -> Result<(), BoxError>;
}

/// The reason why a picture is not decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The picture is invalid, is not supported, or would take too much memory or time.
    #[error("the picture {problem}")]
    Refused {
        /// The problem, as the end of a sentence that begins with "the picture": ``is a JPEG of …``.
        problem: String,
    },

    /// The [`Allowance`] stopped decoding. Its error is the source, unchanged.
    #[error("decoding had to end")]
    Ended(#[source] BoxError),

    /// There is not enough memory.
    #[error(transparent)]
    Ir(#[from] Error),
}

/// Decodes a file; `None` if the file is not a picture in a format that the decoder supports.
///
/// The file may be untrusted, so the function must not panic, and must call [`Allowance::bound`] before large allocations.
///
/// # Errors
///
/// [`PictureError`].
pub type Decode = fn(&[u8], PixelFormat, &dyn Allowance) -> Result<Option<Picture>, PictureError>;

/// A decoder of pictures. A crate submits its decoder with `inventory::submit!`.
#[derive(Debug, Clone, Copy)]
pub struct PictureDecoder {
    /// The crate's name. Decoders are tried in the order of their names.
    pub name: &'static str,
    /// Decodes a file.
    pub decode: Decode,
}

inventory::collect!(PictureDecoder);

/// Returns the linked decoders, sorted by name.
pub fn decoders() -> &'static [&'static PictureDecoder] {
    static DECODERS: OnceLock<Vec<&'static PictureDecoder>> = OnceLock::new();
    DECODERS.get_or_init(|| {
        let mut all: Vec<_> = inventory::iter::<PictureDecoder>().collect();
        all.sort_by_key(|decoder| decoder.name);
        all
    })
}
