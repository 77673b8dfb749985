//! Formats JSON as Python does.

use super::{account, values};
use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use std::io;

/// The maximum number of spaces per indentation level.
const INDENT: usize = 16;

/// Formats a value like Python's `json.dumps`: with spaces after separators, and without HTML escapes.
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    account::steps(values::deep_steps(value))?;
    let mut out = AccountedBytes { bytes: Vec::new(), refused: None };
    let written = match indent {
        Some(indent) => {
            let indent = " ".repeat(indent.min(INDENT));
            let form = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, form))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced)),
    };
    if let Some(refused) = out.refused {
        return Err(refused);
    }
    written.map_err(|error| {
        Error::new(ErrorKind::BadSerialization, "the value is no JSON").with_source(error)
    })?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&out.bytes).into_owned()))
}

/// A byte buffer that charges bytes to the account when they are written.
struct AccountedBytes {
    bytes: Vec<u8>,
    refused: Option<Error>,
}

impl io::Write for AccountedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(refused) = account::bytes(bytes.len()) {
            self.refused = Some(refused);
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A JSON formatter that writes a space after each colon and comma.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}
