//! The messages of refusals.

use super::{Refusal, RefusalKind};

impl Refusal {
    /// Returns the message and its causes in one string, because the protocols have only one field for them. The length is limited so that
    /// all clients accept it: gRPC sends errors in headers, where a character outside ASCII takes three bytes, and some clients refuse more
    /// than 8 KiB of headers.
    ///
    /// Paths of the server are removed from the message.
    pub(crate) fn text(&self) -> String {
        /// The maximum length in bytes.
        const TEXT: usize = 2048;
        let mut text = self.with_causes(TEXT);
        if matches!(self.kind(), RefusalKind::Failed) || matches!(self, Refusal::NotLoaded { .. }) {
            text = without_paths(&text);
        }
        if text.len() > TEXT {
            // Cuts the middle, because the long part is usually a string that the client sent, and the expected value often follows that
            // string.
            let (from, to) =
                (text.floor_char_boundary(TEXT / 2), text.ceil_char_boundary(text.len() - TEXT / 2));
            text.replace_range(from..to, " … ");
        }
        text
    }

    /// Returns the message and its causes for the server's log, including paths of the server.
    pub(crate) fn logged(&self) -> String {
        self.with_causes(2048)
    }

    /// Returns the message, and appends its causes until the string has `most` bytes.
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

/// Replaces quoted absolute paths by the names of their files.
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
