//! Encodes texts of users. The names of control tokens in these texts are treated as plain text.
//!
//! A control token begins or ends a message. A user's text that contains the name of a control token must not become this token. The same
//! holds for a text that forms a name together with the text around it. A template joins all texts, so the names are marked beforehand,
//! with a character that does not occur in any of the texts. Each name in a user's text gets a mark inside it. After rendering, only the
//! names without a mark are control tokens. The marks are removed from the texts between control tokens, and the texts that had a mark are
//! encoded without control tokens.

use super::{Tokens, guarded};
use crate::{ChatTemplate, Error, Message};
use bb::RunOptions;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use tokenizers::{
    AddedToken, AddedVocabulary, Model, PreTokenizedString, PreTokenizer, tokenizer::OffsetType,
};

/// The maximum number of bytes of a name that are compared. A longer name is recognised by its beginning.
const NAME: usize = 256;
/// The maximum length of the keys for looking up parts inside names, in bytes.
const KEY: usize = 3;
/// The maximum number of names that are compared with the beginning of a text. If more names have the same key, the text is marked without
/// a comparison.
const COMPARED: usize = 1000;
/// The number of positions in a text between two checks of the deadline. Each position takes up to [`NAME`] look-ups.
const STRETCH: usize = 1 << 12;
/// A token that is inserted before a text, so that the library does not treat it as the beginning of the whole text.
const BEFORE: &str = "\u{10fffe}bb before\u{10ffff}";

/// The control tokens of a tokenizer.
#[derive(Debug)]
pub(super) struct Controls {
    tokens: Vec<AddedToken>,
    /// The names as a trie of bytes: for a node and a byte, the next node.
    tree: HashMap<(u32, u8), u32>,
    /// The token whose name ends at a node.
    ends: HashMap<u32, usize>,
    /// The positions inside names, by the bytes that begin there.
    inside: HashMap<Vec<u8>, Vec<(usize, usize)>>,
    /// The prefixes of the keys of `inside`.
    beginnings: HashSet<Vec<u8>>,
    /// Whether the normalizer is applied to a name, so that the same name may be spelled differently.
    normalized: bool,
    /// The added tokens, except that names of control tokens are plain text.
    plain: Added,
    /// Like `plain`, with the added token [`BEFORE`], and the id of this token.
    after: (Added, Option<u32>),
}

/// The library's added tokens. This type adds `Debug`.
struct Added(AddedVocabulary);

impl std::fmt::Debug for Added {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Added").finish_non_exhaustive()
    }
}

/// The result of a search for a name at a position of a text.
enum NameMatch {
    /// A name, with its length in bytes and the index of its token.
    Name(usize, usize),
    /// The beginning of a name that continues after the end of the text.
    Open,
    Nothing,
}

impl Controls {
    pub(super) fn new(tokens: &Tokens) -> Result<Controls, Error> {
        let tokenizer = &tokens.tokenizer;
        let mut plain = tokenizer.get_added_vocabulary().clone();
        plain.set_encode_special_tokens(true);
        let mut after = plain.clone();
        let before = AddedToken::from(BEFORE, false).normalized(false);
        guarded(|| after.add_tokens([before], tokenizer.get_model(), tokenizer.get_normalizer()))?;
        let before = after.token_to_id(BEFORE, tokenizer.get_model());
        let mut special: Vec<AddedToken> =
            tokenizer.get_added_tokens_decoder().into_values().filter(|token| token.special).collect();
        special.sort_by(|a, b| a.content.cmp(&b.content));
        let mut controls = Controls {
            normalized: tokenizer.get_normalizer().is_some() && special.iter().any(|token| token.normalized),
            tokens: special,
            tree: HashMap::new(),
            ends: HashMap::new(),
            inside: HashMap::new(),
            beginnings: HashSet::new(),
            plain: Added(plain),
            after: (Added(after), before),
        };
        controls.index();
        Ok(controls)
    }

    fn index(&mut self) {
        let mut nodes = 0;
        for (number, token) in self.tokens.iter().enumerate() {
            let name = token.content.as_bytes();
            let mut node = 0;
            for byte in name.iter().take(NAME) {
                node = *self.tree.entry((node, *byte)).or_insert_with(|| {
                    nodes += 1;
                    nodes
                });
            }
            self.ends.entry(node).or_insert(number);
            for at in (1..name.len()).filter(|at| token.content.is_char_boundary(*at)) {
                let key = name.get(at..name.len().min(at + KEY)).unwrap_or_default();
                self.beginnings.extend((1..key.len()).filter_map(|length| Some(key.get(..length)?.to_vec())));
                let places = self.inside.entry(key.to_vec()).or_default();
                if places.len() <= COMPARED {
                    places.push((number, at));
                }
            }
        }
    }

    /// Returns the longest name at the beginning of the text.
    fn find(&self, text: &str) -> NameMatch {
        let (mut node, mut found) = (0, NameMatch::Nothing);
        for (at, byte) in text.bytes().enumerate() {
            match self.tree.get(&(node, byte)) {
                Some(next) => node = *next,
                None => return found,
            }
            if let Some(token) = self.ends.get(&node) {
                found = NameMatch::Name(at + 1, *token);
            }
        }
        if matches!(found, NameMatch::Nothing) && node != 0 { NameMatch::Open } else { found }
    }

