//! Chat templates give the texts that Jinja2 gives with the settings of Hugging Face Transformers.
//!
//! `templates/make.py` renders the expected texts.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb_cpu as _;
use bb_generate::{ChatTemplate, Message};
use serde_json::Value as Json;

#[test]
fn templates_give_the_texts_of_jinja2() {
    let file: Json = serde_json::from_str(include_str!("templates/expected.json")).unwrap();
    let render = |source: &str, messages: &[Message], answer: bool| {
        ChatTemplate::new(source, "<s>", "</s>").unwrap().render(messages, answer)
    };
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 100);
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["template"].as_str().unwrap();
        let source = file["templates"][name].as_str().unwrap();
        let text = |json: &Json| json.as_str().unwrap().to_owned();
        let messages: Vec<Message> = case["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| Message::new(text(&message["role"]), text(&message["content"])))
            .collect();
        let found = render(source, &messages, case["answer"].as_bool().unwrap());
        let same = match (case["expected"].as_str(), &found) {
            (Some(expected), Ok(found)) => {
                let form = if name == "harmony" { "%Y-%m-%d" } else { "%d %b %Y" };
                let date = render(&format!("{{{{ strftime_now('{form}') }}}}"), &[], false).unwrap();
                *found == expected.replace("@DATE@", &date)
            }
            (None, Err(_)) => true,
            _ => false,
        };
        if !same {
            wrong.push(format!("{name}: {found:?}\nexpected {:?}\n", case["expected"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {}", wrong.len(), cases.len(), wrong.join("\n"));
}
