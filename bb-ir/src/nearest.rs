//! Suggests a known name for a name that is probably misspelled.

/// Returns the known name that is most similar to `name`; `None` if no name is similar.
///
/// Two names are similar if one contains the other, or if the number of edits that turn one into the other is small for their
/// length. An edit is an insertion, a deletion, a replacement or a swap of neighbours (optimal string alignment).
/// Case is ignored.
///
/// # Examples
///
/// ```
/// use bb_ir::nearest;
/// assert_eq!(nearest("Rleu", ["Relu", "Add"]), Some("Relu"));
/// assert_eq!(nearest("ids", ["mask", "input_ids"]), Some("input_ids"));
/// assert_eq!(nearest("x", ["a", "b"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Only the first characters are compared, because users do not type longer names, and the time is
    // proportional to the product of the lengths.
    const LONGEST: usize = 256;
    /// The maximum number of known names that are compared.
    const MOST: usize = 4096;
    let lower = |text: &str| -> Vec<char> { text.to_lowercase().chars().take(LONGEST).collect() };
    let wanted = lower(name);
    let alike = known.into_iter().take(MOST).filter_map(|candidate| {
        let other = lower(candidate);
        let most = (wanted.len().max(other.len()) / 3).min(4);
        let distance = distance(&wanted, &other);
        let contains = |a: &[char], b: &[char]| b.len() > 2 && a.windows(b.len()).any(|part| part == b);
        if distance <= most {
            Some((distance, candidate))
        } else {
            (contains(&other, &wanted) || contains(&wanted, &other)).then_some((most + distance, candidate))
        }
    });
    alike.min().map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, &x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        let mut left = i + 1;
        let mut y_before = None;
        for (j, (&y, around)) in b.iter().zip(last.windows(2)).enumerate() {
            let &[diagonal, above] = around else { continue };
            let mut least = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            let swapped = previous == Some(y) && y_before == Some(x);
            if let (true, Some(before)) = (swapped, j.checked_sub(1).and_then(|j| before_last.get(j))) {
                least = least.min(before + 1);
            }
            row.push(least);
            left = least;
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
    fn distances_count_edits() {
        let distance = |a: &str, b: &str| {
            super::distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("abcd", "acbd"), 1);
        assert_eq!(distance("sitting", "kitten"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("ca", "ac"), 1);
        assert_eq!(distance("input", "inptu"), 1);
    }

    #[test]
    fn a_name_within_few_edits_is_suggested() {
        let names = ["Relu", "LeakyRelu", "Reshape", "Elu"];
        assert_eq!(nearest("Rellu", names), Some("Relu"));
        assert_eq!(nearest("relu", names), Some("Relu"));
        assert_eq!(nearest("Rehsape", names), Some("Reshape"));
        assert_eq!(nearest("Convolution", names), None);
        assert_eq!(nearest("", names), None);
        // Case is ignored.
        assert_eq!(nearest("ADD", ["Adds", "Add"]), Some("Add"));
    }

    #[test]
    fn a_dissimilar_name_is_not_suggested() {
        assert_eq!(nearest("attention_mask", ["input_ids", "position_ids"]), None);
        assert_eq!(nearest("softmax", ["Softmax", "LogSoftmax"]), Some("Softmax"));
        assert_eq!(nearest("", ["a"]), None);
        assert_eq!(nearest("z", []), None);
    }
}
