#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn render(source: &str) -> Result<String, Error> {
    let messages = [Message::new("system", "Be brief."), Message::new("user", "Hi <you>")];
    ChatTemplate::new(source, "<s>", "</s>")?.render(&messages, true)
}

/// Source: the template of SmolLM2, Apache-2.0.
#[test]
fn a_template_of_a_model_makes_its_text() {
    let source = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
        {{ '<|im_start|>system\nYou are helpful<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' \
        + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}\
        {{ '<|im_start|>assistant\n' }}{% endif %}";
    let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <you><|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(render(source).unwrap(), expected);
}

#[test]
fn what_templates_use_of_python_works() {
    assert_eq!(render("{{ messages[1].content.split(' ')[0] }}").unwrap(), "Hi");
    assert_eq!(
        render("{{ messages[0] | tojson }}").unwrap(),
        r#"{"role": "system", "content": "Be brief."}"#
    );
    assert_eq!(render("{{ messages[1].content | tojson }}").unwrap(), "\"Hi <you>\"");
    assert_eq!(render("{{ bos_token }}{{ 'a' if x is defined else eos_token }}").unwrap(), "<s></s>");
    assert_eq!(render("{%- set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}").unwrap(), "2");
    assert_eq!(render("{% generation %}x{% endgeneration %}").unwrap(), "x");
    assert!(render("{{ strftime_now('%d %b %Y') }}").unwrap().len() == 11);
    let raised = render("{{ raise_exception('only users') }}").unwrap_err();
    let source = std::error::Error::source(&raised).unwrap().to_string();
    assert!(source.contains("only users"), "{source}");
}

#[test]
fn dates_are_those_of_the_calendar() {
    let form = "%Y-%m-%d %H:%M:%S %A %B %I%p";
    assert_eq!(time::formatted(form, 0).unwrap(), "1970-01-01 00:00:00 Thursday January 12AM");
    assert_eq!(time::formatted(form, 951_827_696).unwrap(), "2000-02-29 12:34:56 Tuesday February 12PM");
    assert_eq!(time::formatted("%j", 0).unwrap_err().kind(), minijinja::ErrorKind::InvalidOperation);
}

/// Without limits, each template would use a GiB of memory or more.
#[test]
fn what_a_template_keeps_is_bounded() {
    for source in [
        "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='x' * 99999999) %}{% for i in range(60) %}{% set ns.x = ns.x ~ 'x' %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x|replace('x', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('x', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x]|join('') %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x.join([ns.x, ns.x]) %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = (ns.x + ns.x)|list %}{% endfor %}",
        "{{ ([0] * 1000000000)|list|length }}",
        "{{ ([0] * 1000000000)[0:]|list|length }}",
        "{{ '{:>10000000000}'.format('x') }}",
        "{{ 'x'|indent(10000000000, true) }}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='x') %}{% for i in range(60) %}\
         {% set ns.x = m(ns.x) %}{% endfor %}",
        &format!(
            "{{% set x %}}{{% for i in range(100000) %}}{}{{% endfor %}}{{% endset %}}",
            "ab ".repeat(9999)
        ),
    ] {
        let short: String = source.chars().take(80).collect();
        assert!(
            matches!(render(source), Err(Error::Template { .. } | Error::LongTemplate { .. })),
            "{short}"
        );
    }
}

/// Checks that accounting for the work of a template does not change its output.
#[test]
fn counting_changes_no_text() {
    for (source, expected) in [
        ("{{ 'a' ~ 'b' + 'c' }}{{ 2 + 3 * 4 ** 2 }}{{ -2 + 1 }}", "abc50-1"),
        ("{{ 'a|b~c' ~ \"it's + \" }}{{ {'a': {'b': 1}}.a.b + 1 }}", "a|b~cit's + 2"),
        ("  {%- set x = [1, 2] + [3] -%}  {{ x|length ~ '' }}{{ y|default('d') }}", "3d"),
        ("{%+ if not x is defined +%} a {%+ endif +%}", " a "),
        ("{% filter upper|trim %} a {% endfilter %}{% set z | upper %}b{% endset %}{{ z }}", "AB"),
        ("{% raw %}{{ a ~ b }}{% endraw %}{# {{ a ~ b }} #}", "{{ a ~ b }}"),
        ("{% macro m(a, b='x' ~ 'y') %}{{ a * 2 }}{{ b }}{% endmacro %}{{ m('z') }}", "zzxy"),
        (
            "{% for m in messages if m.role ~ '' == 'user' or 1 + 1 == 3 %}{{ m['role'] + '!' }}{% endfor %}",
            "user!",
        ),
        (
            "a long text, of more than so many letters {% if true %}and another one, that is as long{% endif %}\n",
            "a long text, of more than so many letters and another one, that is as long",
        ),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
}

#[test]
fn templates_that_do_not_end_or_grow_are_errors() {
    let loops = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    assert!(matches!(render(loops), Err(Error::Template { .. })));
    let long = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
    assert!(matches!(render(long), Err(Error::Template { .. })));
    let wide = "{% set x = 'x' * 1000000 %}{% for i in range(1000) %}{{ x }}{% endfor %}";
    assert!(matches!(render(wide), Err(Error::LongTemplate { .. } | Error::Template { .. })));
    assert!(matches!(render("{% if %}"), Err(Error::Template { .. })));
    assert!(matches!(render(&" ".repeat(source::SOURCE + 1)), Err(Error::LongTemplate { .. })));
}
