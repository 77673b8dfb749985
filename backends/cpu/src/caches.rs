//! The size of the second-level cache, which determines the block sizes of kernels.
//!
//! The processor is queried first, then the system. Block sizes never change the order of additions, so that results do not depend on the
//! cache size.

use std::sync::OnceLock;

/// The assumed cache size in bytes if neither the processor nor the system reports it.
const USUAL: usize = 1 << 20;

/// The minimum and the maximum cache size in bytes that kernels assume.
const BOUNDS: [usize; 2] = [1 << 18, 1 << 22];

/// Returns the size in bytes of the second-level cache that is available to one thread.
pub(crate) fn second_level() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    #[cfg(test)]
    if let Some(simulated) = SIMULATED.get() {
        return simulated;
    }
    let [least, most] = BOUNDS;
    *FOUND.get_or_init(|| processor().or_else(system).unwrap_or(USUAL).clamp(least, most))
}

/// Queries the processor for the cache size of one core.
#[cfg(target_arch = "x86_64")]
fn processor() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
    let size = |CpuidResult { eax, ebx, ecx, .. }: CpuidResult| {
        let field =
            |register: u32, from: u32, bits: u32| ((register >> from) & ((1 << bits) - 1)) as usize + 1;
        let lines = field(ebx, 22, 10) * field(ebx, 12, 10) * (ecx as usize + 1);
        // The processor reports the number of threads that share the cache, rounded up to a power of two. Two of these threads belong to
        // one core, and only one of the two has long work at a time.
        let cores = field(eax, 14, 12).div_ceil(2);
        lines * field(ebx, 0, 12) / cores
    };
    // AMD describes caches in the same format as Intel, but in another leaf; a feature bit reports whether that leaf exists.
    let is_told = __cpuid(0x8000_0000).eax >= 0x8000_001d && __cpuid(0x8000_0001).ecx >> 22 & 1 == 1;
    let leaf = match (is_told, __cpuid(0).eax >= 4) {
        (true, _) => 0x8000_001d,
        (false, true) => 4,
        (false, false) => return None,
    };
    let caches = (0..8).map(|i| __cpuid_count(leaf, i)).take_while(|cache| cache.eax & 0x1f != 0);
    // Bits 0 to 4 are 2 for an instruction cache, and bits 5 to 7 are the cache level.
    caches.filter(|cache| cache.eax & 0x1f != 2 && cache.eax >> 5 & 7 == 2).map(size).find(|&size| size > 0)
}

/// Returns `None`, because these processors do not report the size.
#[cfg(not(target_arch = "x86_64"))]
fn processor() -> Option<usize> {
    None
}

/// Queries the operating system for the cache size of one core.
fn system() -> Option<usize> {
    let of = |i: usize, what: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}")).ok()
    };
    let index = (0..8).find(|&i| of(i, "level").is_some_and(|level| level.trim() == "2"))?;
    let sharing = of(index, "shared_cpu_list").map_or(1, |list| processors(&list));
    Some(bytes(&of(index, "size")?)? / sharing.div_ceil(2))
}

/// Parses a size in Linux's format, for example `512K`.
fn bytes(size: &str) -> Option<usize> {
    let size = size.trim();
    let (number, unit) = match size.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => size.strip_suffix('M').map_or((size, 1), |number| (number, 1 << 20)),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// Counts the processors in a list in Linux's format, for example `0-3,8`. Returns at least 1.
fn processors(list: &str) -> usize {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').filter_map(count).sum::<usize>().max(1)
}

#[cfg(test)]
thread_local! {
    static SIMULATED: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Runs `f` while [`second_level`] returns `bytes` on this thread.
#[cfg(test)]
pub(crate) fn simulated<R>(bytes: usize, f: impl FnOnce() -> R) -> R {
    let before = SIMULATED.replace(Some(bytes));
    let result = f();
    SIMULATED.set(before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_writes_is_read() {
        assert_eq!(bytes("512K\n"), Some(512 << 10));
        assert_eq!(bytes("2M"), Some(2 << 20));
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("much"), None);
        assert_eq!([processors("0\n"), processors("0-3,8"), processors("")], [1, 5, 1]);
    }

    #[test]
    fn the_size_is_one_that_kernels_count_on() {
        let [least, most] = BOUNDS;
        assert!((least..=most).contains(&second_level()));
        assert_eq!(simulated(1 << 19, second_level), 1 << 19);
        if let Some(size) = processor() {
            assert!(size.is_multiple_of(64), "{size}");
        }
    }
}