    /// Returns true if the text may be the middle or the end of a name.
    fn continues(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let mut longer = 1..=bytes.len().min(KEY);
        let within = |key: &[u8]| {
            self.inside.get(key).is_some_and(|places| {
                places.len() > COMPARED
                    || places.iter().any(|(number, at)| {
                        let name =
                            self.tokens.get(*number).and_then(|token| token.content.as_bytes().get(*at..));
                        name.is_some_and(|name| bytes.starts_with(name) || name.starts_with(bytes))
                    })
            })
        };
        // A text that is shorter than a key may be the beginning of one.
        bytes.len() < KEY && self.beginnings.contains(bytes)
            || longer.any(|length| bytes.get(..length).is_some_and(within))
    }

    /// Returns the positions of the text where a mark is inserted.
    ///
    /// # Errors
    ///
    /// [`bb::Error::DeadlineExceeded`] and [`bb::Error::Cancelled`].
    fn places(&self, text: &str) -> Result<BTreeSet<usize>, Error> {
        let mut places = BTreeSet::new();
        let trimmed = text.trim();
        let start = text.len() - text.trim_start().len();
        if self.normalized || self.continues(trimmed) || self.continues(text) {
            places.insert(start);
        }
        let end = start + trimmed.len();
        for (number, (at, first)) in text.char_indices().enumerate() {
            if number.is_multiple_of(STRETCH) {
                RunOptions::check_current()?;
            }
            let (Some(rest), Some(byte)) = (text.get(at..), text.as_bytes().get(at)) else { continue };
            if !self.tree.contains_key(&(0, *byte)) {
                continue;
            }
            // Templates may trim the texts, so also search the trimmed text.
            let inner = text.get(at..end.max(at)).unwrap_or_default();
            if !matches!(self.find(rest), NameMatch::Nothing) || matches!(self.find(inner), NameMatch::Open) {
                places.insert(at + first.len_utf8());
            }
        }
        Ok(places)
    }

    /// Splits a text at control tokens.
    ///
    /// # Errors
    ///
    /// [`bb::Error::DeadlineExceeded`] and [`bb::Error::Cancelled`].
    fn divided<'a>(&self, text: &'a str) -> Result<Vec<(&'a str, Option<&AddedToken>)>, Error> {
        let mut parts = Vec::new();
        let (mut begin, mut at) = (0, 0);
        let mut places = 0usize;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if places.is_multiple_of(STRETCH) {
                RunOptions::check_current()?;
            }
            places += 1;
            match self.find(rest) {
                NameMatch::Name(length, token) => {
                    // Only the beginning of a long name was compared, so compare the whole name now.
                    let token = self.tokens.get(token);
                    let length = token.map_or(length, |token| token.content.len().max(length));
                    let name = text
                        .get(at..at + length)
                        .filter(|name| token.is_some_and(|token| token.content == *name));
                    if let Some(name) = name {
                        parts.push((text.get(begin..at).unwrap_or_default(), None));
                        parts.push((name, token));
                        at += length;
                        begin = at;
                        continue;
                    }
                    at += rest.chars().next().map_or(1, char::len_utf8);
                }
                _ => at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
        parts.push((text.get(begin..).unwrap_or_default(), None));
        Ok(parts)
    }
}

/// Messages whose names of control tokens are marked.
struct Marked {
    messages: Vec<Message>,
    mark: char,
}

/// Returns a character that does not occur in any text of a conversation.
fn unused(messages: &[Message], template: &ChatTemplate) -> Option<char> {
    let texts = messages.iter().flat_map(|message| [message.role.as_str(), message.content.as_str()]);
    // Prefer noncharacters, then private-use characters.
    let lowest = '\u{f0000}';
    let used: HashSet<char> = texts
        .clone()
        .chain(template.texts())
        .flat_map(str::chars)
        .filter(|c| *c >= lowest || ('\u{fdd0}'..='\u{fdef}').contains(c))
        .collect();
    ('\u{fdd0}'..='\u{fdef}')
        .chain((lowest..=char::MAX).rev())
        .find(|c| !used.contains(c) && !BEFORE.contains(*c))
}

impl Tokens {
    fn controls(&self) -> Result<&Controls, Error> {
        match self.controls.get() {
            Some(controls) => Ok(controls),
            None => {
                let made = Controls::new(self)?;
                Ok(self.controls.get_or_init(|| made))
            }
        }
    }

    /// Returns the tokens of messages, followed by the tokens that begin an answer, at most `most` tokens in total. The names of control
    /// tokens in messages are plain text.
    ///
    /// # Errors
    ///
    /// The errors of [`ChatTemplate::render`] and of [`encode_within`](Self::encode_within); [`Error::Characters`].
    pub fn encode_chat(
        &self,
        template: &ChatTemplate,
        messages: &[Message],
        most: usize,
    ) -> Result<Vec<u32>, Error> {
        match self.marked(messages, template)? {
            None => self.encode_messages_within(&template.render(messages, true)?, most),
            Some(marked) => self.encode_marked(&template.render(&marked.messages, true)?, marked.mark, most),
        }
    }

