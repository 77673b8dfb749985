use super::*;

fn refused(pattern: &str) -> String {
    parsed(pattern).err().unwrap_or_default()
}

/// RE2 refuses these patterns, too. `bb/patterns/tests/re2.rs` tests many more.
#[test]
fn errors_say_where_the_trouble_is() {
    for (pattern, expected) in [
        ("(", "a `(` is not closed"),
        ("a)", "a `)` closes no group"),
        ("[a", "a `[` is not closed"),
        ("*", "`*` has nothing to repeat"),
        ("a**", "`**` repeats a repetition"),
        ("a{1001}", "`{1001}` is no count: at most 1000, the smaller one first"),
        ("(a{50}){50}", "`{50}` makes 2500 repetitions together, expected at most 1000"),
        ("(?=a)", "`(?=` is not served"),
        (r"\1", r"`\1` is no escape"),
        (r"\u0041", r"`\u0041` is no escape"),
        ("(?x)a", "`(?x)a` sets no flags"),
        ("[a--b]", "the range `a--` is empty"),
        (r"\p{Cn}", r"`\p{Cn}` is no class"),
        ("[[:letter:]]", "`[:letter:]` is no class"),
        ("(?P<a b>c)", "`(?P<a b>c)` names no group"),
        (r"a\", "it ends with a backslash"),
    ] {
        assert_eq!(refused(pattern), expected, "{pattern}");
    }
}

/// RE2 accepts deeply nested patterns. Here they would overflow the stack, so they are refused.
#[test]
fn deep_patterns_are_refused_and_groups_alone_are_not_deep() {
    let nested = |depth: usize, end: &str| format!("{}a{}", "(".repeat(depth), end.repeat(depth));
    assert_eq!(refused(&nested(100_000, ")")), "");
    assert_eq!(refused(&nested(DEPTH as usize, ")*")), "");
    assert_eq!(refused(&nested(100_000, ")*")), "it is nested deeper than 250");
    assert_eq!(refused(&nested(100_000, "|b)")), "it is nested deeper than 250");
}

#[test]
fn large_classes_are_refused() {
    assert_eq!(refused(&r"\pL".repeat(20_000)), "its classes are too large");
}
