//! The memory and the time of a stranger's chat template, and of messages, against their size.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod growth;

use bb_generate::{ChatTemplate, Error, Message};
use growth::doubled;

/// Returns whether a template compiles and renders. Errors of another kind fail the test.
fn renders(source: &str, messages: &[Message]) -> bool {
    let rendered =
        ChatTemplate::new(source, "<s>", "</s>").and_then(|template| template.render(messages, true));
    match rendered {
        Ok(_) => true,
        Err(Error::Template { .. } | Error::LongTemplate { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn said(text: &str) -> Vec<Message> {
    vec![Message::new("system", "Be brief."), Message::new("user", text)]
}

#[test]
fn a_template_takes_memory_and_time_in_proportion_to_its_source() {
    // Each becomes longer until the source is too long or too deep.
    let repeated = |before: &'static str, unit: &'static str, after: &'static str| {
        move |size: usize| format!("{before}{}{after}", unit.repeat(size / unit.len()))
    };
    for (shape, before, unit, after) in [
        ("text", "", "text ", ""),
        ("expressions", "", "{{ messages }}", ""),
        ("concatenations", "{{ 'a'", " ~ messages", " }}"),
        ("sums of lists", "{% set x = [1]", " + [1]", " %}"),
        ("negations", "{{ ", "-", "1 }}"),
        ("attributes", "{{ a", ".b", " }}"),
        ("filters", "{{ 'a'", "|upper", " }}"),
        ("elements of a list", "{{ [", "1, ", "1] }}"),
        ("entries of a dictionary", "{{ {", "'a': 1, ", "'b': 2} }}"),
        ("lists within each other", "{{ ", "[", " }}"),
        ("conditions", "{% if a %}", "{% elif a %}", "{% endif %}"),
        ("loops within each other", "", "{% for i in [1, 2] %}", ""),
        ("assignments", "{% set ns = namespace(a='a') %}", "{% set ns.a = ns.a ~ ns.a %}", "{{ ns.a }}"),
        (
            "lists of two lists",
            "{% set ns = namespace(a=[1]) %}",
            "{% set ns.a = [ns.a, ns.a] %}",
            "{{ ns.a }}",
        ),
        ("macros", "", "{% macro m() %}{{ messages }}{% endmacro %}{{ m() }}", ""),
        ("captures", "{% set x = 'x' %}", "{% set x %}{{ x }}{{ x }}{% endset %}", ""),
        ("comments", "", "{# #}", ""),
    ] {
        doubled("a chat template", shape, (256, 256 << 10), repeated(before, unit, after), |source| {
            renders(source, &said("Hello"))
        });
    }
}

#[test]
fn a_rendering_takes_memory_and_time_in_proportion_to_the_messages() {
    for (shape, source) in [
        ("written", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"),
        ("as JSON", "{{ messages | tojson }}"),
        (
            "cut into lines",
            "{% for m in messages %}{% for l in m.content.split('\n') %}{{ l|trim }}{% endfor %}{% endfor %}",
        ),
        ("replaced", "{% for m in messages %}{{ m.content.replace('a', 'bb') | upper }}{% endfor %}"),
        (
            "compared",
            "{% for m in messages %}{{ 'z' in m.content or m.content == messages[0].content }}{% endfor %}",
        ),
        ("sorted", "{{ messages | map(attribute='content') | sort | join('') }}"),
        ("characters", "{% for m in messages %}{{ m.content | list | length }}{% endfor %}"),
    ] {
        let long = |size: usize| "an apple\n".repeat(size / 9);
        doubled(
            "a conversation for a template",
            &format!("a long message, {shape}"),
            (16 << 10, 4 << 20),
            long,
            |text| renders(source, &said(text)),
        );
        doubled(
            "a conversation for a template",
            &format!("many messages, {shape}"),
            (16 << 10, 1 << 20),
            long,
            |text| {
                let messages: Vec<Message> = text.lines().map(|line| Message::new("user", line)).collect();
                renders(source, &messages)
            },
        );
    }
}
