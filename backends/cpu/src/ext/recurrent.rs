//! Recurrent cells in `f32`: all steps of a direction in one call.

use super::quant::{Room, Weights};
use super::{dense_f32, floats};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::{CpuError, Result};
use crate::gemm::panels::Panels;
use crate::gemm::{Dims, Strided, gemm};
use crate::kernels::Shared;
use crate::kernels::recurrent::{Cell, Step};
use crate::kernels::walk;
use crate::ops::room;
use crate::pace;
use bb::{DataType, Shape, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// The number of elements of states below which a second thread costs more than it saves. An element costs some exponentials.
const GRAIN: usize = 1 << 12;

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rnn,
    /// Whether the reset gate scales the product with the state rather than the state.
    Gru {
        linear: bool,
    },
    /// Whether the forget gate is what the input gate leaves.
    Lstm {
        coupled: bool,
    },
}

impl Kind {
    const fn gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru { .. } => 3,
            Kind::Lstm { .. } => 4,
        }
    }
}

/// What a direction is run over.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) kind: Kind,
    pub(crate) x: &'a Array,
    pub(crate) weights: &'a Array,
    /// The scale and the zero point of weights that are integers.
    pub(crate) scale: Option<&'a Array>,
    pub(crate) zero: Option<&'a Array>,
    /// The weights as they were packed before, if they were.
    pub(crate) packed: Option<&'a Arc<Packed>>,
    pub(crate) hidden: &'a Array,
    pub(crate) cell: Option<&'a Array>,
    pub(crate) bias: Option<&'a Array>,
    pub(crate) lengths: Option<&'a Array>,
    pub(crate) backwards: bool,
    pub(crate) clip: Option<f64>,
}

/// Weights that are packed once for all steps.
pub(crate) enum Packed {
    /// The columns that are multiplied with the state, and those with the state that a reset gate scaled, if there is one.
    Floats(SmallVec<[Panels; 2]>),
    Bytes(Box<Weights>),
}

impl Packed {
    /// Packs weights. `None` if that makes products no faster, and for weights that the operation's body handles.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`].
    pub(crate) fn new(
        cpu: &Cpu,
        kind: Kind,
        weights: &Array,
        scale: Option<&Array>,
        zero: Option<&Array>,
    ) -> Result<Option<Packed>> {
        if let Some(scale) = scale {
            let packed = cpu.pool().run(|| Weights::new(cpu, weights, scale, zero))??;
            return Ok(packed.map(|packed| Packed::Bytes(Box::new(packed))));
        }
        let &[h, wide] = weights.shape() else { return Ok(None) };
        if weights.dtype() != DataType::F32 || h.checked_mul(kind.gates()) != Some(wide) {
            return Ok(None);
        }
        let [row, col] = weights.strides()[..] else { return Ok(None) };
        let late = if kind == (Kind::Gru { linear: false }) { h } else { 0 };
        let mut panels = SmallVec::new();
        for (first, n) in [(0, wide - late), (wide - late, late)] {
            if n == 0 {
                continue;
            }
            let ptr = weights.ptr().wrapping_offset(first.cast_signed() * col * 4);
            // SAFETY: the columns from the first one on are those of the array.
            let made = unsafe { Panels::new(cpu.pool(), DataType::F32, [h, n], Strided { ptr, row, col })? };
            match made {
                Some(made) => panels.push(made),
                None => return Ok(None),
            }
        }
        Ok(Some(Packed::Floats(panels)))
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Packed::Floats(panels) => panels.iter().map(Panels::bytes).sum(),
            Packed::Bytes(weights) => weights.bytes(),
        }
    }
}

/// The weights, ready for products.
enum Matrix {
    Floats(Array),
    Packed(Arc<Packed>),
}

/// The operands as contiguous arrays, and their extents.
struct Layer {
    kind: Kind,
    steps: usize,
    batch: usize,
    h: usize,
    x: Array,
    weights: Matrix,
    hidden: Array,
    cell: Option<Array>,
    bias: Option<Array>,
    lengths: Option<Vec<usize>>,
    backwards: bool,
    clip: f32,
}

/// Computes the states of all steps, and the last ones. Returns `None` for operands that the operation's body handles:
/// other types, extents that do not fit, and no elements.
pub(crate) fn run(cpu: &Cpu, operands: Operands<'_>) -> Result<Option<Vec<Array>>> {
    match Layer::new(cpu, operands)? {
        Some(layer) => layer.run(cpu),
        None => Ok(None),
    }
}

