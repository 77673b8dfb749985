//! Builds parts of error messages.

use super::kind::caused;
use super::{BackendOrigin, DoorAdvice};
use crate::{BoxError, OpenOption};
use bb_ir::ErrorKind;
use bb_ir::text::{listed, sentence, shown};
use std::io;
use std::path::Path;

/// The names of the backends of this repository, with their crates.
const CRATES: [(&str, &str); 6] = [
    ("cpu", "bb-cpu"),
    ("ort", "bb-ort"),
    ("reference", "bb-reference"),
    ("rten", "bb-rten"),
    ("wgpu", "bb-wgpu"),
    ("whole-graph", "bb-whole-graph"),
];

/// Returns the message that no linked backend has a name, and the crate that has a backend with this name, if
/// known.
pub(super) fn no_backend(name: &str) -> String {
    match CRATES.iter().find(|(known, _)| *known == name) {
        Some((name, package)) if DoorAdvice::given().is_none() => {
            let module = package.replace('-', "_");
            format!(
                "backend `{name}` is not linked: depend on the crate `{package}`, and write `use {module} as _;`"
            )
        }
        _ if name.is_empty() => "the name of the backend is empty".to_owned(),
        _ => format!("no backend is called `{}`", shown(name)),
    }
}

/// Lists the linked backends, and explains how to link one.
pub(super) fn linked_backends(linked: &[String]) -> String {
    let cure = "a backend is linked if its type has `#[derive(bb::Backend)]` and the program names its crate: write \
                `use the_crate as _;`; if it does, the crate is built against another `bb`, which `cargo tree --invert bb` shows";
    match (linked, DoorAdvice::given()) {
        ([], Some(door)) => format!("there is none; {}", door.backend),
        (_, Some(door)) => format!("there are {}; {}", quoted(linked), door.backend),
        ([], None) => format!("none is linked; {cure}"),
        (_, None) => format!("linked: {}; {cure}", quoted(linked)),
    }
}

/// Returns advice for two linked backends of one name. The paths of their types are given, with versions if the paths are equal.
pub(super) fn one_backend(first: &str, second: &str) -> String {
    one_of("`#[bb(name = \"another-name\")]` above one of these types", first, second)
}

/// Returns advice for two linked layers of one name. The paths of their types are given.
pub(super) fn one_layer(first: &str, second: &str) -> String {
    one_of("another `NAME` in the `impl bb::RegisteredLayer` of one of these types", first, second)
}

/// Returns advice for a layer and a backend of one name. The paths of their types are given.
pub(super) fn layer_or_backend(layer: &str, backend: &str) -> String {
    let rename = "another `NAME` in the `impl bb::RegisteredLayer` of the layer, or `#[bb(name = \"another-name\")]` above the backend";
    one_of(rename, layer, backend)
}

/// Returns advice to rename one of two types, or to link only one of them. Only authors in Rust write `rename`.
fn one_of(rename: &str, first: &str, second: &str) -> String {
    let path = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let [one, other] = [first, second].map(|text| text.split("::").next().unwrap_or(text));
    if path(first) == path(second) {
        return format!(
            "register the type once, and link one version of the crate `{}`: `cargo tree --duplicates` lists the versions",
            shown(one)
        );
    }
    let rename = match DoorAdvice::given() {
        Some(_) => "rename one".to_owned(),
        None => format!("write {rename}"),
    };
    if one == other {
        return rename;
    }
    let [one, other] = [one, other].map(shown);
    format!(
        "{rename}, or link only one of the crates: remove the line `use {one} as _;` or `use {other} as _;`"
    )
}

/// Lists the linked layers, and explains how to link the layers of `bb`. The layer `trace` needs a feature.
pub(super) fn linked_layers(name: &str, linked: &[String]) -> String {
    match linked {
        _ if name == "trace" => "`bb-layers` has it only with its feature `tracing`".to_owned(),
        [] if DoorAdvice::given().is_some() => {
            "there is none: a library has the layers if its crate depends on `bb-layers`, with the line `use bb_layers as _;`".to_owned()
        }
        [] => "none is linked: write `use bb_layers as _;` for the layers of `bb`; for another, write `bb::register_layer!(…);` in its \
               crate, and `use the_crate as _;`"
            .to_owned(),
        _ => format!("linked: {}", quoted(linked)),
    }
}

/// Lists the bound backends, as the subject and verb of a sentence.
pub(super) fn are(names: &[String]) -> String {
    match names {
        [] => "none is".to_owned(),
        [one] => format!("`{}` is", shown(one)),
        _ => format!("{} are", quoted(names)),
    }
}

/// Returns the beginning of the sentence that an option does not exist.
pub(super) fn declares(backend: &Option<&'static str>) -> String {
    backend.map_or_else(|| "there is".to_owned(), |backend| format!("backend `{backend}` has"))
}

/// Lists the declared options. `narrow_floats` comes last, and is absent if it cannot be set.
pub(super) fn declared(takes: &[String]) -> String {
    let floats = OpenOption::NarrowFloats.name();
    let (own, if_lacking) = match takes {
        [own @ .., last] if last == floats => (own, Some(format!("`{floats}` if it lacks a float type"))),
        own => (own, None),
    };
    match (own, if_lacking) {
        ([], None) => "it has no options of its own".to_owned(),
        ([], Some(floats)) => format!("it has no options of its own, only {floats}"),
        (_, None) => format!("there are {}", quoted(own)),
        (_, Some(floats)) => format!("there are {}, and {floats}", quoted(own)),
    }
}

