//! Detects whether `Cargo.toml` renames `bb`, for an error message.

use std::path::Path;

/// Returns the name of `bb` in the manifest of the crate that is being compiled; `None` if the name is `bb`.
pub(crate) fn other_name() -> Option<String> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR")?;
    let manifest = std::fs::read_to_string(Path::new(&folder).join("Cargo.toml")).ok()?;
    renamed_in(&manifest)
}

/// Finds `name = { package = "bb", … }`, also if it is written as a table of its own. If the manifest also has `bb` under its own name,
/// there is no other name.
fn renamed_in(manifest: &str) -> Option<String> {
    let (mut table, mut other) = (String::new(), None);
    for line in manifest.lines() {
        let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        if let Some(title) = line.strip_prefix('[') {
            table = title.trim_end_matches(']').to_owned();
        }
        let entry = line.split_once('=').filter(|_| table.ends_with("dependencies"));
        let own_table = table.rsplit_once("dependencies.").map(|(_, name)| name);
        let (name, is_bb) = match (entry, own_table) {
            (Some((key, value)), _) => {
                (key.split('.').next().unwrap_or(key), value.contains("package=\"bb\""))
            }
            (None, Some(name)) => (name, line == "package=\"bb\""),
            (None, None) => continue,
        };
        let name = name.trim_matches('"');
        if is_bb {
            other = Some(name.replace('-', "_"));
        } else if name == "bb" {
            return None;
        }
    }
    other.filter(|name| name != "bb")
}

#[cfg(test)]
mod tests {
    use super::renamed_in;

    #[test]
    fn another_name_is_found() {
        for (manifest, name) in [
            ("[dependencies]\nmy-tensors = { package = \"bb\", path = \"../bb\" }", Some("my_tensors")),
            ("[dependencies.tensors]\npath = \"../bb\"\npackage = \"bb\"\n", Some("tensors")),
            ("[target.'cfg(unix)'.dependencies]\nt = { path = \"../bb\", package=\"bb\" }", Some("t")),
            ("[dependencies]\nbb = { path = \"../bb\" }\n[dev-dependencies]\nt = { package = \"bb\" }", None),
            ("[dependencies]\nt = { package = \"bb\" }\nbb.workspace = true", None),
            ("[dependencies]\nt = { package = \"bb-core\" }\n[package.metadata]\nx = \"bb\"", None),
            ("[dependencies.bb]\npath = \"../bb\"", None),
        ] {
            assert_eq!(renamed_in(manifest).as_deref(), name, "{manifest}");
        }
    }
}
