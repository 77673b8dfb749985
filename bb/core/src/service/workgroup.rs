//! Reads the size of a kernel's workgroup from its source.

use super::{KernelSource, UserKernel};

/// Returns the number of invocations of a workgroup in each direction, if the source of a kernel specifies constant
/// numbers.
///
/// A Rust function has no workgroup. In WGSL, sizes that are named constants are not resolved.
pub(super) fn workgroup(kernel: &UserKernel) -> Option<[u32; 3]> {
    match &kernel.source {
        KernelSource::Wgsl(text) => of_wgsl(text, &kernel.entry),
        KernelSource::SpirV(module) => of_spirv(module, &kernel.entry),
        KernelSource::Host(_) => None,
    }
}

/// Reads the attribute `@workgroup_size` of a WGSL function.
fn of_wgsl(text: &str, entry: &str) -> Option<[u32; 3]> {
    let text = without_comments(text);
    let mut from = 0;
    // The attributes of a function are before its `fn` keyword, after the end of the preceding item.
    while let Some(at) = text.get(from..)?.find("fn").map(|at| at + from) {
        from = at + 2;
        let before = text.get(..at)?;
        let after = text.get(from..)?;
        let word =
            before.chars().next_back().is_none_or(|c| !is_name(c)) && after.starts_with(char::is_whitespace);
        let name: String = after.trim_start().chars().take_while(|c| is_name(*c)).collect();
        if !word || name != entry {
            continue;
        }
        let start = before.rfind(['}', ';']).map_or(0, |at| at + 1);
        let attributes = before.get(start..)?;
        let (_, size) = attributes.rsplit_once("@workgroup_size")?;
        let (numbers, _) = size.trim_start().strip_prefix('(')?.split_once(')')?;
        let mut sizes = [1; 3];
        let numbers: Vec<&str> =
            numbers.split(',').map(str::trim).filter(|number| !number.is_empty()).collect();
        if numbers.is_empty() || numbers.len() > sizes.len() {
            return None;
        }
        for (place, number) in sizes.iter_mut().zip(numbers) {
            *place = number.trim_end_matches(['u', 'i']).parse().ok()?;
        }
        return Some(sizes);
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Removes comments from WGSL source. Block comments may be nested.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut depth, mut line) = (0usize, false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\n', _) if line => {
                line = false;
                kept.push('\n');
            }
            _ if line => {}
            ('/', Some('*')) => {
                rest.next();
                depth += 1;
            }
            ('*', Some('/')) if depth > 0 => {
                rest.next();
                depth -= 1;
                kept.push(' ');
            }
            _ if depth > 0 => {}
            ('/', Some('/')) => line = true,
            _ => kept.push(c),
        }
    }
    kept
}

/// Reads the execution mode `LocalSize` of an entry point from a SPIR-V module.
///
/// Source: SPIR-V specification, sections 2.3 (layout of a module) and 3.32.6 (`OpEntryPoint`, `OpExecutionMode`).
fn of_spirv(module: &[u8], entry: &str) -> Option<[u32; 3]> {
    const ENTRY_POINT: u32 = 15;
    const EXECUTION_MODE: u32 = 16;
    const LOCAL_SIZE: u32 = 17;
    let (bytes, _) = module.as_chunks::<4>();
    let little = u32::from_le_bytes(*bytes.first()?) == super::check::SPIRV_MAGIC;
    let words: Vec<u32> = bytes
        .iter()
        .map(|word| if little { u32::from_le_bytes(*word) } else { u32::from_be_bytes(*word) })
        .collect();
    let (mut at, mut function, mut sizes) = (5, None, Vec::new());
    while let Some(first) = words.get(at) {
        let (length, code) = ((first >> 16) as usize, first & 0xffff);
        let instruction = words.get(at..at.checked_add(length.max(1))?)?;
        match (code, instruction) {
            (ENTRY_POINT, [_, _model, id, name @ ..]) => {
                let text: Vec<u8> =
                    name.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
                if text == entry.as_bytes() {
                    function = Some(*id);
                }
            }
            (EXECUTION_MODE, &[_, id, LOCAL_SIZE, x, y, z]) => sizes.push((id, [x, y, z])),
            _ => {}
        }
        at += length.max(1);
    }
    let function = function?;
    sizes.into_iter().find(|(id, _)| *id == function).map(|(_, size)| size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wgsl(text: &str) -> Option<[u32; 3]> {
        workgroup(&UserKernel::new("k", KernelSource::Wgsl(text.to_owned()), 1, 1))
    }

    #[test]
    fn a_size_in_numbers_is_read_of_the_entry_point() {
        assert_eq!(wgsl("@compute @workgroup_size(64) fn main() {}"), Some([64, 1, 1]));
        assert_eq!(wgsl("@workgroup_size(8u, 4,)\n@compute\nfn main() {}"), Some([8, 4, 1]));
        let two = "@compute @workgroup_size(2) fn other() {}\n@compute @workgroup_size(1, 2, 3) fn main() {}";
        assert_eq!(wgsl(two), Some([1, 2, 3]));
        assert_eq!(wgsl("fn main2() {} @compute @workgroup_size(7) fn main() {}"), Some([7, 1, 1]));
        assert_eq!(
            wgsl("/* @workgroup_size(9) /* */ fn main() */ @compute @workgroup_size(5) fn main() {}"),
            Some([5, 1, 1])
        );
        assert_eq!(wgsl("@compute @workgroup_size(SIZE) fn main() {}"), None);
        assert_eq!(wgsl("@compute @workgroup_size(1, 2, 3, 4) fn main() {}"), None);
        assert_eq!(wgsl("fn helper() {}"), None);
        assert_eq!(wgsl(""), None);
    }

    #[test]
    fn a_module_says_it_in_either_byte_order() {
        let name = u32::from_le_bytes(*b"main");
        let words = [
            [super::super::check::SPIRV_MAGIC, 0x0001_0000, 0, 9, 0].to_vec(),
            vec![5 << 16 | 15, 5, 7, name, 0],
            vec![6 << 16 | 16, 8, 17, 1, 1, 1],
            vec![6 << 16 | 16, 7, 17, 16, 2, 1],
        ]
        .concat();
        for bytes in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
            let module: Vec<u8> = words.iter().flat_map(|word| bytes(*word)).collect();
            let kernel = |module: Vec<u8>| UserKernel::new("k", KernelSource::SpirV(module), 1, 1);
            assert_eq!(workgroup(&kernel(module.clone())), Some([16, 2, 1]));
            assert_eq!(workgroup(&kernel(module.clone()).with_entry("other")), None);
            // The search must end without a panic if the module is truncated or an instruction has the length 0.
            for end in 0..module.len() {
                let _nothing = workgroup(&kernel(module.iter().copied().take(end).collect()));
            }
        }
    }
}
