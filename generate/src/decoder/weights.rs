//! Reads the weights of a GGUF file for matrix products: quantized integers, which stay integers, or floats.

use super::graph::Builder;
use crate::gguf::{Blocks, Gguf, GgufTensor, Group, Layout};
use crate::{Error, Products};
use bb::ir::memory;
use bb::{DataType, TensorData};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

const OP: &str = "the weights of a model";
/// The number of blocks that are read before the memory of the mapped file is released.
const PIECE: usize = 1 << 15;

/// The tensors of a file, and the names of those that were read.
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

    /// Refuses a file that has a tensor that was not read, because then its network differs from the graph.
    pub(super) fn all_asked_for(&self) -> Result<(), Error> {
        let asked = self.asked.borrow();
        let other = self.file.tensors().find(|(name, _)| !asked.contains(*name));
        other.map_or(Ok(()), |(name, _)| Err(Error::Tensor { name: name.to_owned() }))
    }
}

/// A weight matrix. The file is read only when a backend packs the matrix.
#[derive(Debug)]
pub(super) struct Matrix {
    rows: usize,
    inner: usize,
    /// The layout of integers; `None` for floats.
    layout: Option<Layout>,
    /// The stacked parts of the matrix.
    parts: Vec<WeightPart>,
}

/// A tensor of the file, and the order of its rows if it differs from the file.
#[derive(Debug)]
struct WeightPart {
    tensor: GgufTensor,
    order: Option<Vec<usize>>,
}

impl WeightPart {
    /// Iterates over the bytes of the rows. If the rows stay in their order, there is a single item with all rows.
    fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.order.is_none().then_some(self.tensor.bytes().as_ref());
        let each = self.order.iter().flatten().map(|&row| self.tensor.row(row));
        all.into_iter().chain(each)
    }

    /// Releases the memory of a piece of the mapped file after its content was copied.
    fn forget(&self, piece: &[u8]) {
        let bytes = self.tensor.bytes().slice_ref(piece);
        if let Ok(bytes) = TensorData::adopt(DataType::U8, &[bytes.len()], bytes) {
            bytes.forget();
        }
    }
}

impl Matrix {
    /// Finds a matrix `[rows, inner]`. `order` reorders its rows.
    pub(super) fn find(
        file: &Weights<'_>,
        name: &str,
        [rows, inner]: [usize; 2],
        order: Option<&[usize]>,
    ) -> Result<Matrix, Error> {
        let tensor = file.tensor(name)?.expect(&[inner as u64, rows as u64])?.clone();
        let layout = tensor.tensor_type().layout();
        Ok(Matrix {
            rows,
            inner,
            layout,
            parts: vec![WeightPart { tensor, order: order.map(<[usize]>::to_vec) }],
        })
    }

    /// Stacks matrices; returns them unchanged if they are not of one kind.
    pub(super) fn joined(all: Vec<Matrix>) -> Result<Matrix, Vec<Matrix>> {
        let kind = |x: &Matrix| (x.inner, x.layout.map(|layout| (layout.bits, layout.group, layout.offsets)));
        if !all.iter().zip(all.iter().skip(1)).all(|(a, b)| kind(a) == kind(b)) {
            return Err(all);
        }
        let mut all = all.into_iter();
        let Some(mut whole) = all.next() else { return Err(Vec::new()) };
        for part in all {
            whole.rows += part.rows;
            whole.parts.extend(part.parts);
        }
        Ok(whole)
    }

    /// Adds the matrix to a graph as a constant.
    pub(super) fn placed(self, graph: &mut Builder, name: &str) -> Result<Placed, Error> {
        let Matrix { rows, inner, layout, parts } = self;
        let Some(Layout { bits, group, offsets, .. }) = layout else {
            let floats = move || floats(&parts, rows * inner);
            let floats = TensorData::made_later(DataType::F32, &[rows, inner], floats)?;
            return Ok(Placed::Floats { floats: graph.constant(name, &floats)? });
        };
        let count = inner / group;
        let source = Arc::new(IntsSource { parts, numbers: rows * inner, read: Mutex::default() });
        let mut constant = |dtype, shape: &[usize], part: fn(&Ints) -> &Bytes| -> Result<String, Error> {
            let source = source.clone();
            let make = move || source.part(part);
            graph.constant(name, &TensorData::made_later(dtype, shape, make)?)
        };
        let packed = constant(DataType::U8, &[rows, count, group * bits / 8], |ints| &ints.packed)?;
        let scales = constant(DataType::F32, &[rows, count], |ints| &ints.scales)?;
        let zeros = match offsets {
            false => None,
            true => Some(constant(DataType::F32, &[rows, count], |ints| &ints.zeros)?),
        };
        Ok(Placed::Ints { packed, scales, zeros, rows, inner, bits, group })
    }
}

