//! Finds the known name that a misspelt one was probably meant to be, for messages.

/// Writes `; did you mean …?` if a known name is alike, else nothing.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = known.into_iter().map(|other| (distance(name, other), other));
    let near = near.filter(|(edits, other)| *edits <= (name.len().max(other.len()) / 3).max(1));
    near.min().map_or_else(String::new, |(_, other)| format!("; did you mean `{other}`?"))
}

/// Returns the number of insertions, deletions and replacements that turn one name into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut last: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for ((y, around), left) in b.chars().zip(last.windows(2)).zip(0..) {
            let &[diagonal, above] = around else { continue };
            let left = row.get(left).copied().unwrap_or(usize::MAX - 1);
            row.push((diagonal + usize::from(x != y)).min(above + 1).min(left + 1));
        }
        last = row;
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_edits_away_is_meant() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(did_you_mean("treads", ["device", "threads"]), "; did you mean `threads`?");
        assert_eq!(did_you_mean("x", ["device", "threads"]), "");
    }
}