/// Lists the options that a backend takes. `narrow_floats` comes last, and is absent if it cannot be set.
pub(super) fn options(takes: &[OpenOption]) -> String {
    option_list(&takes.iter().map(|option| option.name()).collect::<Vec<_>>())
}

/// Lists options of a backend by name, in the order of [`Error::OpenOption`](crate::Error::OpenOption).
#[doc(hidden)]
pub fn option_list(names: &[&str]) -> String {
    let floats = OpenOption::NarrowFloats.name();
    match names {
        [] => "none".to_owned(),
        [last] if *last == floats => format!("only `{floats}`, if it lacks a float type"),
        [own @ .., last] if *last == floats => {
            format!("{}, and `{floats}` if it lacks a float type", quoted(own))
        }
        _ => quoted(names),
    }
}

/// Returns the subject of a sentence about the kernel of an operation.
pub(super) fn kernel_of(op: &Option<&'static str>) -> String {
    op.map_or_else(|| "the kernel".to_owned(), |op| format!("the kernel of `{op}`"))
}

/// Describes the missing partner of a parenthesis. `at` is its position, in characters, counted from 1.
pub(super) fn partner(name: &str, at: usize) -> String {
    let is_open = name.chars().nth(at.saturating_sub(1)) == Some('(');
    let name = shown(name);
    match is_open {
        true => format!("`)` is missing after `{name}`: the `(` at character {at} is not closed"),
        false => format!("`(` is missing in `{name}`: the `)` at character {at} closes none"),
    }
}

/// Lists the outputs that were returned instead of an expected one.
pub(super) fn returned(made: &[String]) -> String {
    match made {
        [] => String::new(),
        _ => format!("; it returned {}", listed(made)),
    }
}

/// Describes a backend that was not constructed. If an option or another setting caused that, the backend is not called unavailable.
pub(super) fn unavailable(backend: &str, origin: &BackendOrigin, source: &BoxError) -> String {
    match caused(source.as_ref(), &|_| None) {
        ErrorKind::Configuration => format!("backend `{backend}` cannot be opened"),
        _ => format!("backend `{backend}` is {origin}, but not available"),
    }
}

/// Lists the backends that open each other, unless there is only one backend.
pub(super) fn through(path: &[String]) -> String {
    match path {
        [first, .., last] if path.len() > 2 || first != last => format!(", through {}", quoted(path)),
        _ => String::new(),
    }
}

pub(super) fn quoted(names: &[impl std::fmt::Display]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", shown(name))).collect();
    names.join(", ")
}

/// Returns a suggestion of a name, if there is one.
pub(super) fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{}`?", shown(name)))
}

/// Returns the suggestion of [`did_you_mean`] for the middle of a sentence.
pub(super) fn perhaps(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!(" (did you mean `{}`?)", shown(name)))
}

/// Returns a suggestion of the most similar of the names, for the middle of a sentence.
pub(super) fn nearest_of(name: &str, names: &[String]) -> String {
    let nearest = bb_ir::nearest(name, names.iter().map(String::as_str));
    perhaps(&nearest.map(str::to_owned))
}

/// Returns the method for values other than tensors. Only Rust programs can choose it.
pub(super) fn for_other_values() -> &'static str {
    match DoorAdvice::given() {
        Some(_) => "",
        None => "; `run_items` takes and gives others too",
    }
}

/// Returns the name of the backend that an option belongs to, if it is known.
pub(super) fn of_backend(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" for `{}`", shown(name)) }
}

/// Returns a phrase with the folder of a file that cannot be written because the folder does not exist.
pub(super) fn no_folder(path: &Path, source: &io::Error) -> String {
    match path.parent() {
        Some(folder) if source.kind() == io::ErrorKind::NotFound && !folder.as_os_str().is_empty() => {
            format!(": there is no folder `{}`", sentence(folder.display()))
        }
        _ => String::new(),
    }
}

/// Describes the backend that already has a name, and how to free the name if the program added the backend.
pub(super) fn taken(name: &str, by: &str, added: bool) -> String {
    match (DoorAdvice::given(), added) {
        (Some(DoorAdvice { remove: Some(remove), .. }), true) => {
            format!(": {}, or choose another name", remove.replace("{name}", name))
        }
        (Some(_), _) => ": choose another name".to_owned(),
        (None, true) => format!(" by `{}`: remove that one before, or choose another name", shown(by)),
        (None, false) => format!(" by `{}`: choose another name", shown(by)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_of_one_name_are_renamed_or_linked_singly() {
        let unlink = "or link only one of the crates: remove the line `use one as _;` or `use two as _;`";
        assert_eq!(
            one_backend("one::Chip", "two::Chip"),
            format!("write `#[bb(name = \"another-name\")]` above one of these types, {unlink}")
        );
        assert_eq!(
            one_layer("one::Log", "one::other::Log"),
            "write another `NAME` in the `impl bb::RegisteredLayer` of one of these types"
        );
        let mixed = layer_or_backend("one::Log", "two::Chip");
        assert!(mixed.ends_with(unlink) && mixed.contains("above the backend"), "{mixed}");
        let versions = one_backend("one::Chip 1.0.0", "one::Chip 2.0.0");
        assert!(versions.contains("link one version of the crate `one`"), "{versions}");
    }
}
