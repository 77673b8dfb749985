//! Reads and writes NumPy's `.npy` files.
//!
//! The reader supports versions 1 to 3, both byte orders, and row-major and column-major elements, for numbers,
//! booleans and strings. It returns an error for structured arrays and object arrays. The writer writes version 1,
//! row-major and little-endian, and supports only element types that NumPy has.
//!
//! Source: `numpy.lib.format`.

use super::{StringsBuilder, TensorData, element_count};
use crate::{DataType, Error, Shape, memory};
use bytes::Bytes;

/// The names of the operations in errors about memory.
const READING: &str = "reading a .npy file";
const WRITING: &str = "writing a .npy file";

const MAGIC: &[u8] = b"\x93NUMPY";

impl TensorData {
    /// Reads the content of an `.npy` file. The tensor shares the file's bytes if their order and alignment allow
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::Npy`] if the file is not in this format; [`Error::NpyType`] if ONNX does not have the element type;
    /// [`Error::ByteLength`] if the number of elements does not match the shape; or an error of
    /// [`adopt`](Self::adopt).
    pub fn from_npy(file: Bytes) -> Result<TensorData, Error> {
        let header = Header::parse(&file)?;
        let Header { text_width, width, swap, dtype, .. } = header;
        let shape = Shape::from_vec(header.shape);
        let too_large = || Error::TooLarge {
            dtype,
            shape: shape.as_slice().into(),
            limit: isize::MAX as usize,
            name: None,
        };
        let elements = element_count(&shape).ok_or_else(too_large)?;
        let expected = elements.checked_mul(width).ok_or_else(too_large)?;
        let mut bytes = file.slice(header.end..);
        if bytes.len() != expected {
            let (shape, got) = (shape.as_slice().into(), bytes.len());
            return Err(Error::ByteLength { dtype, shape, expected, got });
        }
        if header.fortran && shape.len() > 1 && elements > 0 && width > 0 {
            bytes = Bytes::from(row_major(&bytes, &shape, width)?);
        }
        if let Some(kind) = text_width {
            return texts(&bytes, elements, width, kind, swap)?.finish(&shape);
        }
        if swap {
            // The two parts of a complex number are swapped separately.
            let part = if matches!(dtype, DataType::C64 | DataType::C128) { width / 2 } else { width };
            let mut swapped = memory::copied(READING, &bytes)?;
            swapped.chunks_mut(part).for_each(<[u8]>::reverse);
            bytes = Bytes::from(swapped);
        }
        TensorData::adopt(dtype, &shape, bytes)
    }

    /// Returns the tensor as the content of an `.npy` file.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if NumPy does not have the element type (`bf16`, floats of at most 8 bits, and packed
    /// integers); [`Error::TooLarge`] if the size of the padded strings overflows; [`Error::Npy`] if a string ends
    /// with a NUL, which NumPy would treat as padding; else as [`unaligned_bytes`](Self::unaligned_bytes).
    pub fn to_npy(&self) -> Result<Vec<u8>, Error> {
        if self.iter_bytes().any(|text| text.ends_with(b"\0")) {
            return Err(Error::Npy { problem: "a string ends with a NUL, which NumPy takes for padding" });
        }
        let longest = self.iter_str().map(|s| s.chars().count()).max().unwrap_or(0).max(1);
        let descr = match self.dtype() {
            DataType::String => format!("<U{longest}"),
            dtype => descr(dtype).ok_or(Error::Unsupported { op: "npy", dtype })?.to_owned(),
        };
        let extents: Vec<String> = self.shape().iter().map(usize::to_string).collect();
        let comma = if extents.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            extents.join(", ")
        );
        // The header is padded and ends with a line feed, so that the elements start at a multiple of 64.
        let front = MAGIC.len() + 4;
        let padded = (front + header.len() + 1).next_multiple_of(64);
        header.push_str(&" ".repeat(padded - front - header.len() - 1));
        header.push('\n');
        let length = u16::try_from(header.len())
            .map_err(|_| Error::Npy { problem: "the header is longer than 65535 bytes" })?;
        let mut out = [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes()].concat();
        if self.dtype() != DataType::String {
            memory::reserve(WRITING, &mut out, self.byte_len())?;
            out.extend_from_slice(self.unaligned_bytes()?);
            return Ok(out);
        }
        let shape = self.shape().into();
        let (dtype, limit) = (DataType::String, isize::MAX as usize);
        let too_large = Error::TooLarge { dtype, shape, limit, name: None };
        let size = longest
            .checked_mul(4)
            .and_then(|w| w.checked_mul(self.len()))
            .filter(|&n| n <= isize::MAX as usize);
        memory::reserve(WRITING, &mut out, size.ok_or(too_large)?)?;
        for text in self.iter_str() {
            let codes = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(longest);
            out.extend(codes.flat_map(u32::to_le_bytes));
        }
        Ok(out)
    }
}

/// The number types of NumPy, by their codes in `descr`.
const NUMBERS: [(&str, DataType); 14] = [
    ("f2", DataType::F16),
    ("f4", DataType::F32),
    ("f8", DataType::F64),
    ("i1", DataType::I8),
    ("i2", DataType::I16),
    ("i4", DataType::I32),
    ("i8", DataType::I64),
    ("u1", DataType::U8),
    ("u2", DataType::U16),
    ("u4", DataType::U32),
    ("u8", DataType::U64),
    ("b1", DataType::Bool),
    ("c8", DataType::C64),
    ("c16", DataType::C128),
];

fn descr(dtype: DataType) -> Option<String> {
    let (name, _) = NUMBERS.iter().find(|(_, t)| *t == dtype)?;
    let order = if dtype.bits() == 8 { '|' } else { '<' };
    Some(format!("{order}{name}"))
}

/// The encoding of a string's characters in the file.
#[derive(Clone, Copy)]
enum Text {
    /// Unicode code points of four bytes.
    Codes,
    /// UTF-8 bytes.
    Bytes,
}

struct Header {
    dtype: DataType,
    /// The encoding of strings, which are padded with zeros; `None` for other types.
    text_width: Option<Text>,
    /// The size of an element in bytes.
    width: usize,
    swap: bool,
    fortran: bool,
    shape: Vec<usize>,
    /// The offset of the elements, which is the end of the header.
    end: usize,
}

impl Header {
    fn parse(file: &[u8]) -> Result<Header, Error> {
        let problem = |problem| Error::Npy { problem };
        let rest = file.strip_prefix(MAGIC).ok_or(problem("the magic number is missing"))?;
        let (length, front) = match *rest {
            [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([a, b])), 4),
            [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 6),
            [1..=3, ..] => return Err(problem("the file ends before its header")),
            _ => return Err(problem("the version is not 1, 2 or 3")),
        };
        let start = MAGIC.len() + front;
        let end = start.saturating_add(length);
        let text = file.get(start..end).ok_or(problem("the file ends before its header"))?;
        let text = std::str::from_utf8(text).map_err(|_| problem("the header is not UTF-8"))?;
        let (descr, fortran, shape) = Literal(text).header().ok_or(problem(
            "the header is not a dictionary of `descr`, `fortran_order` and `shape` for a plain array",
        ))?;
        let unknown = || Error::NpyType { descr: descr.chars().take(64).collect() };
        let (swap, kind) = match descr.split_at_checked(1) {
            Some(("<" | "|" | "=", kind)) => (false, kind),
            Some((">", kind)) => (true, kind),
            _ => return Err(unknown()),
        };
        let number = NUMBERS.iter().find(|(name, _)| *name == kind);
        let (dtype, text_width, width) = match (number, kind.split_at_checked(1)) {
            (Some((_, dtype)), _) => (*dtype, None, dtype.bits() / 8),
            (None, Some((text @ ("U" | "S"), count))) => {
                let count: u32 = count.parse().map_err(|_| unknown())?;
                let (kind, bytes) = if text == "U" { (Text::Codes, 4) } else { (Text::Bytes, 1) };
                (DataType::String, Some(kind), (count as usize).checked_mul(bytes).ok_or_else(unknown)?)
            }
            _ => return Err(unknown()),
        };
        // Strings of width 0 take no bytes, so a hostile header could claim any number of strings.
        if text_width.is_some() && width == 0 && element_count(&shape).is_none_or(|n| n > file.len()) {
            return Err(unknown());
        }
        Ok(Header { dtype, text_width, width, swap, fortran, shape, end })
    }
}

/// The part of a Python literal that has not been parsed yet.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }` with its keys in any order.
    fn header(mut self) -> Option<(&'a str, bool, Vec<usize>)> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.token("{")?;
        while self.token("}").is_none() {
            let key = self.quoted()?;
            self.token(":")?;
            let twice = match key {
                "descr" => descr.replace(self.quoted()?).is_some(),
                "fortran_order" => {
                    let value =
                        self.token("True").map(|()| true).or_else(|| self.token("False").map(|()| false));
                    fortran.replace(value?).is_some()
                }
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => true,
            };
            if twice {
                return None;
            }
            if self.token(",").is_none() {
                self.token("}")?;
                break;
            }
        }
        self.0.trim().is_empty().then_some((descr?, fortran?, shape?))
    }

