//! Chooses file names for values with arbitrary names.
//!
//! A file name depends only on the name of the value, and different values have different file names. Letters, digits, `-`, `_` and `.` are
//! kept; every other byte becomes `%` and two hexadecimal digits. If the names of two values in a run differ only in case, capital letters
//! are encoded, too, because some file systems ignore case.

use std::collections::HashMap;

/// The maximum length of a name that is used unchanged, in bytes. It leaves room for an extension.
const LONGEST: usize = 200;

/// Names that Windows reserves for devices, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Returns the file name of each value, without extension.
pub(crate) fn stems(names: &[&str]) -> Vec<String> {
    let plain: Vec<String> = names.iter().map(|name| stem(name, false)).collect();
    let mut alike: HashMap<String, Vec<&str>> = HashMap::new();
    for (name, stem) in names.iter().zip(&plain) {
        let others = alike.entry(stem.to_lowercase()).or_default();
        if !others.contains(name) {
            others.push(name);
        }
    }
    names
        .iter()
        .zip(plain)
        .map(|(name, plain)| {
            let clash = alike.get(&plain.to_lowercase()).is_some_and(|others| others.len() > 1);
            if clash { stem(name, true) } else { plain }
        })
        .collect()
}

fn stem(name: &str, capitals: bool) -> String {
    let device = is_device(name);
    let mut stem = String::new();
    for (i, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && i > 0);
        if plain && !(capitals && byte.is_ascii_uppercase()) && !(device && i == 0) {
            stem.push(char::from(byte));
        } else {
            stem.push_str(&format!("%{byte:02X}"));
        }
    }
    if stem.len() <= LONGEST {
        return stem;
    }
    // The name is ASCII here, so it can be truncated at any byte. Only truncated names contain `%-`.
    let kept = stem.get(..LONGEST - 20).unwrap_or_default();
    format!("{kept}%-{:016x}", bb_ir::op::fingerprint([name], []))
}

fn is_device(name: &str) -> bool {
    let front = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().any(|port| {
        front
            .strip_prefix(port)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    numbered || DEVICES.contains(&front.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_have_different_files_where_case_does_not_count() {
        let long = ["n".repeat(300), format!("{}m", "n".repeat(299))];
        let names = [
            "a/b", "a_b", "a%2Fb", "A/b", "y", "Y", "a.b", ".a", "..", "", "con", "CON", "con.x", "com1",
            "lpt", "ä", "a:0", &long[0], &long[1], "a\0b", "a b", "\\",
        ];
        let stems = stems(&names);
        let lower: std::collections::HashSet<String> = stems.iter().map(|stem| stem.to_lowercase()).collect();
        assert_eq!(lower.len(), names.len(), "{stems:?}");
        for stem in &stems {
            assert!(stem.len() <= LONGEST && stem.is_ascii() && !stem.starts_with('.'), "{stem}");
            assert!(!stem.contains(['/', '\\', ':', '\0', ' ']) && !is_device(stem), "{stem}");
        }
    }

    #[test]
    fn usual_names_stay() {
        assert_eq!(
            stems(&["logits", "pres_k0", "Identity_1", "a.b-c"]),
            ["logits", "pres_k0", "Identity_1", "a.b-c"]
        );
        assert_eq!(stems(&["a/b", "a_b"]), ["a%2Fb", "a_b"]);
        assert_eq!(stems(&["y", "Y", "y"]), ["y", "%59", "y"]);
    }
}
