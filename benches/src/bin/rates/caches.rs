//! How much of each cache is read.

/// Returns the bytes to read of each cache, a half of it, and of memory, several times the last cache.
pub(crate) fn sizes() -> Vec<(&'static str, usize)> {
    let sizes = [found(1).unwrap_or(32 << 10), found(2).unwrap_or(1 << 20), found(3).unwrap_or(32 << 20)];
    let [first, second, third] = sizes;
    vec![("L1", first / 2), ("L2", second / 2), ("L3", third / 2), ("memory", (4 * third).max(1 << 28))]
}

/// Returns the size of a cache of data, where Linux tells it.
fn found(level: u32) -> Option<usize> {
    let of = |i: usize, what: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}")).ok()
    };
    let is_it = |&i: &usize| {
        of(i, "level").is_some_and(|found| found.trim() == level.to_string())
            && of(i, "type").is_some_and(|kind| kind.trim() != "Instruction")
    };
    let size = of((0..8).find(is_it)?, "size")?;
    let size = size.trim();
    let (number, unit) = match size.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => size.strip_suffix('M').map_or((size, 1), |number| (number, 1 << 20)),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}
