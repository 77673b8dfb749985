//! Suggests a known name for a misspelt name, for error messages.

/// Returns ` (did you mean …?)` if a known name is similar; otherwise, an empty string.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |other| format!(" (did you mean `{other}`?)"))
}

/// Returns the known name that is most similar; `None` if no name is similar.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|other| (distance(name, other), other));
    let near = near.filter(|(edits, other)| *edits <= (name.len().max(other.len()) / 3).max(1));
    near.min().map(|(_, other)| other)
}

/// Returns the number of insertions, deletions, replacements and swaps of adjacent characters that turn one name into
/// the other.
fn distance(a: &str, b: &str) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.chars().count()).collect();
    let mut previous = None;
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        let mut y_before = None;
        for ((y, around), j) in b.chars().zip(last.windows(2)).zip(0usize..) {
            let &[diagonal, above] = around else { continue };
            let left = row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut least = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            let swapped = previous == Some(y) && y_before == Some(x);
            if let (true, Some(before)) = (swapped, j.checked_sub(1).and_then(|j| before_last.get(j))) {
                least = least.min(before + 1);
            }
            row.push(least);
            y_before = Some(y);
        }
        before_last = std::mem::replace(&mut last, row);
        previous = Some(x);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_edits_away_is_meant() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(did_you_mean("treads", ["device", "threads"]), " (did you mean `threads`?)");
        assert_eq!(distance("nmae", "name"), 1);
        assert_eq!(did_you_mean("nmae", ["new", "name"]), " (did you mean `name`?)");
        assert_eq!(did_you_mean("x", ["device", "threads"]), "");
    }
}
