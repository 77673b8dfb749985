//! What to do about an operator that nothing runs.

use bb_ir::opset::{Presence, names, presence};
use std::fmt;

/// Why nothing runs an operator of a domain, and the cure.
pub(crate) struct Advice<'a> {
    pub(crate) domain: &'a str,
    pub(crate) op: &'a str,
    pub(crate) opset: i64,
}

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Advice { domain, op, opset } = *self;
        let title = title(domain);
        match presence(domain, op, opset) {
            Presence::NotYet { since } => write!(f, "`{title}` has it from opset {since} on")?,
            Presence::Gone { since } => write!(f, "`{title}` took it away with opset {since}")?,
            Presence::There => f.write_str("there is no function for it")?,
            Presence::Foreign if !known(domain).any(|_| true) => {
                f.write_str("no operator of the domain is known")?
            }
            _ => write!(f, "`{title}` has no such operator")?,
        }
        if let Some(near) = nearest(op, known(domain).filter(|name| *name != op)) {
            write!(f, "; the nearest name is `{near}`")?;
        }
        write!(f, "; bind a component to it: `.component(\"{title}\", \"{op}\", …)`")
    }
}

/// The operators of a domain, as ONNX or `bb` has them.
fn known(domain: &str) -> impl Iterator<Item = &'static str> {
    let own = crate::onnx::operators().filter(move |o| o.domain == domain).map(|o| o.name);
    names(domain).chain(own)
}

/// A domain as users write it: ONNX's own is `ai.onnx`.
pub(crate) fn title(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// Finds what a name was probably meant to be: that of the candidates which the fewest changes lead to, if they are few.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let least = |best: Option<(usize, &'a str)>, candidate: &'a str| {
        let changes = changes(name, candidate);
        match best {
            Some((fewest, _)) if fewest <= changes => best,
            _ => Some((changes, candidate)),
        }
    };
    let (changes, nearest) = candidates.into_iter().fold(None, least)?;
    (changes <= name.chars().count().div_ceil(3)).then_some(nearest)
}

/// Counts the letters to insert, remove, replace or swap with their neighbour between two names; case does not count.
/// Source: Damerau's distance, restricted to swaps of what was not changed before.
fn changes(a: &str, b: &str) -> usize {
    let [a, b]: [Vec<char>; 2] = [a, b].map(|text| text.chars().flat_map(char::to_lowercase).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let at = |row: &[usize], i: usize| row.get(i).copied().unwrap_or(usize::MAX / 2);
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = at(&last, j) + usize::from(x != y);
            let shifted = at(&last, j + 1).min(at(&row, j)) + 1;
            let swaps = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            let swapped = if swaps { at(&before, j - 1) + 1 } else { usize::MAX };
            row.push(replaced.min(shifted).min(swapped));
        }
        before = std::mem::replace(&mut last, row);
    }
    at(&last, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_few_changes_lead_to() {
        let names = ["Relu", "LeakyRelu", "Reshape", "Elu"];
        assert_eq!(nearest("Rellu", names), Some("Relu"));
        assert_eq!(nearest("relu", names), Some("Relu"));
        assert_eq!(nearest("Rehsape", names), Some("Reshape"));
        assert_eq!(nearest("Convolution", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn changes_are_counted() {
        for (a, b, want) in [("kitten", "sitting", 3), ("", "abc", 3), ("ab", "ba", 1), ("Add", "add", 0)] {
            assert_eq!(changes(a, b), want, "{a} {b}");
            assert_eq!(changes(b, a), want, "{b} {a}");
        }
    }

    #[test]
    fn advice_says_which_opset_has_it_what_was_meant_and_what_to_bind() {
        let say = |domain, op, opset| Advice { domain, op, opset }.to_string();
        let bind = |domain: &str, op: &str| {
            format!("bind a component to it: `.component(\"{domain}\", \"{op}\", …)`")
        };
        assert_eq!(
            say("", "Rellu", 17),
            format!(
                "`ai.onnx` has no such operator; the nearest name is `Relu`; {}",
                bind("ai.onnx", "Rellu")
            )
        );
        let text = say("", "Gelu", 17);
        assert!(text.starts_with("`ai.onnx` has it from opset 20 on; "), "{text}");
        let text = say("", "Upsample", 13);
        assert!(text.starts_with("`ai.onnx` took it away with opset 10"), "{text}");
        let text = say("com.microsoft", "FusedMatMull", 1);
        assert!(text.contains("the nearest name is `FusedMatMul`"), "{text}");
        assert_eq!(
            say("com.example", "Foo", 1),
            format!("no operator of the domain is known; {}", bind("com.example", "Foo"))
        );
    }
}