/// Reads floats.
fn floats(parts: &[WeightPart], count: usize) -> Result<Bytes, bb_ir::Error> {
    let mut all = memory::room(OP, count)?;
    for part in parts {
        for bytes in part.rows() {
            part.tensor.append(bytes, &mut all)?;
            part.forget(bytes);
        }
    }
    shared(&all)
}

/// Returns floats as the bytes of a tensor.
fn shared(floats: &[f32]) -> Result<Bytes, bb_ir::Error> {
    Ok(TensorData::new(&[floats.len()], floats)?.bytes()?.clone())
}

/// The parts of the file that the integers of a matrix are read from.
#[derive(Debug)]
struct IntsSource {
    parts: Vec<WeightPart>,
    /// The number of integers.
    numbers: usize,
    /// The integers, scales and zero points, which are read in one pass. They are kept in memory as long as one of them is in use.
    read: Mutex<Weak<Ints>>,
}

/// Quantized integers of 4 or 8 bits, in groups with a scale each.
#[derive(Debug)]
struct Ints {
    packed: Bytes,
    scales: Bytes,
    /// The zero point of each group, if it differs from the middle of the range.
    zeros: Bytes,
}

/// One of the byte arrays of [`Ints`], which keeps all of them alive.
struct IntsSlice(Arc<Ints>, fn(&Ints) -> &Bytes);

impl AsRef<[u8]> for IntsSlice {
    fn as_ref(&self) -> &[u8] {
        (self.1)(&self.0)
    }
}

impl IntsSource {
    fn part(&self, part: fn(&Ints) -> &Bytes) -> Result<Bytes, bb_ir::Error> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let ints = match read.upgrade() {
            Some(ints) => ints,
            None => {
                let ints = Arc::new(self.ints()?);
                *read = Arc::downgrade(&ints);
                ints
            }
        };
        Ok(Bytes::from_owner(IntsSlice(ints, part)))
    }

    fn ints(&self) -> Result<Ints, bb_ir::Error> {
        let (mut packed, mut scales, mut zeros) = (Vec::new(), Vec::new(), Vec::new());
        for part in &self.parts {
            let ty = part.tensor.tensor_type();
            let (Some(layout), Some(mut blocks)) = (ty.layout(), Blocks::new(ty)) else { continue };
            let Layout { bits, group, offsets, middle } = layout;
            let [bytes, groups] =
                [(self.numbers * bits / 8, packed.len()), (self.numbers / group, scales.len())]
                    .map(|(all, there)| all - there);
            memory::reserve(OP, &mut packed, bytes)?;
            memory::reserve(OP, &mut scales, groups)?;
            let size = ty.block().1;
            for piece in part.rows().flat_map(|rows| rows.chunks(size * PIECE)) {
                for bytes in piece.chunks_exact(size) {
                    let (ints, groups) = blocks.decode(bytes);
                    for (ints, own) in ints.chunks_exact(group).zip(groups) {
                        let (scale, zero) = if offsets { scaled(*own) } else { (Some(own.scale), 0.0) };
                        scales.push(scale.unwrap_or(own.offset));
                        if offsets {
                            zeros.push(zero);
                        }
                        // In a group without a scale, all integers are 1 and the scale is the offset, so that each element equals the
                        // offset.
                        let int = |x: i8| if scale.is_some() { (i16::from(x) + middle) as u8 } else { 1 };
                        match bits {
                            4 => packed.extend(ints.as_chunks().0.iter().map(|&[a, b]| int(a) | int(b) << 4)),
                            _ => packed.extend(ints.iter().map(|&x| int(x))),
                        }
                    }
                }
                part.forget(piece);
            }
        }
        Ok(Ints { packed: Bytes::from(packed), scales: shared(&scales)?, zeros: shared(&zeros)? })
    }
}

/// Returns the scale and the zero point of a group. There is no scale if it is 0 or if the zero point is too large. All elements of the
/// group then equal its offset, up to the precision of floats.
fn scaled(Group { scale, offset }: Group) -> (Option<f32>, f32) {
    let zero = -offset / scale;
    // If the zero point were greater, subtracting it would round off the integers.
    if scale != 0.0 && zero.abs() < 1e6 { (Some(scale), zero) } else { (None, 0.0) }
}

/// A matrix as a constant of a graph.
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
    /// Adds a product with the transposed matrix, from `[s, inner]` to `[s, rows]`.
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
}
