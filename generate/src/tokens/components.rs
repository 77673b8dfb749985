//! Checks the components of a tokenizer's file: the kind of each component, and how much longer it may make a text.
//!
//! The library does not limit the components of a file: a component may replace a letter by a million letters, and the effects of
//! components multiply. So each component is checked before the library reads the file, and the growth by all components together is
//! limited.

use super::refusal::Refusal;
use crate::gguf::shortened;
use serde_json::{Map, Value as Json};

/// The maximum number of components of a section, and the maximum nesting depth of lists of components.
const STEPS: usize = 32;
const DEPTH: usize = 4;
/// The maximum length of a pattern, of an inserted text, and of a prefix or suffix of words, in bytes.
const PATTERN: usize = 2048;
const INSERTED: usize = 64;
const AFFIX: usize = 64;
/// The maximum growth factor of a text by all components of a section.
const GROWTH: usize = 16;
/// The maximum length of a replacement in a character map of SentencePiece, and the maximum size of the map, in bytes.
const ENTRY: usize = 128;
const MAP: usize = 16 << 20;
/// The maximum number of tokens that a template adds to a text.
const ADDED: usize = 64;

/// The effect of a section's components on a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    /// The maximum growth factor of a text.
    pub(super) growth: usize,
    /// Whether a component has a pattern that is not in the list of known patterns.
    pub(super) own_pattern: bool,
    /// Whether a text may be cut before a space that is followed by a letter, without a change of the result.
    pub(super) cuts: bool,
    steps: usize,
}

impl Effect {
    fn none() -> Effect {
        Effect { growth: 1, own_pattern: false, cuts: true, steps: 0 }
    }

    fn grow(&mut self, section: &'static str, by: usize) -> Result<(), Refusal> {
        self.growth = self.growth.saturating_mul(by.max(1));
        let what = match section {
            "decoder" => "times longer texts after all steps of its decoder",
            _ => "times longer texts after all its steps",
        };
        Refusal::at_most(what, self.growth, GROWTH)
    }
}

/// The patterns of GPT-2, Llama 3, Qwen 2, GPT-4o and DeepSeek, and common patterns of normalizers. The search for each takes linear
/// time, because their look-ahead is a single character.
const KNOWN: [&str; 9] = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{N}{1,3}",
    r"\p{N}",
    r"\s+",
    r" {2,}",
    r"[\r\n]",
];

/// Checks the normalizer, the pre-tokenizer or the decoder of a file.
pub(super) fn steps(section: &'static str, of: &Json) -> Result<Effect, Refusal> {
    let mut effect = Effect::none();
    step(section, of, 0, &mut effect)?;
    Ok(effect)
}

fn step(section: &'static str, of: &Json, depth: usize, effect: &mut Effect) -> Result<(), Refusal> {
    let Some(map) = object(section, of)? else { return Ok(()) };
    effect.steps += 1;
    Refusal::at_most("steps", effect.steps, STEPS)?;
    let name = map.get("type").and_then(Json::as_str).unwrap_or_default();
    match (section, name) {
        (_, "Sequence") => {
            Refusal::at_most("lists of steps within each other", depth, DEPTH)?;
            let list = ["normalizers", "pretokenizers", "decoders"].iter().find_map(|key| map.get(*key));
            let list = list.and_then(Json::as_array);
            let list = list.ok_or(Refusal::Form { section, expected: "list of steps in a `Sequence`" })?;
            return list.iter().try_for_each(|one| step(section, one, depth + 1, effect));
        }
        ("normalizer", "NFC") => {}
        // The longest compatibility form of a character has 11 times its bytes: 18 letters. Few characters have a long form, so the
        // growth is not charged.
        ("normalizer", "Bert" | "Strip" | "StripAccents" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "Nmt") => {
            effect.cuts = false;
        }
        ("normalizer", "ByteLevel") => {
            effect.cuts = false;
            effect.grow(section, 2)?;
        }
        ("normalizer", "Prepend") => {
            effect.cuts = false;
            Refusal::at_most("bytes to prepend", length(map, "prepend"), INSERTED)?;
        }
        ("normalizer", "Precompiled") => {
            effect.cuts = false;
            charsmap(map)?;
        }
        ("normalizer" | "decoder", "Replace") => {
            effect.cuts = false;
            let shortest = pattern(section, map, effect)?;
            let content = length(map, "content");
            Refusal::at_most("bytes of a replacement", content, INSERTED)?;
            effect.grow(section, content.div_ceil(shortest.max(1)))?;
        }
        ("pre-tokenizer", "ByteLevel") => {
            let flag = |key: &str| map.get(key).and_then(Json::as_bool).unwrap_or(true);
            effect.cuts &= !flag("add_prefix_space");
            effect.grow(section, 2)?;
        }
        ("pre-tokenizer", "Split") => {
            pattern(section, map, effect)?;
        }
        ("pre-tokenizer", "Digits") => {}
        (
            "pre-tokenizer",
            "BertPreTokenizer" | "Delimiter" | "Metaspace" | "Whitespace" | "Punctuation" | "WhitespaceSplit"
            | "UnicodeScripts" | "FixedLength",
        ) => effect.cuts = false,
        ("decoder", "BPEDecoder" | "WordPiece" | "CTC") => effect.grow(section, 2)?,
        ("decoder", "ByteLevel" | "Metaspace" | "Fuse" | "ByteFallback") => {}
        ("decoder", "Strip") => {
            for key in ["start", "stop"] {
                let count = map.get(key).and_then(Json::as_u64).unwrap_or(0);
                Refusal::at_most(
                    "characters to strip",
                    usize::try_from(count).unwrap_or(usize::MAX),
                    INSERTED,
                )?;
            }
        }
        (section, name) => {
            return Err(Refusal::Component { section, found: shortened(name) });
        }
    }
    Ok(())
}