impl Layer {
    fn new(cpu: &Cpu, o: Operands<'_>) -> Result<Option<Layer>> {
        let (&[steps, batch, wide], &[h, columns]) = (o.x.shape(), o.weights.shape()) else {
            return Ok(None);
        };
        let state = [batch, h];
        let fits = wide == columns
            && h.checked_mul(o.kind.gates()) == Some(wide)
            && o.hidden.shape() == state
            && o.cell.is_none_or(|cell| cell.shape() == state)
            && o.bias.is_none_or(|bias| bias.shape() == [h])
            && o.cell.is_some() == matches!(o.kind, Kind::Lstm { .. })
            && (o.bias.is_none() || o.kind == Kind::Gru { linear: true })
            && ![steps, batch, h].contains(&0);
        if !fits {
            return Ok(None);
        }
        let lengths = match o.lengths {
            None => None,
            Some(lengths) if lengths.shape() == [batch] && lengths.dtype() == DataType::I32 => {
                let lengths = crate::ops::dense(cpu.pool(), lengths)?;
                // SAFETY: the array has `batch` contiguous elements of this type.
                let lengths = unsafe { std::slice::from_raw_parts(lengths.ptr().cast::<i32>(), batch) };
                let lengths = lengths.iter().map(|&length| usize::try_from(length).unwrap_or(0));
                Some(bb::ir::memory::collected("recurrent", lengths)?)
            }
            Some(_) => return Ok(None),
        };
        let dense = |x: Option<&Array>| -> Result<Option<Option<Array>>> {
            x.map_or(Ok(Some(None)), |x| Ok(dense_f32(cpu.pool(), x)?.map(Some)))
        };
        // Packing costs as much as a few steps of several sequences.
        let pays = o.scale.is_some() || steps >= 4 && batch > 1;
        let weights = match o.packed {
            Some(packed) => Some(Matrix::Packed(packed.clone())),
            None => {
                let packed = if pays { Packed::new(cpu, o.kind, o.weights, o.scale, o.zero)? } else { None };
                match (packed, o.scale) {
                    (Some(packed), _) => Some(Matrix::Packed(Arc::new(packed))),
                    (None, Some(_)) => None,
                    (None, None) => dense_f32(cpu.pool(), o.weights)?.map(Matrix::Floats),
                }
            }
        };
        let (Some(x), Some(weights), Some(hidden), Some(cell), Some(bias)) = (
            dense_f32(cpu.pool(), o.x)?,
            weights,
            dense_f32(cpu.pool(), o.hidden)?,
            dense(o.cell)?,
            dense(o.bias)?,
        ) else {
            return Ok(None);
        };
        let Operands { kind, backwards, .. } = o;
        let clip = o.clip.map_or(f32::INFINITY, |most| most as f32);
        Ok(Some(Layer { kind, steps, batch, h, x, weights, hidden, cell, bias, lengths, backwards, clip }))
    }

    fn run(&self, cpu: &Cpu) -> Result<Option<Vec<Array>>> {
        let (pool, states, wide) = (cpu.pool(), self.batch * self.h, self.h * self.kind.gates());
        let mut outputs = room(pool, DataType::F32, self.steps * states)?;
        let mut hidden = room(pool, DataType::F32, states)?;
        let mut cell = room(pool, DataType::F32, states)?;
        let products = pool.take(self.batch * wide * 4)?;
        let spare = pool.take(2 * states * 4)?;
        let at = At {
            outputs: outputs.room().cast(),
            hidden: hidden.room().cast(),
            cell: cell.room().cast(),
            products: products.ptr().cast(),
            scaled: spare.ptr().cast(),
            // SAFETY: the block has room for twice the states.
            late: unsafe { spare.ptr().cast::<f32>().add(states) },
        };
        let done = pool.run(|| {
            let mut room = match self.packed() {
                Some(Packed::Bytes(weights)) => Some(weights.room(self.batch)?),
                _ => None,
            };
            // SAFETY: all rooms are new and hold what their names say; the operands are contiguous and have these extents.
            unsafe {
                at.hidden.copy_from_nonoverlapping(floats(&self.hidden), states);
                if let Some(cell) = &self.cell {
                    at.cell.copy_from_nonoverlapping(floats(cell), states);
                }
                for step in 0..self.steps {
                    let step = if self.backwards { self.steps - 1 - step } else { step };
                    if !self.step(cpu, at, step, &mut room)? {
                        return Ok(false);
                    }
                }
            }
            Ok::<bool, CpuError>(true)
        })??;
        if !done {
            return Ok(None);
        }
        let state = [self.batch, self.h];
        let of = |shape: &[usize], storage| {
            Array::dense(DataType::F32, Shape::from_slice(shape), shape.iter().product(), storage)
        };
        let mut results = vec![of(&[self.steps, self.batch, self.h], outputs), of(&state, hidden)];
        if let Kind::Lstm { .. } = self.kind {
            results.push(of(&state, cell));
        }
        Ok(Some(results))
    }

