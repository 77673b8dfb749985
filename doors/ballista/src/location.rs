//! The location and the options of a model, which are the first argument of the SQL functions.

use crate::error::Error;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use url::Url;

/// The syntax of the options, for error messages.
const OPTIONS: &str = "backend=NAME, batch=ROWS, memory=BYTES or sha256=HASH";

/// The SHA-256 hash of a model, including its external data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelHash([u8; 32]);

impl ModelHash {
    /// Returns the hash of a model without external data, which is the hash of its bytes.
    pub fn of(bytes: &[u8]) -> ModelHash {
        ModelHash(Sha256::digest(bytes).into())
    }

    pub(crate) fn finished(of: Sha256) -> ModelHash {
        ModelHash(of.finalize().into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ModelHash {
    type Err = ();

    fn from_str(text: &str) -> Result<ModelHash, ()> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(());
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| ())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ())?;
        }
        Ok(ModelHash(hash))
    }
}

/// A reference to a model in a query: `PATH#backend=cpu&batch=1024&memory=1073741824&sha256=…`, where all options are optional.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// The path or URL.
    pub location: String,
    /// The name of the backend.
    pub backend: String,
    /// The maximum number of rows in one run.
    pub batch: Option<NonZeroUsize>,
    /// The maximum number of bytes of all values in a run.
    pub memory: Option<NonZeroUsize>,
    /// The required hash of the model's content.
    pub sha256: Option<ModelHash>,
}

impl FromStr for ModelRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<ModelRef, Error> {
        // A path may contain `#`, too. It separates options only if an equals sign follows.
        let (location, options) = match text.rsplit_once('#') {
            Some((location, options)) if options.contains('=') => (location, options),
            _ => (text, ""),
        };
        let mut model = ModelRef {
            location: location.to_owned(),
            backend: "cpu".to_owned(),
            batch: None,
            memory: None,
            sha256: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let refuse = || Error::Option {
                location: location.to_owned(),
                option: option.to_owned(),
                expected: OPTIONS,
            };
            let (name, value) = option.split_once('=').ok_or_else(refuse)?;
            match name {
                "backend" if !value.is_empty() => value.clone_into(&mut model.backend),
                "batch" => model.batch = Some(value.parse().map_err(|_| refuse())?),
                "memory" => model.memory = Some(value.parse().map_err(|_| refuse())?),
                "sha256" => model.sha256 = Some(value.parse().map_err(|()| refuse())?),
                _ => return Err(refuse()),
            }
        }
        Ok(model)
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#backend={}", self.location, self.backend)?;
        self.batch.iter().try_for_each(|rows| write!(f, "&batch={rows}"))?;
        self.memory.iter().try_for_each(|bytes| write!(f, "&memory={bytes}"))?;
        self.sha256.iter().try_for_each(|hash| write!(f, "&sha256={hash}"))
    }
}

/// The kind of a model's location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelPlace {
    /// A file on this machine.
    File(PathBuf),
    /// An object in an object store.
    Object(Url),
}

impl ModelPlace {
    pub(crate) fn of(location: &str) -> ModelPlace {
        match Url::parse(location) {
            // Requires `://`, because the text before a colon may also be a drive or a part of a file name.
            Ok(url) if location.contains("://") => match url.to_file_path() {
                Ok(path) if url.scheme() == "file" => ModelPlace::File(path),
                _ => ModelPlace::Object(url),
            },
            _ => ModelPlace::File(PathBuf::from(location)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_reference_is_what_it_prints() {
        let text = format!("s3://b/m.onnx#backend=reference&batch=7&memory=9&sha256={HASH}");
        let model: ModelRef = text.parse().unwrap();
        assert_eq!(model.location, "s3://b/m.onnx");
        assert_eq!((model.batch, model.memory), (NonZeroUsize::new(7), NonZeroUsize::new(9)));
        // The expected hash of `abc` is in FIPS 180-2.
        assert_eq!(model.sha256, Some(ModelHash::of(b"abc")));
        assert_eq!(model.to_string(), text);
        let plain: ModelRef = "a#b.onnx".parse().unwrap();
        assert_eq!((plain.location.as_str(), plain.backend.as_str()), ("a#b.onnx", "cpu"));
    }

    #[test]
    fn wrong_options_are_named() {
        for text in
            ["m#batch=0", "m#batch=", "m#colour=red", "m#sha256=ab", "m#backend=", "m#memory=-1", "m#=&x=1"]
        {
            let error = text.parse::<ModelRef>().unwrap_err();
            assert!(matches!(error, Error::Option { .. }), "{text}");
        }
    }

    #[test]
    fn urls_of_files_are_paths() {
        assert_eq!(ModelPlace::of("file:///a/b%20c.onnx"), ModelPlace::File("/a/b c.onnx".into()));
        assert_eq!(ModelPlace::of("a/b.onnx"), ModelPlace::File("a/b.onnx".into()));
        assert!(matches!(ModelPlace::of("memory:///m.onnx"), ModelPlace::Object(_)));
    }
}
