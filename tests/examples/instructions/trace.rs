//! Counts the instructions of a trace that QEMU writes for a 64-bit ARM program: `trace < LOG`.
//!
//! `qemu-aarch64 -d nochain,exec,in_asm` lists the instructions of each block when it is translated, and then a line each time the block
//! runs. Four numbers are printed: instructions, loads, stores, and multiplications of vectors that add. `bash tests/instructions aarch64`
//! compiles this file separately, because it runs on the host and not in the emulator.

use std::collections::HashMap;
use std::io::BufRead;

/// Instructions, loads, stores, and multiplications of vectors that add.
type Counts = [u64; 4];

fn main() {
    let mut log = std::io::BufReader::with_capacity(1 << 20, std::io::stdin().lock());
    // The blocks by their first address, and how often each ran.
    let mut blocks: HashMap<u64, (Counts, u64)> = HashMap::new();
    let mut totals = Counts::default();
    let mut line = Vec::new();
    // The block that is being listed.
    let mut listed: Option<(u64, Counts)> = None;
    loop {
        line.clear();
        let read = log.read_until(b'\n', &mut line).expect("a log");
        if read == 0 {
            break;
        }
        if line.starts_with(b"IN:") {
            // Another thread may have listed a block that did not run yet.
            if let Some((first, counts)) = listed.take() {
                let before = blocks.insert(first, (counts, 0));
                add(&mut totals, before);
            }
        } else if line.starts_with(b"Trace ") {
            // `Trace 0: 0xHOST [BASE/ADDRESS/FLAGS/…]`
            let address = line.split(|&byte| byte == b'/').nth(1).and_then(hexadecimal).expect("an address");
            if let Some((first, counts)) = listed.take() {
                let before = blocks.insert(first, (counts, 0));
                add(&mut totals, before);
            }
            if let Some((_, times)) = blocks.get_mut(&address) {
                *times += 1;
            }
        } else if let Some(rest) = line.strip_prefix(b"0x") {
            // `0xADDRESS:  WORD  DISASSEMBLY`
            let mut fields =
                rest.split(|&byte| byte == b' ' || byte == b':').filter(|field| !field.is_empty());
            let address = fields.next().and_then(hexadecimal).expect("an address");
            let word = fields.next().and_then(hexadecimal).expect("an instruction") as u32;
            let (_, counts) = listed.get_or_insert((address, Counts::default()));
            for (count, more) in counts.iter_mut().zip(classes(word)) {
                *count += more;
            }
        }
    }
    blocks.into_values().for_each(|block| add(&mut totals, Some(block)));
    let [instructions, loads, stores, multiplications] = totals;
    println!("{instructions} {loads} {stores} {multiplications}");
}

/// Adds the counts of a block.
fn add(totals: &mut Counts, block: Option<(Counts, u64)>) {
    let Some((counts, times)) = block else { return };
    for (total, count) in totals.iter_mut().zip(counts) {
        *total += count * times;
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, &digit| Some(number << 4 | u64::from((digit as char).to_digit(16)?)))
}

/// Returns the counts of one instruction. Source: the encoding index of the Arm Architecture Reference Manual, A64.
fn classes(word: u32) -> Counts {
    [1, is_load(word).into(), is_store(word).into(), multiplies(word).into()]
}

/// Returns whether bits 25 to 28 mean a load or a store, `x1x0`, and the instruction is no prefetch.
fn in_memory(word: u32) -> bool {
    let is_prefetch = word & 0xffc0_0000 == 0xf980_0000 // with a distance that is a multiple
        || word & 0xffe0_0c00 == 0xf880_0000 // with any distance
        || word & 0xffe0_0c00 == 0xf8a0_0800 // with a register
        || word & 0xff00_0000 == 0xd800_0000; // from a label
    word & 0x0a00_0000 == 0x0800_0000 && !is_prefetch
}

fn is_load(word: u32) -> bool {
    if !in_memory(word) {
        return false;
    }
    // Single registers have two bits that tell the direction, all others one; literals are always loaded.
    let is_literal = word & 0x3b00_0000 == 0x1800_0000;
    let is_single = word & 0x3a00_0000 == 0x3800_0000;
    let is_vector = word & 0x0400_0000 != 0;
    is_literal
        || match (is_single, is_vector) {
            (true, false) => word & 0x00c0_0000 != 0,
            _ => word & 0x0040_0000 != 0,
        }
}

fn is_store(word: u32) -> bool {
    in_memory(word) && !is_load(word)
}

/// Returns whether the instruction adds products of vectors: of floats, of integers, by an element or not, as dot products and as products
/// of matrices.
fn multiplies(word: u32) -> bool {
    const KINDS: &[(u32, u32)] = &[
        (0xbfa0_fc00, 0x0e20_cc00), // fmla
        (0xbf80_f400, 0x0f80_1000), // fmla by an element
        (0xbf20_fc00, 0x0e20_9400), // mla
        (0xbf00_f400, 0x2f00_0000), // mla by an element
        (0x9f20_fc00, 0x0e20_8000), // smlal, umlal
        (0x9f00_f400, 0x0f00_2000), // smlal, umlal by an element
        (0x9f20_fc00, 0x0e20_c000), // smull, umull
        (0x9f20_fc00, 0x0e00_9400), // sdot, udot
        (0xbf20_fc00, 0x0e00_9c00), // usdot
        (0x9f00_f400, 0x0f00_e000), // sdot, udot by an element
        (0xbf00_f400, 0x0f00_f000), // usdot, sudot by an element
        (0xdfe0_f400, 0x4e80_a400), // smmla, ummla, usmmla
        (0xbf20_fc00, 0x0e20_9c00), // mul
        (0xffa0_8000, 0x1f00_0000), // fmadd
    ];
    KINDS.iter().any(|&(mask, bits)| word & mask == bits)
}
