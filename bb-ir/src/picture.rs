//! How `ImageDecoder` reaches the crates that decode pictures.
//!
//! A crate that decodes pictures submits a [`PictureDecoder`], and a program that wants it links it: `use bb_pictures as _;`. This
//! crate decodes nothing.

use crate::{BoxError, DataType, Error};
use std::sync::OnceLock;

/// Which numbers a pixel has. Each takes a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// The luma.
    Grayscale,
}

impl PixelFormat {
    /// Returns how many numbers a pixel has.
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
    /// The rows.
    pub height: usize,
    /// The pixels of a row.
    pub width: usize,
    /// The pixels, row by row from the top, each in the format that was asked for.
    pub bytes: Vec<u8>,
}

/// What a decoder may do: how long it may go on, and how large a result may be.
pub trait Allowance {
    /// Returns whether decoding must end. A decoder asks at least every few milliseconds; asking takes some nanoseconds.
    ///
    /// # Errors
    ///
    /// Why it must end, which the decoder returns as [`PictureError::Ended`].
    fn check(&self) -> Result<(), BoxError>;

    /// Refuses a result that is too large. A decoder asks before it allocates the picture.
    ///
    /// # Errors
    ///
    /// What is too large, which the decoder returns as [`PictureError::Ended`].
    fn bound(&self, dtype: DataType, shape: &[usize]) -> Result<(), BoxError>;
}

/// Why a picture is not decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// Decoding the picture would take too much.
    #[error("the picture {problem}")]
    Refused {
        /// What is wrong with the picture, as the end of a sentence: ``is a JPEG of …``.
        problem: String,
    },

    /// The [`Allowance`] refused to let the decoder go on. The caller finds its own error here, as it was.
    #[error("decoding had to end")]
    Ended(#[source] BoxError),

    /// There is not enough memory.
    #[error(transparent)]
    Ir(#[from] Error),
}

/// Decodes a file; `None` for what is no picture of a format that the decoder knows.
///
/// The file may come from a stranger, so the function must neither panic nor allocate more than it has checked.
///
/// # Errors
///
/// [`PictureError`].
pub type Decode = fn(&[u8], PixelFormat, &dyn Allowance) -> Result<Option<Picture>, PictureError>;

/// A decoder of pictures, which a crate submits with `inventory::submit!`.
#[derive(Debug, Clone, Copy)]
pub struct PictureDecoder {
    /// The crate's name. Decoders are asked in the order of their names.
    pub name: &'static str,
    /// Decodes a file.
    pub decode: Decode,
}

inventory::collect!(PictureDecoder);

/// Returns the decoders that are linked, in the order of their names.
pub fn decoders() -> &'static [&'static PictureDecoder] {
    static DECODERS: OnceLock<Vec<&'static PictureDecoder>> = OnceLock::new();
    DECODERS.get_or_init(|| {
        let mut all: Vec<_> = inventory::iter::<PictureDecoder>().collect();
        all.sort_by_key(|decoder| decoder.name);
        all
    })
}