fn object<'a>(section: &'static str, of: &'a Json) -> Result<Option<&'a Map<String, Json>>, Refusal> {
    match of {
        Json::Null => Ok(None),
        Json::Object(map) => Ok(Some(map)),
        _ => Err(Refusal::Form { section, expected: "object for a step" }),
    }
}

fn length(map: &Map<String, Json>, key: &str) -> usize {
    map.get(key).and_then(Json::as_str).map_or(0, str::len)
}

/// Checks the pattern of a component. Returns a lower bound for the length of its shortest match.
fn pattern(section: &'static str, map: &Map<String, Json>, effect: &mut Effect) -> Result<usize, Refusal> {
    let of = map.get("pattern").and_then(Json::as_object);
    let text = |kind: &str| of.and_then(|of| of.get(kind)).and_then(Json::as_str);
    match (text("String"), text("Regex")) {
        (Some(text), None) => {
            Refusal::at_most("bytes of a pattern", text.len(), PATTERN)?;
            Ok(text.len())
        }
        (None, Some(text)) => {
            Refusal::at_most("bytes of a pattern", text.len(), PATTERN)?;
            repeats(text)?;
            let own = !KNOWN.contains(&text);
            if own && looks_around(text) {
                return Err(Refusal::Pattern { pattern: shortened(text) });
            }
            effect.own_pattern |= own;
            Ok(1)
        }
        _ => Err(Refusal::Form { section, expected: "`String` or `Regex` for a pattern" }),
    }
}

/// Returns whether a pattern has a part that no finite automaton matches. The known look-ahead that ends white space before a word is
/// allowed.
fn looks_around(text: &str) -> bool {
    let rest = text.replace(r"\s+(?!\S)", "").replace(r"\s*(?!\S)", "").replace(r"\\", "");
    let references = ('1'..='9').chain(['k', 'g']).map(|c| format!("\\{c}"));
    let groups = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?("].map(str::to_owned);
    references.chain(groups).any(|part| rest.contains(&part))
}

/// Limits the counts of repetitions, which the library expands, and the nesting depth of groups.
fn repeats(text: &str) -> Result<(), Refusal> {
    const REPEATS: usize = 256;
    const GROUPS: usize = 32;
    let (mut open, mut all) = (0usize, 1usize);
    for part in text.split('{').skip(1) {
        let inner = part.split('}').next().unwrap_or_default();
        let numbers = inner.split(',').filter_map(|number| number.trim().parse::<usize>().ok());
        all = all.saturating_mul(numbers.max().unwrap_or(1).max(1));
    }
    Refusal::at_most("repetitions in a pattern", all, REPEATS)?;
    for byte in text.bytes() {
        match byte {
            b'(' => open += 1,
            b')' => open = open.saturating_sub(1),
            _ => {}
        }
        Refusal::at_most("groups within each other in a pattern", open, GROUPS)?;
    }
    Ok(())
}

/// Checks a character map of SentencePiece: the size of a trie, the trie, and zero-terminated texts.
fn charsmap(map: &Map<String, Json>) -> Result<(), Refusal> {
    let section = "normalizer";
    let text = map.get("precompiled_charsmap").and_then(Json::as_str);
    let text = text.ok_or(Refusal::Form { section, expected: "text for `precompiled_charsmap`" })?;
    Refusal::at_most("bytes of a map of characters", text.len(), MAP)?;
    let bytes =
        base64(text).ok_or(Refusal::Form { section, expected: "base64 for `precompiled_charsmap`" })?;
    let expected = "trie with its length before it for `precompiled_charsmap`";
    let wrong = || Refusal::Form { section, expected };
    let (size, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let size = u32::from_le_bytes(*size) as usize;
    if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
        return Err(wrong());
    }
    let texts = rest.get(size..).unwrap_or_default();
    let longest = texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0);
    Refusal::at_most("bytes for one character of a map", longest, ENTRY)
}

