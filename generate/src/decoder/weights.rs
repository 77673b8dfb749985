//! The weights of a GGUF file as products take them: integers that stay integers, or floats.

use super::graph::Builder;
use crate::gguf::{Blocks, Gguf, GgufTensor, Group, Layout};
use crate::{Error, Products};
use bb::ir::memory;
use bb::{DataType, TensorData};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeSet;

const OP: &str = "the weights of a model";

/// The tensors of a file, and which of them were asked for.
#[derive(Debug)]
pub(super) struct Weights<'a> {
    file: &'a Gguf,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Weights<'a> {
    pub(super) fn of(file: &'a Gguf) -> Weights<'a> {
        Weights { file, asked: RefCell::default() }
    }

    /// Returns a tensor; `None` if no tensor has this name.
    pub(super) fn find(&self, name: &str) -> Option<&'a GgufTensor> {
        let found = self.file.find(name)?;
        self.asked.borrow_mut().insert(name.to_owned());
        Some(found)
    }

    /// Returns a tensor.
    pub(super) fn tensor(&self, name: &str) -> Result<&'a GgufTensor, Error> {
        let found = self.file.tensor(name)?;
        self.asked.borrow_mut().insert(name.to_owned());
        Ok(found)
    }

    /// Refuses a file with a tensor that nothing asked for: its network is another one than what was written.
    pub(super) fn all_asked_for(&self) -> Result<(), Error> {
        let asked = self.asked.borrow();
        let other = self.file.tensors().find(|(name, _)| !asked.contains(*name));
        other.map_or(Ok(()), |(name, _)| Err(Error::Tensor { name: name.to_owned() }))
    }
}

/// A matrix whose rows are multiplied with.
#[derive(Debug)]
pub(super) enum Matrix {
    /// Integers in groups, with a scale for each group, as `MatMulNBits` has them.
    Ints(Ints),
    /// Floats of 32 bits, row by row.
    Floats { rows: usize, inner: usize, numbers: Vec<f32> },
}

/// Integers of 4 or 8 bits in groups.
#[derive(Debug)]
pub(super) struct Ints {
    rows: usize,
    inner: usize,
    bits: usize,
    group: usize,
    packed: Vec<u8>,
    scales: Vec<f32>,
    /// What an integer of a group is less, if it is not the middle of the range.
    zeros: Option<Vec<f32>>,
}

impl Matrix {
    /// Reads a matrix of `[rows, inner]`, its rows in this order if one is given.
    pub(super) fn read(
        file: &Weights<'_>,
        name: &str,
        [rows, inner]: [usize; 2],
        order: Option<&[usize]>,
    ) -> Result<Matrix, Error> {
        let tensor = file.tensor(name)?.expect(&[inner as u64, rows as u64])?;
        let Some(layout) = tensor.tensor_type().layout() else {
            let numbers = tensor.dequantize()?;
            let numbers = match order {
                None => numbers,
                Some(order) => {
                    let rows: Vec<&[f32]> = numbers.chunks_exact(inner.max(1)).collect();
                    let mut ordered = memory::room(OP, numbers.len())?;
                    ordered.extend(order.iter().filter_map(|&i| rows.get(i)).copied().flatten());
                    ordered
                }
            };
            return Ok(Matrix::Floats { rows, inner, numbers });
        };
        Ok(Matrix::Ints(Ints::read(tensor, layout, [rows, inner], order)?))
    }

    /// Returns the number of rows.
    fn rows(&self) -> usize {
        match self {
            Matrix::Ints(ints) => ints.rows,
            Matrix::Floats { rows, .. } => *rows,
        }
    }

