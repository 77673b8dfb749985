//! Creates the tokenizer that the metadata of a GGUF file describes.
//!
//! Two kinds are supported, with the implementations in `tokenizers`: byte-level BPE (`gpt2`), and BPE of characters by scores
//! (`llama`).

use super::file::{TOKEN, specials};
use super::refusal::Refusal;
use super::text::Texts;
use super::{Tokens, guarded, refused};
use crate::Error;
use crate::gguf::{Gguf, GgufError, MetaValue, shortened};
use std::collections::{BTreeMap, HashMap, HashSet};
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Merges};
use tokenizers::normalizers::{Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence as Cutters;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior::Isolated;
use tokenizers::{AddedToken, Tokenizer};

/// The supported kinds of tokenizers, as in `tokenizer.ggml.model`.
const MODELS: &[&str] = &["gpt2", "llama"];
/// The supported ways to split texts into words, as in `tokenizer.ggml.pre`.
const CUTTERS: &[&str] =
    &["default", "deepseek-r1-qwen", "gpt-2", "llama-bpe", "llama-v3", "llama3", "qwen2", "smollm"];
/// The maximum length of a token that is split into pairs, in bytes.
const PIECE: usize = 256;
/// The maximum number of pairs per token. Llama's tokenizers have 2.
const PAIRS: usize = 16;
/// The character that represents a space in tokens with scores.
const SPACE: &str = "\u{2581}";

/// Returns the pattern for words, numbers of at most `digits` digits, signs and spaces.
///
/// Source: the tokenizers of Llama 3 and Qwen 2.
fn words(digits: &str) -> String {
    format!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
}

/// Types of tokens, by their ids in the format.
const CONTROL: i64 = 3;
const USER: i64 = 4;

pub(super) fn read(file: &Gguf) -> Result<Tokens, Error> {
    let missing = |key: &str| GgufError::MissingKey { key: key.to_owned() };
    const MODEL: &str = "tokenizer.ggml.model";
    const LIST: &str = "tokenizer.ggml.tokens";
    let kind = file.text(MODEL)?.ok_or_else(|| missing(MODEL))?;
    if !MODELS.contains(&kind) {
        return Err(Error::TokenizerKind { found: shortened(kind), expected: MODELS });
    }
    let list = file.texts(LIST)?.ok_or_else(|| missing(LIST))?;
    let longest = list.iter().map(|text| text.len()).max().unwrap_or(0);
    Refusal::at_most("bytes of a token", longest, TOKEN).map_err(refused)?;
    let mut ids: HashMap<&str, u32> = HashMap::with_capacity(list.len());
    for (i, text) in list.iter().enumerate() {
        let id = u32::try_from(i).map_err(|_| {
            refused(Refusal::Count { what: "tokens", found: list.len() as u64, most: u64::from(u32::MAX) })
        })?;
        ids.entry(text).or_insert(id);
    }
    let scored = kind == "llama";
    let merges = if scored { by_score(file, list.len(), &ids)? } else { written(file, &ids)? };
    let mut builder = BPE::builder().vocab_and_merges(
        ids.iter().map(|(text, id)| ((*text).to_owned(), *id)).collect::<Vocabulary>(),
        merges,
    );
    let cutter = file.text("tokenizer.ggml.pre")?.unwrap_or("default");
    if scored {
        builder = builder.byte_fallback(true).fuse_unk(true);
        if let Some(unknown) = special(file, list, "unknown")?.and_then(|id| list.get(id as usize)) {
            builder = builder.unk_token(unknown.to_string());
        }
    } else if matches!(cutter, "llama-bpe" | "llama-v3" | "llama3") {
        builder = builder.ignore_merges(true);
    }
    let mut tokenizer = Tokenizer::new(guarded(|| builder.build())?);
    if scored {
        with_spaces(&mut tokenizer, file.truth("tokenizer.ggml.add_space_prefix")?.unwrap_or(true))?;
    } else {
        with_bytes(&mut tokenizer, cutter)?;
    }
    let spaces = add_special(&mut tokenizer, file, list)?;
    // In byte-level tokenizers, a word begins with a space. In the other kind, tokens may span several words.
    let texts = Texts { longest, cuts: !scored && !spaces, slow: false };
    let mut tokens = Tokens::new(tokenizer, texts);
    let named = |what| special(file, list, what);
    tokens.add_ends([named("eos")?, named("eot")?, named("eom")?].into_iter().flatten());
    tokens.begin = named("bos")?;
    tokens.begins = match file.truth("tokenizer.ggml.add_bos_token")? {
        Some(begins) => begins,
        None => scored || matches!(cutter, "llama-bpe" | "llama-v3" | "llama3"),
    };
    Ok(tokens)
}

/// The type of the library's vocabularies.
type Vocabulary = tokenizers::models::bpe::Vocab;

/// Returns the special token with the role `what`, if the file has one.
fn special(file: &Gguf, list: &[Box<str>], what: &'static str) -> Result<Option<u32>, Error> {
    let Some(found) = file.uint(&format!("tokenizer.ggml.{what}_token_id"))? else { return Ok(None) };
    match u32::try_from(found) {
        Ok(id) if (id as usize) < list.len() => Ok(Some(id)),
        _ => Err(refused(Refusal::Id { what, found, most: list.len().saturating_sub(1) as u64 })),
    }
}

/// Reads the pairs that the file lists.
fn written(file: &Gguf, ids: &HashMap<&str, u32>) -> Result<Merges, Error> {
    const MERGES: &str = "tokenizer.ggml.merges";
    let list = file.texts(MERGES)?.ok_or_else(|| GgufError::MissingKey { key: MERGES.to_owned() })?;
    let mut whole = String::new();
    let pair = |text: &str| {
        let wrong = |problem| refused(Refusal::Pair { pair: shortened(text), problem });
        let (a, b) = text.split_once(' ').ok_or_else(|| wrong("has no space"))?;
        whole.clear();
        whole.push_str(a);
        whole.push_str(b);
        match [a, b, &whole].iter().all(|part| ids.contains_key(part)) {
            true => Ok((a.to_owned(), b.to_owned())),
            false => Err(wrong("or what it makes is no token")),
        }
    };
    let mut pair = pair;
    list.iter().map(|text| pair(text)).collect()
}

/// Returns the pairs of tokens that merge into a token, highest score first.
///
/// Source: Hugging Face Transformers, `SpmConverter`.
fn by_score(file: &Gguf, count: usize, ids: &HashMap<&str, u32>) -> Result<Merges, Error> {
    let scores = match file.get("tokenizer.ggml.scores") {
        Some(MetaValue::Floats(scores)) if scores.len() == count => scores,
        other => {
            let found = other.map_or_else(|| "missing".to_owned(), MetaValue::describe);
            let (key, expected) = ("tokenizer.ggml.scores".to_owned(), "a list of a float for each token");
            return Err(GgufError::Kind { key, expected, found }.into());
        }
    };
    if let Some(token) = scores.iter().position(|score| score.is_nan()) {
        return Err(refused(Refusal::Score { token, found: f64::NAN }));
    }
    let most = count.saturating_mul(PAIRS);
    let mut merges = Vec::new();
    // If several tokens have the same text, its pairs are added only once.
    for (&text, &id) in ids {
        let score = scores.get(id as usize).copied().unwrap_or(0.0);
        if text.len() > PIECE {
            continue;
        }
        for (at, _) in text.char_indices().skip(1) {
            let (a, b) = text.split_at(at);
            if let (Some(&left), Some(&right)) = (ids.get(a), ids.get(b)) {
                merges.push((score, left, right, (a.to_owned(), b.to_owned())));
            }
        }
        Refusal::at_most("pairs of tokens that make a token", merges.len(), most).map_err(refused)?;
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    Ok(merges.into_iter().map(|(.., pair)| pair).collect())
}

/// Sets up a tokenizer that represents spaces by a separate character, and characters without a token by bytes.
fn with_spaces(tokenizer: &mut Tokenizer, prefix: bool) -> Result<(), Error> {
    let spaces = guarded(|| Replace::new(" ", SPACE))?;
    let mut normalizers = Vec::new();
    if prefix {
        normalizers.push(Prepend::new(SPACE.to_owned()).into());
    }
    normalizers.push(spaces.into());
    guarded(|| tokenizer.with_normalizer(Some(Normalizers::new(normalizers))).map(|_| ()))?;
    let back = guarded(|| Replace::new(SPACE, " "))?;
    let mut decoders = vec![back.into(), ByteFallback::new().into(), Fuse::new().into()];
    if prefix {
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    tokenizer.with_decoder(Some(Decoders::new(decoders)));
    Ok(())
}

/// Sets up a tokenizer that splits texts into words, and represents them by bytes.
fn with_bytes(tokenizer: &mut Tokenizer, cutter: &str) -> Result<(), Error> {
    let split =
        |pattern: &str| guarded(|| Split::new(SplitPattern::Regex(pattern.to_owned()), Isolated, false));
    // The last argument says whether texts are split by GPT-2's pattern.
    let bytes = |words: bool| ByteLevel::new(false, true, words);
    let cutters = match cutter {
        "default" | "gpt-2" => vec![bytes(true).into()],
        "smollm" => vec![split(r"\p{N}")?.into(), bytes(true).into()],
        "llama-bpe" | "llama-v3" | "llama3" => vec![split(&words("{1,3}"))?.into(), bytes(false).into()],
        "qwen2" | "deepseek-r1-qwen" => vec![split(&words(""))?.into(), bytes(false).into()],
        other => return Err(Error::TokenizerKind { found: shortened(other), expected: CUTTERS }),
    };
    tokenizer.with_pre_tokenizer(Some(Cutters::new(cutters)));
    tokenizer.with_decoder(Some(bytes(false)));
    Ok(())
}

/// Adds the special tokens. Returns whether a special token contains a space.
fn add_special(tokenizer: &mut Tokenizer, file: &Gguf, list: &[Box<str>]) -> Result<bool, Error> {
    const TYPES: &str = "tokenizer.ggml.token_type";
    let types: Vec<i64> = match file.get(TYPES) {
        Some(MetaValue::Ints(types)) if types.len() == list.len() => types.clone(),
        Some(MetaValue::Uints(types)) if types.len() == list.len() => {
            types.iter().map(|&x| x.cast_signed()).collect()
        }
        None => Vec::new(),
        Some(other) => {
            let (key, expected) = (TYPES.to_owned(), "a list of an integer for each token");
            return Err(GgufError::Kind { key, expected, found: other.describe() }.into());
        }
    };
    let is_special = |ty: &i64| matches!(*ty, CONTROL | USER);
    let all = list.iter().zip(&types).filter(|(_, ty)| is_special(ty)).map(|(text, _)| text.as_ref());
    let spaces = specials(all, 1).map_err(refused)?.spaces;
    let mut seen = HashSet::new();
    let mut added: BTreeMap<bool, Vec<AddedToken>> = BTreeMap::new();
    for (text, ty) in list.iter().zip(types) {
        if is_special(&ty) && !text.is_empty() && seen.insert(text) {
            let control = ty == CONTROL;
            let token = AddedToken::from(text.to_string(), control).normalized(false);
            added.entry(control).or_default().push(token);
        }
    }
    for (control, tokens) in added {
        guarded(|| match control {
            true => tokenizer.add_special_tokens(tokens),
            false => tokenizer.add_tokens(tokens),
        })?;
    }
    Ok(spaces)
}
