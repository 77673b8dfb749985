//! Random schemas with extreme numbers, compared with the Python package `jsonschema`: each is refused, or every complete answer is valid.
//!
//! Some hundred of them are part of all tests. `BB_SCHEMAS=10000 cargo test -p bb-generate --features grammar --test random_schemas`
//! makes 10,000.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod definition;
mod tiny;

use bb_cpu as _;
use bb_generate::{Constraint, End, Error, GenerateOptions, Generator};
use definition::File;
use serde_json::json;
use std::io::Write as _;
use std::process::{Command, Stdio};
use tiny::{Quant, Tiny};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemas/draw.py");
/// The tokens of the small model that end a text, and that are blanks.
const ENDS: u32 = 0;
const BLANKS: [u32; 2] = [1, 2];

/// Returns the complete answers of a schema; `None` if it is refused.
fn answers(generator: &Generator, schema: &str, seeds: u64) -> Option<Vec<String>> {
    let grammar = match generator.grammar(&Constraint::JsonSchema(schema.to_owned())) {
        Ok(grammar) => grammar,
        Err(Error::Grammar { .. } | Error::GrammarSize { .. }) => return None,
        Err(error) => panic!("{error} for {schema}"),
    };
    let mut complete = Vec::new();
    for seed in 0..seeds {
        let mut options = GenerateOptions::default();
        (options.tokens, options.grammar) = (100, Some(grammar.clone()));
        (options.sampling.temperature, options.sampling.seed) = (1.5, Some(seed));
        options.sampling.bias = BLANKS.map(|token| (token, -1e4)).to_vec();
        // Numbers and texts without a greatest length come to an end.
        options.sampling.bias.extend([(ENDS, 2.0)]);
        options.sampling.bias.extend(['}', ']', '"'].map(|c| (c as u32 - 33 + 3, 2.0)));
        let (mut text, mut end) = (String::new(), None);
        for piece in generator.sequence().generate(&[40, 41], &options).unwrap() {
            match piece {
                Ok(piece) => {
                    text.push_str(&piece.text);
                    end = piece.end;
                }
                // No text is of the schema, or none that the tokens of the small model make.
                Err(Error::NoneLeft | Error::GrammarFailed { .. }) => break,
                Err(error) => panic!("{error} for {schema}"),
            }
        }
        if matches!(end, Some(End::Stop | End::Token)) {
            complete.push(text);
        }
    }
    Some(complete)
}

#[test]
fn every_complete_answer_is_valid() {
    let python = std::env::var("BB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import jsonschema"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no package `jsonschema`, which checks the answers");
        return;
    }
    let count = std::env::var("BB_SCHEMAS").unwrap_or_else(|_| "300".to_owned());
    let seed = std::env::var("BB_SEED").unwrap_or_else(|_| "1".to_owned());
    let made = Command::new(&python).args([SCRIPT, "make", &count, &seed]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let tiny = Tiny { quant: Quant::F32, layers: 1, ..Tiny::default() };
    let generator = File::of(&tiny, "random-schemas").open("cpu");
    let (mut pairs, mut refused, mut complete) = (Vec::new(), 0, 0);
    let schemas = String::from_utf8(made.stdout).unwrap();
    for schema in schemas.lines() {
        match answers(&generator, schema, 3) {
            None => refused += 1,
            Some(answers) => {
                complete += answers.len();
                for answer in answers {
                    pairs.extend(json!({"schema": schema, "answer": answer}).to_string().into_bytes());
                    pairs.push(b'\n');
                }
            }
        }
    }
    let all = schemas.lines().count();
    println!("{all} schemas, {refused} refused, {complete} complete answers");
    let mut check = Command::new(&python);
    check.args([SCRIPT, "check"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    let mut to = check.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(&pairs));
    let output = check.wait_with_output().unwrap();
    // The writer fails if the check ends early, whose error follows.
    let _written = writer.join().unwrap();
    let wrong = String::from_utf8_lossy(&output.stdout);
    let wrong: Vec<&str> = wrong.lines().take(10).collect();
    assert!(output.status.success(), "{}\n{}", wrong.join("\n"), String::from_utf8_lossy(&output.stderr));
    assert!(complete > all / 2 && refused < all * 2 / 3, "{refused} of {all} refused, {complete} complete");
}