    /// Puts matrices below each other; gives them back if they are not of one kind.
    pub(super) fn joined(all: Vec<Matrix>) -> Result<Matrix, Vec<Matrix>> {
        let alike = |a: &Matrix, b: &Matrix| match (a, b) {
            (Matrix::Ints(a), Matrix::Ints(b)) => {
                (a.bits, a.group, a.inner, a.zeros.is_some()) == (b.bits, b.group, b.inner, b.zeros.is_some())
            }
            (Matrix::Floats { inner: a, .. }, Matrix::Floats { inner: b, .. }) => a == b,
            _ => false,
        };
        if !all.iter().zip(all.iter().skip(1)).all(|(a, b)| alike(a, b)) {
            return Err(all);
        }
        let mut all = all.into_iter();
        let Some(mut whole) = all.next() else { return Err(Vec::new()) };
        for part in all {
            match (&mut whole, part) {
                (Matrix::Ints(whole), Matrix::Ints(part)) => {
                    whole.rows += part.rows;
                    whole.packed.extend(part.packed);
                    whole.scales.extend(part.scales);
                    if let (Some(zeros), Some(more)) = (&mut whole.zeros, part.zeros) {
                        zeros.extend(more);
                    }
                }
                (Matrix::Floats { rows, numbers, .. }, Matrix::Floats { rows: more, numbers: part, .. }) => {
                    *rows += more;
                    numbers.extend(part);
                }
                _ => {}
            }
        }
        Ok(whole)
    }

    /// Makes the matrix a constant of a graph.
    pub(super) fn placed(self, graph: &mut Builder, name: &str) -> Result<Placed, Error> {
        let rows = self.rows();
        match self {
            Matrix::Floats { inner, numbers, .. } => {
                let floats = graph.floats(&[rows, inner], numbers)?;
                Ok(Placed::Floats { floats })
            }
            Matrix::Ints(Ints { inner, bits, group, packed, scales, zeros, .. }) => {
                let count = inner / group;
                let shape = [rows, count, group * bits / 8];
                let packed = TensorData::adopt(DataType::U8, &shape, Bytes::from(packed))?;
                let packed = graph.constant(&format!("{name}.ints"), &packed)?;
                let scales = graph.floats(&[rows, count], scales)?;
                let zeros = zeros.map(|zeros| graph.floats(&[rows, count], zeros)).transpose()?;
                Ok(Placed::Ints { packed, scales, zeros, rows, inner, bits, group })
            }
        }
    }
}

impl Ints {
    fn read(
        tensor: &GgufTensor,
        layout: Layout,
        [rows, inner]: [usize; 2],
        order: Option<&[usize]>,
    ) -> Result<Ints, Error> {
        let Layout { bits, group, offsets, middle } = layout;
        let (block, size) = tensor.tensor_type().block();
        let row_bytes = inner / block * size;
        let count = rows * inner / group;
        let mut packed = memory::room(OP, rows * inner * bits / 8)?;
        let mut scales = memory::room(OP, count)?;
        let mut zeros = if offsets { Some(memory::room(OP, count)?) } else { None };
        let mut blocks = Blocks::new(tensor.tensor_type());
        let mut row = |bytes: &[u8]| {
            let Some(blocks) = &mut blocks else { return };
            for bytes in bytes.chunks_exact(size) {
                let (ints, groups) = blocks.decode(bytes);
                for (ints, own) in ints.chunks_exact(group).zip(groups) {
                    let (scale, zero) = if offsets { scaled(*own) } else { (Some(own.scale), 0.0) };
                    scales.push(scale.unwrap_or(own.offset));
                    if let Some(zeros) = &mut zeros {
                        zeros.push(zero);
                    }
                    // All integers of a group without a scale stand for the offset: one, times the offset.
                    let int = |x: i8| if scale.is_some() { (i16::from(x) + middle) as u8 } else { 1 };
                    match bits {
                        4 => packed.extend(ints.as_chunks().0.iter().map(|&[a, b]| int(a) | int(b) << 4)),
                        _ => packed.extend(ints.iter().map(|&x| int(x))),
                    }
                }
            }
        };
        match order {
            None => row(tensor.bytes()),
            Some(order) => {
                for &i in order {
                    row(tensor.bytes().get(i * row_bytes..(i + 1) * row_bytes).unwrap_or_default());
                }
            }
        }
        Ok(Ints { rows, inner, bits, group, packed, scales, zeros })
    }
}

