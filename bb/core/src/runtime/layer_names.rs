//! Checks the names that a layer declares while its crate is compiled.

use crate::OpenOption;

/// Stops the compiler if a layer may not have this name.
pub(super) const fn check_name(name: &str) {
    if !is_layer_name(name) {
        let text = ConstText::of(&[
            "`RegisteredLayer::NAME` is `",
            name,
            "`; expected lower-case letters, digits and single `-` between them, and a letter first",
        ]);
        panic!("{}", text.as_str());
    }
}

/// Stops the compiler if a layer may not declare these options.
pub(super) const fn check_options(options: &[OpenOption]) {
    if let Some(name) = wrong_option(options) {
        let text = ConstText::of(&[
            "`RegisteredLayer::OPTIONS` cannot have `",
            name,
            "`: expected each name once, in lower-case letters, digits and `_`, and a letter first",
        ]);
        panic!("{}", text.as_str());
    }
}

/// Returns whether a layer may have this name. Other characters have a special meaning in names of backends.
const fn is_layer_name(name: &str) -> bool {
    let mut rest = name.as_bytes();
    let mut before = b'-';
    while let [first, after @ ..] = rest {
        let fits = match first {
            b'a'..=b'z' => true,
            b'0'..=b'9' | b'-' => before != b'-',
            _ => false,
        };
        if !fits {
            return false;
        }
        before = *first;
        rest = after;
    }
    before != b'-'
}

/// Returns the first option of the layer's own that is declared again, or whose name cannot stand in the name of a
/// backend.
const fn wrong_option(mut options: &[OpenOption]) -> Option<&'static str> {
    while let [first, rest @ ..] = options {
        if let OpenOption::Own(own) = first
            && (!is_option_name(own.name) || declares(rest, own.name))
        {
            return Some(own.name);
        }
        options = rest;
    }
    None
}

/// Returns whether an option has this name.
const fn declares(mut options: &[OpenOption], name: &str) -> bool {
    while let [first, rest @ ..] = options {
        if let OpenOption::Own(own) = first
            && bb_ir::op::same(own.name, name)
        {
            return true;
        }
        options = rest;
    }
    false
}

/// Returns whether an option may have this name, as in `options(…)` of the derive.
const fn is_option_name(name: &str) -> bool {
    let [first, rest @ ..] = name.as_bytes() else { return false };
    let mut rest = rest;
    while let [byte, after @ ..] = rest {
        if !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        rest = after;
    }
    first.is_ascii_lowercase()
}

/// A message that is joined in a constant, because constants cannot format.
struct ConstText([u8; ConstText::MOST]);

impl ConstText {
    /// The maximum number of bytes; longer messages are truncated.
    const MOST: usize = 256;

    /// Joins the parts of a message.
    const fn of(mut parts: &[&str]) -> ConstText {
        let mut bytes = [b' '; ConstText::MOST];
        let mut free: &mut [u8] = &mut bytes;
        while let [part, later @ ..] = parts {
            let mut text = part.as_bytes();
            while let [byte, more @ ..] = text
                && let [slot, left @ ..] = free
            {
                *slot = *byte;
                free = left;
                text = more;
            }
            parts = later;
        }
        ConstText(bytes)
    }

    /// Returns the message; empty if it was truncated inside a character.
    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.0.trim_ascii_end()) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OptionDefault, OwnOption};

    const fn own(name: &'static str) -> OpenOption {
        OpenOption::Own(OwnOption::new(name, OptionDefault::Count(0), "a number"))
    }

    #[test]
    fn the_wrong_option_is_found() {
        assert_eq!(wrong_option(&[own("bits"), own("Bits")]), Some("Bits"));
        assert_eq!(wrong_option(&[own("bits"), OpenOption::Memory, own("bits")]), Some("bits"));
        assert_eq!(wrong_option(&[own("bits"), OpenOption::Memory]), None);
    }

    #[test]
    fn messages_are_joined_and_truncated() {
        assert_eq!(ConstText::of(&["`", "My_Layer", "` is wrong"]).as_str(), "`My_Layer` is wrong");
        assert_eq!(ConstText::of(&["a".repeat(300).as_str()]).as_str().len(), ConstText::MOST);
    }
}
