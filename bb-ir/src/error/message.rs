//! Formats parts of error messages.

use super::limit_option::option;
use crate::DataType;
use crate::text::{MOST_LISTED, sentence, shown};
use std::path::{Path, PathBuf};

/// The maximum number of bytes that a process can address. Processors address at most 2^57 bytes, and the supported operating
/// systems give a process at most 2^47.
pub const ADDRESSABLE: usize = if usize::BITS < 48 { usize::MAX } else { (1_u64 << 47) as usize };

/// Returns the name of a domain for messages; ONNX's own domain, the empty string, is `ai.onnx`.
pub(crate) fn domain_title(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// Returns a phrase with the axes that a tensor of a rank has. An axis may be negative and then counts from the end.
pub(super) fn axes(rank: usize) -> String {
    match rank.checked_sub(1) {
        None => ", which has no axes".to_owned(),
        Some(last) => format!("; expected -{rank} to {last}"),
    }
}

/// Formats a range of counts.
pub(super) fn range(least: usize, most: usize) -> String {
    match (least, most) {
        (_, usize::MAX) => format!("at least {least}"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// Describes the type with this hash: its name, or the hash if the type is unknown.
pub(super) fn declared(hash: u64) -> String {
    match crate::type_hash::element_type(hash) {
        Some(dtype) => format!("`{}`", crate::type_hash::type_name(dtype)),
        None => format!("a type that is not declared here (hash {hash:#018x})"),
    }
}

/// Describes which limit a tensor exceeds.
pub(super) fn too_large(limit: usize, name: Option<&str>) -> String {
    if limit >= isize::MAX as usize {
        return "has more elements than an address can count".to_owned();
    }
    match name {
        Some(name) => format!("is larger than {limit} bytes, the limit `{}`", option(name)),
        None if limit == ADDRESSABLE => {
            format!("is larger than {limit} bytes, the most that a process can address")
        }
        None => format!("is larger than {limit} bytes, the limit of the call"),
    }
}

/// Returns a phrase with the name of the limit; empty if the limit has no name.
pub(super) fn by_limit(name: Option<&str>) -> String {
    name.map(|name| format!(" by the limit `{}`", option(name))).unwrap_or_default()
}

/// Suggests a limit; empty if there is no suggestion.
pub(super) fn meant_limit(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{}`?)", option(name))).unwrap_or_default()
}

/// Formats a choice of element types.
pub(super) fn alternatives(types: &[DataType]) -> String {
    match types {
        [] => "no type".to_owned(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(DataType::to_string).collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}

/// Lists the folders that were searched; without folders, the caller passed the data.
pub(super) fn searched(folders: &[PathBuf]) -> String {
    if folders.is_empty() { "what was given as external data".to_owned() } else { paths(folders) }
}

pub(super) fn paths(paths: &[PathBuf]) -> String {
    let names: Vec<String> =
        paths.iter().take(MOST_LISTED).map(|path| format!("`{}`", sentence(path.display()))).collect();
    names.join(", ")
}

/// Returns a phrase with the first missing folder of a path; empty if no folder is missing.
pub(super) fn missing_folder(path: &Path, missing: &Path) -> String {
    if path == missing {
        String::new()
    } else {
        format!(": there is no folder `{}`", sentence(missing.display()))
    }
}

pub(super) fn inside(models: &[PathBuf]) -> String {
    if models.is_empty() { String::new() } else { format!(", such as {} inside", paths(models)) }
}

pub(super) fn other_case(similar: &Option<Box<str>>) -> String {
    similar.as_ref().map(|name| format!("; there is `{}`, in other letters", shown(name))).unwrap_or_default()
}
