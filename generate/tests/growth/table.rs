//! The bounds of memory that `limits.md` gives for each kind of input.

/// The bounds of a kind of input, from its row in the table of `limits.md`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of memory for each byte of the input.
    pub(crate) factor: usize,
    /// Bytes of memory besides.
    pub(crate) base: usize,
}

/// Reads the row of a kind of input.
pub(crate) fn bounds(input: &str) -> Bounds {
    const PAGE: &str = include_str!("../../../bb/docs/limits.md");
    let table = PAGE.split("## Inputs of strangers").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let row = rows
        .into_iter()
        .find(|cells| cells.get(1) == Some(&input))
        .unwrap_or_else(|| panic!("no row for {input}"));
    let mib = row[3].strip_suffix(" MiB").unwrap_or_else(|| panic!("{row:?}"));
    Bounds { factor: row[2].parse().unwrap(), base: mib.parse::<usize>().unwrap() << 20 }
}
