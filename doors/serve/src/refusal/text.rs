//! The texts of refusals.

use super::{Refusal, RefusalKind};

impl Refusal {
    /// Returns the message and its causes, because the protocols have room for one text. All clients accept its length: some refuse more than
    /// 8 KiB of headers, where gRPC has errors, with three bytes for one that is not ASCII.
    ///
    /// Paths of the server are left out of it.
    pub(crate) fn text(&self) -> String {
        /// The most bytes.
        const TEXT: usize = 2048;
        let mut text = self.with_causes(TEXT);
        if matches!(self.kind(), RefusalKind::Failed) || matches!(self, Refusal::NotLoaded { .. }) {
            text = without_paths(&text);
        }
        if text.len() > TEXT {
            // The long part is text that a client sent; the expected value often follows it.
            let (from, to) =
                (text.floor_char_boundary(TEXT / 2), text.ceil_char_boundary(text.len() - TEXT / 2));
            text.replace_range(from..to, " … ");
        }
        text
    }

    /// Returns the message and its causes, with the paths of the server, for its log.
    pub(crate) fn logged(&self) -> String {
        self.with_causes(2048)
    }

    /// Returns the message and its causes, until the text has `most` bytes.
    fn with_causes(&self, most: usize) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause.filter(|_| text.len() <= most) {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// Replaces absolute paths, which messages have in quotes, by the names of their files.
fn without_paths(text: &str) -> String {
    let quotes = ['`', '"'];
    let is_path = |part: &str| {
        let drive = part.as_bytes().get(1..3).is_some_and(|rest| rest == b":\\" || rest == b":/");
        part.starts_with(['/', '\\']) || drive
    };
    let parts = text.split_inclusive(quotes).map(|part| match is_path(part) {
        true => part.rsplit(['/', '\\']).next().unwrap_or_default(),
        false => part,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_by_their_files() {
        for (text, expected) in [
            (
                "model `a` is no model: `/srv/models/a/1/model.onnx` ends",
                "model `a` is no model: `model.onnx` ends",
            ),
            (r"`C:\models\a.onnx` and `\\host\a.onnx`", "`a.onnx` and `a.onnx`"),
            ("\"/etc/passwd\" and `b/c.onnx`", "\"passwd\" and `b/c.onnx`"),
            ("nothing at all", "nothing at all"),
        ] {
            assert_eq!(without_paths(text), expected);
        }
        let path = std::path::PathBuf::from("/srv/models/a.onnx");
        let source = Box::new(crate::error::Error::NoVersion { model: "a".to_owned(), path });
        let refusal = Refusal::NotLoaded { source };
        assert!(refusal.logged().contains("/srv/models"), "{}", refusal.logged());
        assert!(
            !refusal.text().contains("/srv") && refusal.text().contains("`a.onnx`"),
            "{}",
            refusal.text()
        );
    }
}