/// Returns the scale of a group and the integer that stands for 0. There is no scale where that integer is none that a float
/// can be: all elements of the group are then its offset, as exactly as floats have it.
fn scaled(Group { scale, offset }: Group) -> (Option<f32>, f32) {
    let zero = -offset / scale;
    // Of a greater quotient, the integers would be lost when it is subtracted from them.
    if scale != 0.0 && zero.abs() < 1e6 { (Some(scale), zero) } else { (None, 0.0) }
}

/// A matrix that is a constant of a graph.
#[derive(Debug, Clone)]
pub(super) enum Placed {
    Ints {
        packed: String,
        scales: String,
        zeros: Option<String>,
        rows: usize,
        inner: usize,
        bits: usize,
        group: usize,
    },
    Floats {
        floats: String,
    },
}

impl Placed {
    /// Multiplies rows with the rows of the matrix: `[s, inner]` to `[s, rows]`.
    pub(super) fn times(&self, graph: &mut Builder, x: &str, products: Products) -> String {
        match self {
            Placed::Floats { floats } => graph.node("Gemm", &[x, floats], &[("transB", 1)]),
            Placed::Ints { packed, scales, zeros, rows, inner, bits, group } => {
                let level = match products {
                    Products::Floats => 0,
                    Products::Integers => 4,
                };
                let sizes = [("K", *inner), ("N", *rows), ("bits", *bits), ("block_size", *group)];
                let mut attributes: Vec<(&str, i64)> = sizes.map(|(name, n)| (name, n as i64)).into();
                attributes.push(("accuracy_level", level));
                let mut operands = vec![x, packed, scales];
                operands.extend(zeros.as_deref());
                graph.microsoft("MatMulNBits", &operands, &attributes)
            }
        }
    }

    /// Takes rows by their numbers: `[s]` to `[s, inner]`.
    pub(super) fn chosen(&self, graph: &mut Builder, rows: &str) -> Result<String, Error> {
        match self {
            Placed::Floats { floats } => Ok(graph.node("Gather", &[floats, rows], &[("axis", 0)])),
            Placed::Ints { packed, scales, zeros, inner, bits, group, .. } => {
                let take = |graph: &mut Builder, table: &str| graph.node("Gather", &[table, rows], &[]);
                let mut ints = take(graph, packed);
                if *bits == 4 {
                    let sixteen = graph.scalar(DataType::U8, 16.0)?;
                    let high = graph.node("Div", &[&ints, &sixteen], &[]);
                    let above = graph.node("Mul", &[&high, &sixteen], &[]);
                    let low = graph.node("Sub", &[&ints, &above], &[]);
                    let axes = graph.numbers(&[3])?;
                    let [low, high] = [low, high].map(|x| graph.node("Unsqueeze", &[&x, &axes], &[]));
                    ints = graph.node("Concat", &[&low, &high], &[("axis", 3)]);
                    let shape = graph.numbers(&[0, (inner / group) as i64, *group as i64])?;
                    ints = graph.node("Reshape", &[&ints, &shape], &[]);
                }
                let ints = graph.node("Cast", &[&ints], &[("to", 1)]);
                let zero = match zeros {
                    None => graph.scalar(DataType::F32, f64::from(1u32 << (bits - 1)))?,
                    Some(zeros) => {
                        let zeros = take(graph, zeros);
                        let axes = graph.numbers(&[2])?;
                        graph.node("Unsqueeze", &[&zeros, &axes], &[])
                    }
                };
                let scales = take(graph, scales);
                let axes = graph.numbers(&[2])?;
                let scales = graph.node("Unsqueeze", &[&scales, &axes], &[]);
                let less = graph.node("Sub", &[&ints, &zero], &[]);
                let x = graph.node("Mul", &[&less, &scales], &[]);
                let shape = graph.numbers(&[0, *inner as i64])?;
                Ok(graph.node("Reshape", &[&x, &shape], &[]))
            }
        }
    }
}