    fn token(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start();
        let quote = rest.chars().next().filter(|q| matches!(q, '\'' | '"'))?;
        let (text, rest) = rest.get(1..)?.split_once(quote)?;
        self.0 = rest;
        Some(text)
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        self.token("(")?;
        let (items, rest) = self.0.split_once(')')?;
        self.0 = rest;
        let items = items.trim();
        // Python 2 writes long integers with the suffix `L`.
        let number = |item: &str| item.trim().trim_end_matches('L').parse().ok();
        match items.strip_suffix(',').unwrap_or(items) {
            "" => Some(Vec::new()),
            items => items.split(',').map(number).collect(),
        }
    }
}

/// Converts column-major elements to row-major order.
fn row_major(bytes: &[u8], shape: &[usize], width: usize) -> Result<Vec<u8>, Error> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = width;
    for &extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    let mut index = vec![0; shape.len()];
    let mut from = 0;
    let mut out = memory::room(READING, bytes.len())?;
    while out.len() < bytes.len() {
        out.extend_from_slice(bytes.get(from..from + width).unwrap_or_default());
        for ((i, &extent), &stride) in index.iter_mut().zip(shape).zip(&strides).rev() {
            *i += 1;
            from += stride;
            if *i < extent {
                break;
            }
            from -= stride * extent;
            *i = 0;
        }
    }
    Ok(out)
}

fn texts(
    bytes: &[u8],
    elements: usize,
    width: usize,
    kind: Text,
    swap: bool,
) -> Result<StringsBuilder, Error> {
    let mut strings = StringsBuilder::with_room(READING, elements)?;
    if width == 0 {
        (0..elements).try_for_each(|_| strings.push(""))?;
        return Ok(strings);
    }
    let mut read = |element: &[u8]| match kind {
        Text::Bytes => {
            let used = element.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
            strings.push(element.get(..used).unwrap_or_default())
        }
        Text::Codes => {
            let code = |&b: &[u8; 4]| {
                char::from_u32(if swap { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
            };
            let text: Option<String> = element.as_chunks().0.iter().map(code).collect();
            let text = text.ok_or(Error::Npy { problem: "a string has a code that is no character" })?;
            strings.push(text.trim_end_matches('\0'))
        }
    };
    bytes.chunks(width).try_for_each(&mut read)?;
    Ok(strings)
}