/// Decodes base64.
///
/// Source: RFC 4648, section 4.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for at in 0..4 {
            let value = match group.get(at) {
                Some(c @ b'A'..=b'Z') => c - b'A',
                Some(c @ b'a'..=b'z') => c - b'a' + 26,
                Some(c @ b'0'..=b'9') => c - b'0' + 52,
                Some(b'+') => 62,
                Some(b'/') => 63,
                Some(_) => return None,
                None => 0,
            };
            bits = bits << 6 | u32::from(value);
        }
        let [_, a, b, c] = bits.to_be_bytes();
        bytes.extend([a, b, c].into_iter().take(group.len().saturating_sub(1)));
    }
    Some(bytes)
}

/// Checks the post-processor. The library distinguishes its kinds by their fields, not by `type`.
pub(super) fn post_processor(of: &Json) -> Result<(), Refusal> {
    processor(of, 0, &mut 0)
}

fn processor(of: &Json, depth: usize, steps: &mut usize) -> Result<(), Refusal> {
    let section = "post-processor";
    let Some(map) = object(section, of)? else { return Ok(()) };
    *steps += 1;
    Refusal::at_most("steps", *steps, STEPS)?;
    Refusal::at_most("lists of steps within each other", depth, DEPTH)?;
    if let Some(list) = map.get("processors") {
        let list = list.as_array().ok_or(Refusal::Form { section, expected: "list of `processors`" })?;
        list.iter().try_for_each(|one| processor(one, depth + 1, steps))?;
    }
    let ids = |id: &str| {
        let token = map.get("special_tokens")?.get(id)?;
        let length = |key: &str| token.get(key).and_then(Json::as_array).map_or(0, Vec::len);
        Some(length("ids").max(length("tokens")))
    };
    for template in ["single", "pair"].iter().filter_map(|key| map.get(*key)) {
        let pieces = template.as_array().ok_or(Refusal::Form { section, expected: "list for a template" })?;
        let (mut added, mut first, mut second) = (0usize, 0usize, 0usize);
        for piece in pieces {
            // The library also reads a piece that is a string, for example `$A` or `[CLS]`.
            let short = piece.as_str().map(|text| text.split(':').next().unwrap_or_default());
            let sequence = piece.pointer("/Sequence/id").and_then(Json::as_str);
            match short.or(sequence) {
                Some("B" | "$B") => second += 1,
                Some(text) if sequence.is_some() || text.starts_with('$') => first += 1,
                Some(text) => added += ids(text).unwrap_or(1).max(1),
                None => {
                    let id = piece.pointer("/SpecialToken/id").and_then(Json::as_str);
                    added += id.and_then(ids).unwrap_or(1).max(1);
                }
            }
        }
        Refusal::at_most("tokens that a template adds", added, ADDED)?;
        Refusal::at_most("copies of a text in a template", first.max(second), 1)?;
    }
    Ok(())
}

/// Checks the length of a prefix or suffix of words.
pub(super) fn affix(text: Option<&str>) -> Result<(), Refusal> {
    Refusal::at_most("bytes of a prefix or suffix of words", text.map_or(0, str::len), AFFIX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Source: the examples of RFC 4648, section 10.
    #[test]
    fn base64_is_read() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("Zm9*"), None);
        assert_eq!(base64("+/+/"), Some(vec![0xfb, 0xff, 0xbf]));
    }
}
