//! The files of models: a GGUF file, or a folder with a model in ONNX's format.

use crate::decoder::Decoder;
use crate::gguf::Gguf;
use crate::network::Network;
use crate::onnx::{Modules, OnnxDecoder};
use crate::template::ChatTemplate;
use crate::tokens::Tokens;
use crate::{Error, OpenOptions};
use bb::{BackendHandle, Limits, Module};
use bytes::Bytes;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

/// The maximum size of a JSON file, in bytes.
const JSON: u64 = 256 << 20;
/// The folders, inside the folder of a model, where the ONNX models may be.
const FOLDERS: [&str; 2] = ["", "onnx"];
/// The file names of decoders. The last one only runs tokens without a past, and another file runs the further tokens.
const DECODERS: [&str; 3] = ["model.onnx", "decoder_model_merged.onnx", "decoder_model.onnx"];
const ENCODER: &str = "encoder_model.onnx";
const WITH_PAST: &str = "decoder_with_past_model.onnx";

/// The parts of a model.
pub(crate) struct Opened {
    pub(crate) network: Network,
    pub(crate) tokens: Tokens,
    pub(crate) template: Option<ChatTemplate>,
}

/// Opens a model in any of the supported file formats.
pub(crate) fn open(path: &Path, on: &BackendHandle, options: &OpenOptions) -> Result<Opened, Error> {
    let kind = std::fs::metadata(path).map_err(|source| read_error(path, source.into()))?;
    if kind.is_dir() { folder(path, on, options) } else { gguf(path, on, options) }
}

fn read_error(path: &Path, source: bb_ir::BoxError) -> Error {
    Error::Read { path: path.to_owned(), source }
}

fn gguf(path: &Path, on: &BackendHandle, options: &OpenOptions) -> Result<Opened, Error> {
    let bytes: Bytes = bb_ir::file::load(path, &Limits::default()).map_err(|e| read_error(path, e.into()))?;
    if bytes.get(..4) != Some(b"GGUF") {
        return Err(Error::Form { path: path.to_owned(), found: "another file" });
    }
    from_bytes(bytes, on, options)
}

/// Opens the bytes of a GGUF file.
pub(crate) fn from_bytes(bytes: Bytes, on: &BackendHandle, options: &OpenOptions) -> Result<Opened, Error> {
    let file = Gguf::read(bytes)?;
    let tokens = Tokens::from_gguf(&file)?;
    let template = match file.text("tokenizer.chat_template")? {
        None => None,
        Some(source) => {
            let end = file.uint("tokenizer.ggml.eos_token_id")?.and_then(|id| u32::try_from(id).ok());
            let end = end.and_then(|id| tokens.name(id)).unwrap_or_default();
            let begin = tokens.begin_text().unwrap_or_default();
            Some(ChatTemplate::with_clock(source, &begin, &end, options.clock)?)
        }
    };
    let network = Network::Gguf(Decoder::open(&file, on, options)?);
    Ok(Opened { network, tokens, template })
}

/// Reads a JSON file; `None` if it does not exist.
fn json(folder: &Path, file: &'static str) -> Result<Option<Json>, Error> {
    let Some(bytes) = content(&folder.join(file))? else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|source| Error::Json { file, expected: "JSON", source: Some(source) })
}

/// Reads a small file; `None` if it does not exist.
fn content(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let size = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(path, error.into())),
    };
    if size > JSON {
        let problem = format!("it has {size} bytes, expected at most {JSON}");
        return Err(read_error(path, problem.into()));
    }
    std::fs::read(path).map(Some).map_err(|error| read_error(path, error.into()))
}

/// Finds a file with one of these names in a folder.
fn found(path: &Path, names: &[&str]) -> Option<PathBuf> {
    let all = names.iter().flat_map(|name| FOLDERS.map(|folder| path.join(folder).join(name)));
    all.into_iter().find(|path| path.is_file())
}

/// Loads the decoder of a folder, and the graphs that are used together with it.
fn modules(path: &Path, decoder: &Path) -> Result<Modules, Error> {
    let loaded = |name: &str| found(path, &[name]).map(Module::load).transpose();
    // A decoder that is one graph for all tokens needs no second graph.
    let is_first = decoder.ends_with("decoder_model.onnx");
    Ok(Modules {
        encoder: loaded(ENCODER)?,
        decoder: Module::load(decoder)?,
        with_past: if is_first { loaded(WITH_PAST)? } else { None },
    })
}

fn folder(path: &Path, on: &BackendHandle, options: &OpenOptions) -> Result<Opened, Error> {
    let form = |found| Error::Form { path: path.to_owned(), found };
    let decoder = found(path, &DECODERS).ok_or_else(|| form("a folder without a model"))?;
    let tokenizer =
        content(&path.join("tokenizer.json"))?.ok_or_else(|| form("a folder without a tokenizer"))?;
    let mut tokens = Tokens::from_json(&tokenizer)?;
    let (genai, config) = (json(path, "genai_config.json")?, json(path, "config.json")?);
    let generation = json(path, "generation_config.json")?;
    let of_tokenizer = json(path, "tokenizer_config.json")?;
    let ends = [
        generation.as_ref().and_then(|json| json.get("eos_token_id")),
        config.as_ref().and_then(|json| json.get("eos_token_id")),
        genai.as_ref().and_then(|json| json.pointer("/model/eos_token_id")),
    ];
    for end in ends.into_iter().flatten() {
        let list = end.as_array().map_or(std::slice::from_ref(end), Vec::as_slice);
        tokens.add_ends(list.iter().filter_map(Json::as_u64).filter_map(|id| u32::try_from(id).ok()));
    }
    let template = match content(&path.join("chat_template.jinja"))? {
        Some(source) => Some(String::from_utf8_lossy(&source).into_owned()),
        None => of_tokenizer.as_ref().and_then(|json| template_of(json.get("chat_template")?)),
    };
    let named =
        |what: &str| of_tokenizer.as_ref().and_then(|json| text_of(json.get(what)?)).unwrap_or_default();
    let template = template
        .map(|source| {
            ChatTemplate::with_clock(&source, &named("bos_token"), &named("eos_token"), options.clock)
        })
        .transpose()?;
    let modules = modules(path, &decoder)?;
    let decoder = OnnxDecoder::open(modules, on, options, [genai.as_ref(), config.as_ref()])?;
    Ok(Opened { network: Network::Onnx(decoder), tokens, template })
}

/// Returns the template in a tokenizer's file: a string, or the entry called `default` in a list.
fn template_of(json: &Json) -> Option<String> {
    match json {
        Json::String(text) => Some(text.clone()),
        Json::Array(list) => {
            let default =
                list.iter().find(|json| json.get("name").and_then(Json::as_str) == Some("default"))?;
            default.get("template")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// Returns the text of a token: a string, or the `content` of an object.
fn text_of(json: &Json) -> Option<String> {
    json.as_str().or_else(|| json.get("content")?.as_str()).map(str::to_owned)
}
