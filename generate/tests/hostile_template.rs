//! Chat templates of strangers: each is a text or an error, soon, in bounded memory, on a small stack, and nothing panics.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "an allocator that counts")]

use bb_cpu as _;
use bb_generate::{ChatTemplate, Error, Message};
use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

/// Longer than any template may take, in a build for tests on a busy machine.
const LONG: Duration = Duration::from_secs(20);
/// More than a template of some bytes may allocate at one time.
const PEAK: usize = 160 << 20;
/// Half the stack of the threads that serve requests.
const STACK: usize = 1 << 20;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each method passes its arguments to `System`, which fulfils the contract. Beyond 2 GiB it fails, which ends the process.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        if held > 2 << 30 {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One rendering at a time, because all are measured together.
static ONE: Mutex<()> = Mutex::new(());

/// The result, time and memory of a rendering.
struct Taken {
    result: Result<String, Error>,
    time: Duration,
    peak: usize,
}

/// The beginning and the end of a source.
fn shown(source: &str) -> String {
    let count = source.chars().count();
    let ends = source.chars().enumerate().filter(|(at, _)| *at < 100 || at + 200 > count);
    ends.map(|(_, c)| c).collect()
}

/// Compiles and renders on a small stack.
fn taken(source: &str, messages: &[Message]) -> Taken {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (source, messages) = (source.to_owned(), messages.to_owned());
    let shown = shown(&source);
    let (send, receive) = mpsc::channel();
    if std::env::var_os("BB_SHOW").is_some() {
        print!("{} bytes ", source.len());
    }
    let work = move || {
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let start = Instant::now();
        let result =
            ChatTemplate::new(&source, "<s>", "</s>").and_then(|template| template.render(&messages, true));
        let peak = MOST.load(Ordering::Relaxed).saturating_sub(before);
        let _gone = send.send(Taken { result, time: start.elapsed(), peak });
    };
    std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap();
    receive.recv_timeout(2 * LONG).unwrap_or_else(|_| panic!("no end: {shown}"))
}

/// Renders within the bounds; returns the text or the error.
fn bounded(source: &str, messages: &[Message]) -> Result<String, Error> {
    let shown = shown(source);
    let Taken { result, time, peak } = taken(source, messages);
    if std::env::var_os("BB_SHOW").is_some() {
        let said = match &result {
            Ok(text) => format!("{} bytes", text.len()),
            Err(error) => said(error),
        };
        println!("{time:?} {} MiB {shown}: {said}", peak >> 20);
    }
    assert!(time < LONG, "{time:?}: {shown}");
    let size: usize = messages.iter().map(|message| message.content.len()).sum();
    assert!(peak < PEAK + 80 * size, "{peak} bytes: {shown}");
    if let Err(error) = &result {
        assert!(!said(error).contains("panic"), "{shown}: {}", said(error));
        assert!(said(error).len() < 1 << 16, "{shown}");
    }
    result
}

fn said(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

fn message() -> Vec<Message> {
    vec![Message::new("user", "Hi")]
}

fn refused(source: &str) {
    let result = bounded(source, &message());
    let shown = shown(source);
    assert!(result.is_err(), "{shown}: {:?}", result.map(|text| text.len()));
}

const SHARED: &str = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}";

/// Values that contain themselves do not exist.
#[test]
fn cycles_are_refused() {
    for source in [
        "{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns|tojson }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns == ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = [ns] %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = {'a': ns} %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set m = namespace(a=1) %}{% set ns.a = [m] %}{% set m.a = [ns] %}{{ ns.a == m.a }}",
        "{% set ns = namespace(a=1) %}{% set ns.a, ns.b = [ns, ns] %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = dict(b=ns) %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set m = namespace(b=ns) %}{% set ns.a = m %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = missing|default(ns) %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a | default(ns, true) %}{% endset %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% for x in [1] %}{% set ns.a = loop %}{% endfor %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% macro m() %}{{ ns }}{% endmacro %}{% set ns.a = m %}{{ ns }}{{ m() }}",
        "{% macro m() %}{{ m }}{% endmacro %}{{ [m] }}",
        "{% set ns = namespace(a=1) %}{% with ns.a = ns %}{{ ns }}{% endwith %}",
        "{% set ns = namespace(a=1) %}{% set ns.a = [1, 2]|map('default', ns) %}{% set ns.a = [missing]|map('default', ns)|list %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = missing.x or ns %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = (1 if false else ns) %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = [1]|zip([ns]) %}{{ ns }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = [1]|chain([ns]) %}{{ ns }}",
    ] {
        refused(source);
    }
}

/// Values that are deep, whose parts are shared, or that are long until they are read.
#[test]
fn values_that_grow_without_bytes_are_refused() {
    for source in [
        "{% set ns = namespace(a=[1]) %}{% for i in range(10) %}{% for j in range(20000) %}{% set ns.a = [ns.a] %}{% endfor %}{% endfor %}x",
        "{% set ns = namespace(a=[1]) %}{% for j in range(90000) %}{% set ns.a = {'a': ns.a} %}{% endfor %}x",
        "{% set ns = namespace(a=[1]) %}{% for j in range(90000) %}{% set ns.a = dict(a=ns.a) %}{% endfor %}x",
        "{% set ns = namespace(a=[1]) %}{% for j in range(90000) %}{% set ns.a = [ns.a]|list %}{% endfor %}x",
        "{% set ns = namespace(a=[1]) %}{% for j in range(90000) %}{% set ns.a = [ns.a]|zip([1]) %}{% endfor %}x",
        "{% set ns = namespace(a=[1]) %}{% for j in range(90000) %}{% set ns.a = [ns.a]|groupby('x') %}{% endfor %}x",
        "{% set ns = namespace(a={'x': 1}) %}{% for j in range(90000) %}{% set ns.a = {'x': ns.a}|items %}{% set ns.a = {'x': ns.a} %}{% endfor %}x",
        "{% set ns = namespace(a={'x': 1}) %}{% for j in range(90000) %}{% set ns.a = {'x': ns.a.items()} %}{% endfor %}x",
        &format!("{SHARED}{{{{ ns.a == ns.b }}}}"),
        &format!("{SHARED}{{{{ ns.a|tojson }}}}"),
        &format!("{SHARED}{{{{ (ns.a ~ '')|length }}}}"),
        &format!("{SHARED}{{% set x %}}{{{{ ns.a }}}}{{% endset %}}"),
        &format!("{SHARED}{{{{ raise_exception(ns.a) }}}}"),
        "{{ 2 in ([1] * 10000000000) }}",
        "{{ ([1] * 10000000000) == ([1] * 10000000000) }}",
        "{{ range(*([1]*1000000000)) }}",
        "{{ ([1] * 10000000000)|length }}",
        "{{ 'x' * 10000000000 }}",
        "{{ ('x' * 99999999) == 'y' }}",
        "{{ 'x' * 99999999 ~ 'x' * 99999999 }}",
        "{% set ns = namespace(a='x') %}{% for i in range(100000) %}{% set ns.a = ns.a ~ 'xxxxxxxxxx' %}{% endfor %}",
    ] {
        refused(source);
    }
}

/// Work that no step of the library counts.
#[test]
fn work_within_one_step_is_bounded() {
    for source in [
        "{% set d = 'x'*30000000 %}{% for i in range(100000) %}{% if 'y' in d %}{% endif %}{% endfor %}",
        "{% set d = 'x'*15000000 %}{% set e = 'x'*15000000 %}{% for i in range(100000) %}{% if d == e %}{% endif %}{% endfor %}",
        "{% set ns = namespace(a=range(100)) %}{% for j in range(100000) %}{% set ns.a = ns.a[0:] %}{% endfor %}{{ ns.a|length }}",
        "{% set s = 'x' * 1000000 %}{% for i in range(90000) %}{% if s[i] == 'y' %}{% endif %}{% endfor %}",
        "{% set s = 'x' * 1000000 %}{% for i in range(90000) %}{% set x = s[-1] %}{% endfor %}",
        "{% set s = 'x' * 1000000 %}{{ s.strip(s)|length }}{{ s|trim(s)|length }}",
        "{% set s = 'x' * 1000000 %}{% for i in range(90000) %}{% for c in s %}{% break %}{% endfor %}{% endfor %}",
        "{% set s = 'x' * 1000000 %}{{ ([s] + ['y'] * 100000)|sort|length }}",
        "{% set s = range(90000)|list %}{% for i in range(90000) %}{{ s|sort|first }}{% endfor %}",
        "{% set s = range(90000)|list %}{{ s|select('in', s)|list|length }}",
        "{% set s = range(90000)|list %}{% for i in range(90000) %}{% if loop.changed(s ~ i) %}{% endif %}{% endfor %}",
        "{% macro m() %}{% macro n() %}{% endmacro %}{% endmacro %}{% for i in range(50000) %}{% macro k() %}{% endmacro %}{% endfor %}{% for i in range(50000) %}{{ m() }}{% endfor %}",
        "{% macro m(n) %}{% if n %}{% set x = m(n - 1) %}{% set x = m(n - 1) %}{% endif %}{% endmacro %}{% set x = m(20) %}{% for i in range(1000) %}{% set x = m(19) %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% do i.x %}{% endfor %}{% endfor %}",
    ] {
        refused(source);
    }
    // These are no error, but none takes long.
    for source in [
        "{{ 'a'.count('') }}",
        "{% for x in [1] %}{{ loop.cycle() }}{% endfor %}",
        "{{ [][::-1] }}{{ [1, 2][5:0:-1] }}{{ [1, 2, 3][0:2:-1] }}{{ ''[::-1] }}{{ 'abc'[-9223372036854775808:9223372036854775807:-9223372036854775808] }}",
        "{{ range(9223372036854775807, -9223372036854775808, -1) }}",
        "{{ range(-9223372036854775808, 9223372036854775807, 9223372036854775807) }}",
        "{{ (-9223372036854775808)|abs }}{{ -9223372036854775808 // -1 }}{{ 1 // 0 }}",
        "{{ 2 ** 100000 }}{{ 2 ** -1 }}{{ 0 ** 0 }}{{ 1 % 0 }}{{ 10 ** 38 * 10 }}",
        "{{ 'x'|round(2147483647) }}{{ 1.5|round(-2147483648) }}",
        "{{ 1.5|round(2147483647) }}",
        "{{ '{:99999}'.format(1) }}",
        "{{ '{0[0][0].a}'.format([[1]]) }}",
        "{{ super() }}{{ self.x() }}{{ loop(1) }}{{ caller() }}",
        "{% for x in [[1]] recursive %}{% set l = loop %}{{ l(x) }}{% endfor %}",
        "{% for x in [[1]] recursive %}{% set l = loop %}{% macro m(k) %}{{ k([1]) }}{% endmacro %}{{ m(l) }}{% endfor %}",
        "{% for x in [[1]] recursive %}{{ [loop]|map('call') }}{{ [loop, 1] }}{% endfor %}",
        "{{ messages[0].items() }}{{ messages[0].keys() }}{{ messages.append(1) }}",
        "{% set namespace = 1 %}{{ namespace }}{{ namespace() }}",
        "{% set messages = 1 %}{% set add_generation_prompt = messages %}{{ 1|bb_method('x') }}{{ 1|bb_item }}",
        "{{ 1|bb_kept|bb_turn|bb_macro|bb_slice(1, 2, 3)|bb_mul(3)|bb_concat(4)|bb_spread|bb_plain }}",
        "{{ [1]|bb_method }}",
        "{% autoescape true %}{{ '<' * 100000 }}{% endautoescape %}{% autoescape 'json' %}{{ [1, '\"'] }}{% endautoescape %}",
    ] {
        let _any = bounded(source, &message());
    }
}

/// Trees that would be too deep for the parser, and sources that it reads more than once.
#[test]
fn sources_are_bounded_before_they_are_parsed() {
    let many = |before: &str, part: &str, times: usize, after: &str| {
        format!("{before}{}{after}", part.repeat(times))
    };
    let shapes: Vec<(&str, &str, &str)> = vec![
        ("{{ ", "-", "1 }}"),
        ("{{ ", "not ", "1 }}"),
        ("{{ 1", " ~ 1", " }}"),
        ("{{ 1", " + 1", " }}"),
        ("{{ 1", " and 1", " }}"),
        ("{{ 1", " or 1", " }}"),
        ("{{ 1", "**1", " }}"),
        ("{{ 1", " < 1", " }}"),
        ("{{ 1", " in []", " }}"),
        ("{{ 1", " is string", " }}"),
        ("{{ a", "[0]", " }}"),
        ("{{ a", "[0:1]", " }}"),
        ("{{ a", ".b", " }}"),
        ("{{ a", ".b()", " }}"),
        ("{{ a", "()", " }}"),
        ("{{ a", "(1, 2)", " }}"),
        ("{{ a", "|int", " }}"),
        ("{{ a", "|default(1, 2)", " }}"),
        ("{{ ", "1 if 0 else ", "1 }}"),
        ("{{ ", "(", "1 }}"),
        ("{{ ", "[", "1 }}"),
        ("{{ ", "{1: ", "1 }}"),
        ("{{ ", "a(1, ", "1 }}"),
        ("{% if 0 %}", "{% elif 0 %}", "{% endif %}"),
        ("", "{% if 0 %}", ""),
        ("", "{% if 0 %}{% else %}", ""),
        ("", "{% for x in [] %}", ""),
        ("", "{% with a = 1 %}", ""),
        ("", "{% set a %}", ""),
        ("", "{% filter upper %}", ""),
        ("", "{% macro m() %}", ""),
        ("", "{% call m() %}", ""),
        ("", "{% autoescape true %}", ""),
        ("{% set ", "(", "a = 1 %}"),
        ("{% set a", ".b", " = 1 %}"),
        ("{% for ", "(", "a in [] %}{% endfor %}"),
        ("{% filter upper", "|upper", " %}{% endfilter %}"),
        ("{% set x", "|upper", " %}{% endset %}"),
        ("{% macro m(a=1", "|int", ") %}{% endmacro %}"),
        ("{% do a", ".b", "() %}"),
    ];
    for (before, part, after) in shapes {
        refused(&many(before, part, (60 << 10) / part.len() - 8, after));
        // The greatest chain that is read is not too deep for a small stack.
        let depths = [50, 90, 99, 100, 140, 150, 190, 199, 200];
        for times in depths {
            let closed = match part {
                "(" | "a(1, " => ")".repeat(times),
                "[" => "]".repeat(times),
                "{1: " => "}".repeat(times),
                _ => String::new(),
            };
            let ends = match part.split_whitespace().nth(1) {
                Some(name) if part.starts_with("{%") && before.is_empty() => {
                    format!("{{% end{name} %}}").repeat(times)
                }
                _ => String::new(),
            };
            let after = after.replacen("1 }}", &format!("1{closed} }}}}"), 1);
            let _any = bounded(&format!("{}{ends}", many(before, part, times, &after)), &message());
        }
    }
    for source in [
        "\n".repeat(61_000),
        " ".repeat(61_000),
        "{".repeat(61_000),
        "{{".repeat(30_000),
        "{#".repeat(30_000),
        "{% raw %}".repeat(6_500),
        "{{ '".repeat(15_000),
        format!("{{{{ f({}) }}}}", "1,".repeat(30_000)),
        format!("{{{{ [{}] }}}}", "1,".repeat(30_000)),
        format!("{{{{ {{{}}} }}}}", "1:1,".repeat(15_000)),
        format!("{{{{ {} }}}}", "9".repeat(61_000)),
        format!("{{% set {} = 1 %}}", "a,".repeat(30_000)),
        format!("{{% macro m({}) %}}{{% endmacro %}}{{{{ m() }}}}", "a,".repeat(30_000)),
        "{{ ('x' * 90000000)|length }}".repeat(1900),
        "{{ 'x' * 90000000 == 'x' * 90000000 }}".repeat(1500),
        "{{ 2 in [1] * 10000000000 }}".repeat(2000),
        "{% macro m() %}{{ a }}{% endmacro %}".repeat(1600),
        "{% if 0 %}{% elif 0 %}{% endif %}".repeat(1700),
    ] {
        let _any = bounded(&source, &message());
    }
}

/// Every filter, test, method and operator, on drawn values of all kinds, once and in loops.
#[test]
fn every_operation_on_every_value_is_bounded() {
    const VALUES: [&str; 11] = [
        "deep",
        "shared",
        "text",
        "numbers",
        "table",
        "messages",
        "ns",
        "[1] * 100000",
        "'é' * 1000000",
        "missing",
        "text.split('x')",
    ];
    let set = "{% set ns = namespace(d=[1], s=[1], t={}) %}\
        {% for i in range(50) %}{% set ns.d = [ns.d] %}{% endfor %}{% set deep = ns.d %}\
        {% for i in range(13) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{% set shared = ns.s %}\
        {% set text = 'xyz ' * 100000 %}{% set numbers = range(20000) %}\
        {% for i in range(60) %}{% set ns.t = dict(ns.t, **{'k' ~ i: 'v' * i}) %}{% endfor %}{% set table = ns.t %}\
        {% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}";
    let filters = [
        "abs",
        "attr('a')",
        "bool",
        "capitalize",
        "chain(B)",
        "count",
        "default(B)",
        "dictsort",
        "e",
        "first",
        "float",
        "groupby('role')",
        "indent(100000)",
        "indent(B)",
        "int",
        "items",
        "join",
        "join(B)",
        "last",
        "length",
        "lines",
        "list",
        "lower",
        "map('upper')",
        "map('string')",
        "map('join', B)",
        "map('default', B)",
        "map(attribute='a.b')",
        "map('replace', 'x', B)",
        "max",
        "min",
        "reject",
        "rejectattr('a')",
        "replace('x', B)",
        "replace(B, B)",
        "reverse",
        "round",
        "safe",
        "select",
        "select('in', B)",
        "select('eq', B)",
        "selectattr('role', 'eq', B)",
        "sort",
        "sort(attribute='a,b,c')",
        "split",
        "split('x')",
        "split(B)",
        "string",
        "sum",
        "title",
        "tojson",
        "tojson(indent=16)",
        "trim",
        "trim(B)",
        "unique",
        "upper",
        "zip(B)",
        "zip(B, B, B)",
        "batch(10000000, 1)",
        "slice(10000000)",
        "pprint",
        "format(B)",
        "urlencode",
    ];
    let tests = [
        "defined",
        "undefined",
        "none",
        "string",
        "mapping",
        "iterable",
        "sequence",
        "number",
        "true",
        "odd",
        "eq(B)",
        "ne(B)",
        "lt(B)",
        "ge(B)",
        "in(B)",
        "sameas(B)",
        "startingwith(B)",
        "endingwith(B)",
        "lower",
        "upper",
        "divisibleby(B)",
        "filter",
        "test",
        "escaped",
    ];
    let methods = [
        "upper()",
        "lower()",
        "islower()",
        "isspace()",
        "isdigit()",
        "isalnum()",
        "isascii()",
        "strip()",
        "strip(B)",
        "lstrip(B)",
        "rstrip(B)",
        "replace('x', B)",
        "replace(B, B, 10)",
        "title()",
        "split()",
        "split('x')",
        "split(B, 3)",
        "splitlines()",
        "splitlines(true)",
        "capitalize()",
        "count('x')",
        "count(B)",
        "count('')",
        "find(B)",
        "rfind(B)",
        "format(B)",
        "startswith(B)",
        "endswith(B)",
        "join(B)",
        "keys()",
        "values()",
        "items()",
        "get(B)",
        "get('a', B)",
        "append(B)",
        "a(B)",
    ];
    let operators = [
        "A + B",
        "A ~ B",
        "A * 1000",
        "1000000 * A",
        "A - B",
        "A / B",
        "A // B",
        "A % B",
        "A ** B",
        "A == B",
        "A != B",
        "A < B",
        "A >= B",
        "A in B",
        "A not in B",
        "A and B",
        "A or B",
        "not A",
        "-A",
        "A[B]",
        "A[0]",
        "A[-1]",
        "A[1:]",
        "A[::-1]",
        "A[::3]",
        "A[B:B]",
        "A.a",
        "[A, B]",
        "{'a': A, 'b': B}",
        "{A: B}",
        "A if B else A",
        "A < B < A",
        "range(A)",
        "dict(A)",
        "dict(a=A)",
        "dict(**A)",
        "namespace(a=A)",
        "namespace(A)",
        "range(*A)",
        "m(A)",
        "m(*A)",
        "m(a=A, b=B)",
        "m(**A)",
        "raise_exception(A)",
        "strftime_now(A)",
        "'{}{}'.format(A, B)",
        "A is in(B)",
        "'{:9999}'.format(A) * 100",
        "'{0}{0}{0}{0}'.format(A)",
        "loop",
        "A()",
    ];
    let mut expressions: Vec<String> = Vec::new();
    expressions.extend(filters.iter().map(|filter| format!("(A)|{filter}")));
    expressions.extend(tests.iter().map(|test| format!("(A) is {test}")));
    expressions.extend(methods.iter().map(|method| format!("(A).{method}")));
    expressions.extend(operators.iter().map(|operator| (*operator).to_owned()));
    let messages: Vec<Message> = (0..100).map(|i| Message::new("user", "word ".repeat(i % 50))).collect();
    let mut random = 88_172_645_463_325_252_u64;
    let mut slowest = (Duration::ZERO, String::new());
    for expression in &expressions {
        for a in VALUES {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Half of the pairs are enough for a build without optimisation.
            if (random >> 48).is_multiple_of(2) {
                continue;
            }
            let b = VALUES.get((random % 11) as usize).copied().unwrap_or_default();
            let expression = expression.replace('A', a).replace('B', b);
            let body = match (random >> 32) % 12 {
                4..=7 => format!("{{{{ {expression} }}}}"),
                1 => format!("{{% for i in range(9000) %}}{{% set x = {expression} %}}{{% endfor %}}"),
                2 => format!("{{% for x in {expression} %}}{{{{ x }}}}{{% endfor %}}"),
                3 => {
                    format!("{{% for i in range(9000) %}}{{% if {expression} %}}y{{% endif %}}{{% endfor %}}")
                }
                _ => format!(
                    "{{% set ns.x = {expression} %}}{{% set y %}}{{{{ ns.x }}}}{{{{ ns }}}}{{% endset %}}{{{{ y|tojson|length }}}}"
                ),
            };
            let source = format!("{set}{body}");
            let start = Instant::now();
            let _any = bounded(&source, &messages);
            if start.elapsed() > slowest.0 {
                slowest = (start.elapsed(), body);
            }
        }
    }
    println!("{slowest:?}");
}

/// Twice the input takes about twice the memory and time, or is refused.
#[test]
fn doubling_an_input_doubles_the_work_at_most() {
    let template = "{% for m in messages %}{{ '<' + m.role + '>' + m.content | trim + '</>' }}{% if '</x>' in m.content %}\
        {{ m.content.split('</x>')[-1].lstrip() }}{% endif %}{% endfor %}";
    for kind in [1, 1000] {
        for doubling in 10..=24 {
            let size = 1usize << doubling;
            let messages: Vec<Message> =
                (0..kind).map(|_| Message::new("user", "word ".repeat(size / kind / 5))).collect();
            let text = bounded(template, &messages).unwrap();
            assert!(text.len() >= size.saturating_sub(6 * kind));
        }
    }
    for shape in [
        "{% set x = 'x' * N %}{{ x|length }}",
        "{% set x = [1] * N %}{{ x|tojson|length }}",
        "{% set x = range(N) %}{{ x|sort|join|length }}",
        "{% set x = ('x ' * N).split() %}{{ x|unique|list|length }}",
        "{% for i in range(N) %}{% for j in range(N) %}{{ i }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(N) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x={}) %}{% for i in range(N) %}{% set ns.x = dict(ns.x, **{i ~ '': i}) %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x='') %}{% for i in range(N) %}{% set ns.x = ns.x ~ i %}{% endfor %}{{ ns.x|length }}",
        "{{ ('x' * N).replace('', 'yyyyyyyy')|length }}",
    ] {
        for doubling in 0..34 {
            let result = bounded(&shape.replace('N', &(1u64 << doubling).to_string()), &message());
            if result.is_err() {
                break;
            }
        }
    }
}

/// The deadline of the caller ends a rendering.
#[test]
fn deadlines_end_renderings() {
    let template = ChatTemplate::new(
        "{% for i in range(99999) %}{% for j in range(30) %}{% endfor %}{% endfor %}",
        "",
        "",
    )
    .unwrap();
    let late = bb::RunOptions::default().with_deadline(Instant::now());
    let result = late.within(|| template.render(&message(), true));
    assert!(matches!(result, Err(Error::Model { source: bb::Error::DeadlineExceeded })), "{result:?}");
}