    /// Computes the states of one step. The result is false if a state cannot be quantised, because it is not finite.
    ///
    /// # Safety
    ///
    /// The operands are contiguous and have the layer's extents, and so has the memory in `at`, of which the states are
    /// initialised.
    unsafe fn step(&self, cpu: &Cpu, at: At, step: usize, room: &mut Option<Room>) -> Result<bool> {
        let (h, gates) = (self.h, self.kind.gates());
        let wide = gates * h;
        let late = self.kind == Kind::Gru { linear: false };
        let early = if late { 2 * h } else { wide };
        pace::look();
        // SAFETY: this function's contract. Rows are apart, and each call of the closure has its own.
        unsafe {
            match (self.packed(), room) {
                (Some(Packed::Bytes(weights)), Some(room)) => {
                    let state = std::slice::from_raw_parts(at.hidden.cast_const(), self.batch * h);
                    let products = std::slice::from_raw_parts_mut(at.products, self.batch * wide);
                    if !weights.multiply(cpu, state, products, room)? {
                        return Ok(false);
                    }
                }
                _ => self.multiply(at.hidden, at.products, 0..early),
            }
            let shared = Shared((at, floats(&self.x).add(step * self.batch * wide)));
            let bias = self.bias.as_ref().map(|bias| std::slice::from_raw_parts(floats(bias), h));
            let each = |second: bool| {
                walk::split(self.batch, h, GRAIN, |from, to| {
                    let (at, x) = shared.get();
                    for row in (from..to).filter(|&row| self.lasts(row, step)) {
                        let room = |ptr: *mut f32| std::slice::from_raw_parts_mut(ptr.add(row * h), h);
                        let operands = Step {
                            x: std::slice::from_raw_parts(x.add(row * wide), wide),
                            product: std::slice::from_raw_parts(at.products.add(row * early), early),
                            hidden: room(at.hidden),
                            clip: self.clip,
                        };
                        let cell = match self.kind {
                            Kind::Rnn => Cell::Rnn,
                            Kind::Gru { linear: true } => Cell::Gru { bias },
                            Kind::Gru { .. } if second => Cell::Candidate { late: room(at.late) },
                            Kind::Gru { .. } => Cell::Reset { scaled: room(at.scaled) },
                            Kind::Lstm { coupled } => Cell::Lstm { cell: room(at.cell), coupled },
                        };
                        crate::kernels::recurrent::step(cell, operands);
                    }
                });
            };
            each(false);
            if late {
                // Sequences that have ended have no scaled state.
                for row in (0..self.batch).filter(|&row| !self.lasts(row, step)) {
                    at.scaled.add(row * h).write_bytes(0, h);
                }
                self.multiply(at.scaled, at.late, 2 * h..wide);
                each(true);
            }
            let outputs = at.outputs.add(step * self.batch * h);
            for row in 0..self.batch {
                let to = outputs.add(row * h);
                if self.lasts(row, step) {
                    to.copy_from_nonoverlapping(at.hidden.add(row * h), h);
                } else {
                    to.write_bytes(0, h);
                }
            }
        }
        Ok(true)
    }

    fn packed(&self) -> Option<&Packed> {
        match &self.weights {
            Matrix::Packed(packed) => Some(packed),
            Matrix::Floats(_) => None,
        }
    }

    /// Multiplies states with columns of weights that are floats: all, or the parts that [`Packed::Floats`] has.
    ///
    /// # Safety
    ///
    /// There is a state for each sequence, and room for the products.
    unsafe fn multiply(&self, states: *const f32, products: *mut f32, columns: std::ops::Range<usize>) {
        let (wide, n) = (self.h * self.kind.gates(), columns.len());
        let states = Strided::dense(states, self.h);
        // SAFETY: this function's contract; the columns are those of the weights.
        unsafe {
            match &self.weights {
                Matrix::Floats(weights) => {
                    let weights = Strided::dense(floats(weights).add(columns.start), wide);
                    gemm(Dims { m: self.batch, k: self.h, n }, products, n, states, weights);
                }
                Matrix::Packed(packed) => {
                    if let Packed::Floats(panels) = &**packed
                        && let Some(panels) = panels.get(usize::from(columns.start > 0))
                    {
                        panels.products(1, self.batch, states.cast(), products.cast(), &|_| 0);
                    }
                }
            }
        }
    }

    /// Tells whether a sequence has this step.
    fn lasts(&self, row: usize, step: usize) -> bool {
        self.lengths.as_ref().is_none_or(|lengths| lengths.get(row).is_some_and(|&length| step < length))
    }
}

/// Where the results and what is computed on the way are.
#[derive(Debug, Clone, Copy)]
struct At {
    outputs: *mut f32,
    hidden: *mut f32,
    cell: *mut f32,
    /// The products of the states and the weights.
    products: *mut f32,
    /// The states that a reset gate scaled, and their products.
    scaled: *mut f32,
    late: *mut f32,
}