    /// Marks the names of control tokens in messages; `None` if there are no names.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`]; [`Error::Characters`] if the messages use all characters that could be marks.
    fn marked(&self, messages: &[Message], template: &ChatTemplate) -> Result<Option<Marked>, Error> {
        let controls = self.controls()?;
        let plain = |role: &str| role.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        // Templates write roles between brackets, and this is how the known roles become control tokens. So simple roles are not marked.
        let of = |text: &str, role: bool| {
            if role && plain(text) { Ok(BTreeSet::new()) } else { controls.places(text) }
        };
        let of_message = |message: &Message| Ok([of(&message.role, true)?, of(&message.content, false)?]);
        let places = messages.iter().map(of_message).collect::<Result<Vec<_>, Error>>()?;
        if places.iter().flatten().all(BTreeSet::is_empty) {
            return Ok(None);
        }
        let mark = unused(messages, template).ok_or(Error::Characters)?;
        let marked = messages.iter().zip(&places).map(|(message, [role, content])| Message {
            role: with(&message.role, role, mark),
            content: with(&message.content, content, mark),
        });
        Ok(Some(Marked { messages: marked.collect(), mark }))
    }

    /// Returns the tokens of marked messages after a template has joined them.
    ///
    /// # Errors
    ///
    /// The errors of [`encode_within`](Self::encode_within).
    fn encode_marked(&self, text: &str, mark: char, most: usize) -> Result<Vec<u32>, Error> {
        let parts = self.controls()?.divided(text)?;
        let (mut tokens, mut honest) = (Vec::new(), String::new());
        for (number, (part, token)) in parts.iter().enumerate() {
            if token.is_some() || !part.contains(mark) {
                honest.push_str(part);
                continue;
            }
            let left = |tokens: &Vec<u32>| most.saturating_sub(tokens.len());
            tokens.extend(self.encode_messages_within(&honest, left(&tokens))?);
            let first = tokens.is_empty() && honest.is_empty();
            honest.clear();
            let neighbour = |at: Option<usize>| at.and_then(|at| parts.get(at)).and_then(|(_, token)| *token);
            let mut plain = part.replace(mark, "");
            // Some control tokens absorb the spaces before or after them.
            if neighbour(number.checked_sub(1)).is_some_and(|token| token.rstrip) {
                plain.drain(..plain.len() - plain.trim_start().len());
            }
            if neighbour(Some(number + 1)).is_some_and(|token| token.lstrip) {
                plain.truncate(plain.trim_end().len());
            }
            tokens.extend(self.plain_within(&plain, !first, left(&tokens))?);
        }
        let left = most.saturating_sub(tokens.len());
        tokens.extend(self.encode_messages_within(&honest, left)?);
        Ok(tokens)
    }

    /// Returns the tokens of a user's text that is not a message, like [`encode_within`](Self::encode_within). The names of control tokens
    /// in it are plain text.
    ///
    /// # Errors
    ///
    /// The errors of [`encode_within`](Self::encode_within).
    pub fn encode_content_within(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        let mut tokens = self.content_within(text, most)?;
        self.begin_with(&mut tokens);
        Ok(tokens)
    }

    /// Returns the tokens of a user's text that is not a message. The names of control tokens in it are plain text.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`].
    pub fn encode_content(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.encode_content_within(text, usize::MAX)
    }

    /// Returns the tokens of a text without control tokens. `after` is true if other text precedes this text.
    pub(super) fn encoded_plain(&self, text: &str, after: bool, special: bool) -> Result<Vec<u32>, Error> {
        let controls = self.controls()?;
        let (added, before, joined) = match &controls.after {
            (Added(added), Some(before)) if after && !text.contains(BEFORE) => {
                (added, Some(*before), Cow::Owned(format!("{BEFORE}{text}")))
            }
            _ => (&controls.plain.0, None, Cow::Borrowed(text)),
        };
        let encoding = guarded(|| {
            let tokenizer = &self.tokenizer;
            let mut text: PreTokenizedString =
                added.extract_and_normalize(tokenizer.get_normalizer(), &joined);
            if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut text)?;
            }
            text.tokenize(|word| tokenizer.get_model().tokenize(word.get()))?;
            let encoding = text.into_encoding(None, 0, OffsetType::None)?;
            tokenizer.post_process(encoding, None, special)
        })?;
        Ok(encoding.get_ids().iter().copied().filter(|id| Some(*id) != before).collect())
    }
}

/// Inserts marks in a text at these positions.
fn with(text: &str, places: &BTreeSet<usize>, mark: char) -> String {
    let mut marked = String::with_capacity(text.len() + places.len() * mark.len_utf8());
    let mut begin = 0;
    for place in places {
        marked.push_str(text.get(begin..*place).unwrap_or_default());
        marked.push(mark);
        begin = *place;
    }
    marked.push_str(text.get(begin..).unwrap_or_default());
    marked
}

#[cfg(test)]
mod tests;
