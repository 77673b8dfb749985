//! Draws numbers, shapes and tensors from the bytes that the fuzzer gives.

use bb::{DataType, TensorData};

/// A source of choices: first the given bytes, then a generator that they seed.
///
/// So every input is a long one, and the fuzzer's changes to the first bytes are changes to the first choices.
#[derive(Debug)]
pub struct Draw<'a> {
    bytes: &'a [u8],
    /// The state of SplitMix64 (Steele, Lea, Flood 2014).
    state: u64,
}

/// Integers near values that cause errors.
const INTS: [i64; 18] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    16,
    255,
    -129,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    1 << 40,
    -(1 << 40),
    1 << 62,
    i64::MAX,
    i64::MIN,
];

/// Extents that no memory holds.
const HUGE: [usize; 6] = [1 << 31, 1 << 32, 1 << 40, 1 << 62, 1 << 63, usize::MAX];

const FLOATS: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    1e-38,
    1e-45,
    3e38,
    -65504.0,
    1e300,
    -1e-320,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    9_007_199_254_740_993.0,
];

const WORDS: [&str; 8] = ["", "a", "b", "ab", "é", "12", "-0.5", "nan"];

/// The greatest number of elements that are drawn.
const MANY: usize = 1 << 16;

impl<'a> Draw<'a> {
    /// Draws from these bytes.
    pub fn new(bytes: &'a [u8]) -> Draw<'a> {
        // FNV-1a.
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Draw { bytes, state: bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash) }
    }

    /// Draws 64 bits.
    pub fn bits(&mut self) -> u64 {
        if let Some((first, rest)) = self.bytes.split_first_chunk() {
            self.bytes = rest;
            return u64::from_le_bytes(*first);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let n = n.max(1);
        if n <= 256
            && let Some((first, rest)) = self.bytes.split_first()
        {
            self.bytes = rest;
            return usize::from(*first) % n;
        }
        (self.bits() % n as u64) as usize
    }

    /// Draws true once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        // The greatest number means true, because zero bytes are common and should draw the usual case.
        self.below(n) == n - 1
    }

    /// Draws an entry of a list; `None` if it is empty.
    pub fn one<'l, T>(&mut self, of: &'l [T]) -> Option<&'l T> {
        of.get(self.below(of.len()))
    }

    /// Draws an entry of a list; `None` if it is empty.
    pub fn one_mut<'l, T>(&mut self, of: &'l mut [T]) -> Option<&'l mut T> {
        let at = self.below(of.len());
        of.get_mut(at)
    }

    /// Draws an integer, often near values that cause errors.
    pub fn int(&mut self) -> i64 {
        match self.below(4) {
            0 => self.below(9) as i64 - 4,
            _ => self.one(&INTS).copied().unwrap_or(0),
        }
    }

    /// Draws a float, often one that causes errors.
    pub fn float(&mut self) -> f64 {
        match self.below(3) {
            0 => self.small_float(),
            _ => self.one(&FLOATS).copied().unwrap_or(0.0),
        }
    }

    /// Draws a multiple of 1/8 from -2 to 2.
    pub fn small_float(&mut self) -> f64 {
        (self.below(33) as f64 - 16.0) / 8.0
    }

    /// Draws an extent: mostly a small one, sometimes 0, and sometimes one that fills vector registers.
    pub fn extent(&mut self) -> usize {
        match self.below(24) {
            0..=20 => 1 + self.below(5),
            21 => 17 + self.below(30),
            _ => 0,
        }
    }

    /// Draws a shape of at most `rank` dimensions.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..self.below(rank + 1)).map(|_| self.extent()).collect()
    }

    /// Draws an extent. Some extents are too large for any memory.
    pub fn any_extent(&mut self) -> usize {
        if self.once_in(6) { self.one(&HUGE).copied().unwrap_or(0) } else { self.extent() }
    }

    /// Draws an element type, mostly one that is computed in.
    pub fn dtype(&mut self) -> DataType {
        const USUAL: [DataType; 8] = {
            use DataType::{Bool, F16, F32, F64, I32, I64, U8};
            [F32, F32, F64, F16, I64, I32, U8, Bool]
        };
        let list = if self.once_in(3) { DataType::ALL } else { &USUAL };
        self.one(list).copied().unwrap_or(DataType::F32)
    }

    /// Draws the elements of a tensor: small numbers, or with `wild` any bits. Large extents are cut where there would be many.
    pub fn tensor(&mut self, dtype: DataType, shape: &[usize], wild: bool) -> TensorData {
        let few: Vec<usize> = shape.iter().map(|&extent| extent.min(4)).collect();
        let many = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).is_none_or(|n| n > MANY);
        let shape = if many { &few } else { shape };
        let n: usize = shape.iter().product();
        match dtype {
            DataType::String => {
                let words: Vec<&str> = (0..n).filter_map(|_| self.one(&WORDS).copied()).collect();
                TensorData::strings(shape, &words).expect("a word for each element")
            }
            DataType::Bool => {
                let truth: Vec<bool> = (0..n).map(|_| self.below(2) == 0).collect();
                TensorData::bools(shape, &truth).expect("a truth value for each element")
            }
            dtype if (wild && self.below(2) == 0) || !dtype.is_compute() => {
                let codes: Vec<u8> =
                    (0..n * dtype.bits().div_ceil(8)).map(|_| self.below(256) as u8).collect();
                TensorData::pack(dtype, shape, &codes).expect("a code for each element")
            }
            dtype => {
                let number = |draw: &mut Draw<'_>| match (wild, dtype.is_integer()) {
                    (true, true) => draw.int() as f64,
                    (true, false) => draw.float(),
                    (false, true) => draw.below(7) as f64 - 3.0,
                    (false, false) => draw.small_float(),
                };
                let numbers: Vec<f64> = (0..n).map(|_| number(self)).collect();
                let numbers = TensorData::new(shape, &numbers).expect("a number for each element");
                bb::ir::convert::cast(&numbers, dtype, Default::default()).expect("numbers can be cast")
            }
        }
    }
}
