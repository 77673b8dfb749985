//! One direction of a recurrent layer: its operands as contiguous arrays of one number type, and its steps.

use super::{CellKind, Operands, Packed};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::ext::quant::Room;
use crate::ext::rounded;
use crate::gemm::{self, Dims, Strided};
use crate::kernels::Shared;
use crate::kernels::recurrent::{Cell, Functions, Real, Step};
use crate::kernels::walk;
use crate::ops::{dense, room};
use crate::pace;
use bb::{DataType, Shape, Tensor};
use std::marker::PhantomData;
use std::sync::Arc;

/// The number of state elements below which a second thread costs more than it saves. An element costs some exponentials.
const GRAIN: usize = 1 << 12;

/// A number type that has matrix products.
pub(crate) trait Multiply: Real {
    /// Computes a matrix product as [`gemm::gemm`] does.
    ///
    /// # Safety
    ///
    /// Same as for [`gemm::gemm`], with rows of the product that are contiguous.
    unsafe fn multiply(dims: Dims, c: *mut Self, a: Strided<Self>, b: Strided<Self>);
}

impl Multiply for f32 {
    unsafe fn multiply(dims: Dims, c: *mut f32, a: Strided<f32>, b: Strided<f32>) {
        // SAFETY: this function has the same contract.
        unsafe { gemm::gemm(dims, c, dims.n, a, b) }
    }
}

impl Multiply for f64 {
    unsafe fn multiply(dims: Dims, c: *mut f64, a: Strided<f64>, b: Strided<f64>) {
        // SAFETY: this function has the same contract.
        unsafe { gemm::products(DataType::F64, 1, dims, a.cast(), b.cast(), c.cast(), &|_| (0, 0)) }
    }
}

/// The weights in the layout that products read.
enum Matrix {
    Floats(Array),
    Packed(Arc<Packed>),
}

/// The operands as contiguous arrays of one number type, and their extents.
struct Layer<T> {
    kind: CellKind,
    steps: usize,
    batch: usize,
    h: usize,
    x: Array,
    weights: Matrix,
    hidden: Array,
    cell: Option<Array>,
    bias: Option<Array>,
    lengths: Option<Vec<usize>>,
    peepholes: Option<Array>,
    functions: Functions,
    backwards: bool,
    clip: Option<T>,
    of: PhantomData<T>,
}

/// Computes the states with numbers of type `T`, and rounds them to the type of the operands.
pub(super) fn layer<T: Multiply>(cpu: &Cpu, operands: Operands<'_>) -> Result<Option<Vec<Array>>> {
    let Some(layer) = Layer::<T>::new(cpu, operands)? else { return Ok(None) };
    let Some(results) = layer.run(cpu)? else { return Ok(None) };
    let dtype = operands.x.dtype();
    results.into_iter().map(|result| rounded(cpu.pool(), result, dtype)).collect::<Result<_>>().map(Some)
}

/// Returns a pointer to the elements of a contiguous array of this type.
fn elements<T: Real>(x: &Array) -> *const T {
    debug_assert!(x.dtype() == T::DTYPE && x.is_dense());
    x.ptr().cast()
}

/// Reads the lengths of the sequences; `None` for types other than `i32` and `i64`.
fn steps_of(cpu: &Cpu, lengths: &Array) -> Result<Option<Vec<usize>>> {
    if !matches!(lengths.dtype(), DataType::I32 | DataType::I64) {
        return Ok(None);
    }
    let lengths = dense(cpu.pool(), &rounded(cpu.pool(), lengths.clone(), DataType::I64)?)?;
    // SAFETY: the array has this many contiguous elements of this type, and there is a sequence.
    let lengths = unsafe { std::slice::from_raw_parts(lengths.ptr().cast::<i64>(), lengths.len()) };
    let lengths = lengths.iter().map(|&length| usize::try_from(length).unwrap_or(0));
    Ok(Some(bb::ir::memory::collected("recurrent", lengths)?))
}

impl<T: Multiply> Layer<T> {
    fn new(cpu: &Cpu, o: Operands<'_>) -> Result<Option<Layer<T>>> {
        let (&[steps, batch, wide], &[h, columns]) = (o.x.shape(), o.weights.shape()) else {
            return Ok(None);
        };
        let state = [batch, h];
        let fits = wide == columns
            && h.checked_mul(o.kind.gates()) == Some(wide)
            && o.hidden.shape() == state
            && o.cell.is_none_or(|cell| cell.shape() == state)
            && o.bias.is_none_or(|bias| bias.shape() == [h])
            && o.cell.is_some() == matches!(o.kind, CellKind::Lstm { .. })
            && (o.bias.is_none() || o.kind == CellKind::Gru { linear: true })
            && o.peepholes.is_none_or(|peepholes| o.cell.is_some() && *peepholes.shape() == [3 * h])
            && o.lengths.is_none_or(|lengths| *lengths.shape() == [batch])
            && ![steps, batch, h].contains(&0);
        if !fits {
            return Ok(None);
        }
        let lengths = match o.lengths.map(|lengths| steps_of(cpu, lengths)).transpose()? {
            Some(None) => return Ok(None),
            lengths => lengths.flatten(),
        };
        // Returns a contiguous array of type `T`; `None` for operands of another type than `x`.
        let alike = |x: &Array| -> Result<Option<Array>> {
            if x.dtype() != o.x.dtype() {
                return Ok(None);
            }
            dense(cpu.pool(), &rounded(cpu.pool(), x.clone(), T::DTYPE)?).map(Some)
        };
        let given = |x: Option<&Array>| x.map_or(Ok(Some(None)), |x| Ok::<_, CpuError>(alike(x)?.map(Some)));
        let (Some(x), Some(hidden), Some(cell), Some(bias), Some(peepholes)) =
            (alike(o.x)?, alike(o.hidden)?, given(o.cell)?, given(o.bias)?, given(o.peepholes)?)
        else {
            return Ok(None);
        };
        let Some(weights) = Layer::<T>::matrix(cpu, &o, alike)? else { return Ok(None) };
        let Operands { kind, functions, backwards, .. } = o;
        let clip = o.clip.map(T::of);
        let of = PhantomData;
        Ok(Some(Layer {
            kind,
            steps,
            batch,
            h,
            x,
            weights,
            hidden,
            cell,
            bias,
            lengths,
            peepholes,
            functions,
            backwards,
            clip,
            of,
        }))
    }

    /// Returns the weights, packed if that makes the layer faster.
    fn matrix(
        cpu: &Cpu,
        o: &Operands<'_>,
        alike: impl Fn(&Array) -> Result<Option<Array>>,
    ) -> Result<Option<Matrix>> {
        if let Some(packed) = o.packed.filter(|packed| {
            packed.serves(T::DTYPE) && (o.scale.is_some() || o.weights.dtype() == o.x.dtype())
        }) {
            return Ok(Some(Matrix::Packed(packed.clone())));
        }
        if o.scale.is_some() {
            if T::DTYPE != DataType::F32 {
                return Ok(None);
            }
            let packed = Packed::new(cpu, o.kind, o.weights, o.scale, o.zero)?;
            return Ok(packed.map(|packed| Matrix::Packed(Arc::new(packed))));
        }
        let Some(weights) = alike(o.weights)? else { return Ok(None) };
        // Packing takes the time of a few steps with several sequences.
        if let &[steps, batch, _] = o.x.shape()
            && steps >= 4
            && batch > 1
            && let Some(packed) = Packed::new(cpu, o.kind, &weights, None, None)?
        {
            return Ok(Some(Matrix::Packed(Arc::new(packed))));
        }
        Ok(Some(Matrix::Floats(weights)))
    }

    fn run(&self, cpu: &Cpu) -> Result<Option<Vec<Array>>> {
        let (pool, states, wide) = (cpu.pool(), self.batch * self.h, self.h * self.kind.gates());
        let size = size_of::<T>();
        let mut outputs = room(pool, T::DTYPE, self.steps * states)?;
        let mut hidden = room(pool, T::DTYPE, states)?;
        let mut cell = room(pool, T::DTYPE, states)?;
        let products = pool.take(self.batch * wide * size)?;
        let spare = pool.take(2 * states * size)?;
        let at = At::<T> {
            outputs: outputs.room().cast(),
            hidden: hidden.room().cast(),
            cell: cell.room().cast(),
            products: products.ptr().cast(),
            scaled: spare.ptr().cast(),
            // SAFETY: the block has room for twice the states.
            late: unsafe { spare.ptr().cast::<T>().add(states) },
        };
        let done = pool.run(|| {
            let mut room = match self.packed() {
                Some(Packed::Bytes(weights)) => Some(weights.room(cpu, self.batch)?),
                _ => None,
            };
            // SAFETY: all buffers are new and hold what their names say; the operands are contiguous and have these extents.
            unsafe {
                at.hidden.copy_from_nonoverlapping(elements(&self.hidden), states);
                if let Some(cell) = &self.cell {
                    at.cell.copy_from_nonoverlapping(elements(cell), states);
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
            Array::dense(T::DTYPE, Shape::from_slice(shape), shape.iter().product(), storage)
        };
        let mut results = vec![of(&[self.steps, self.batch, self.h], outputs), of(&state, hidden)];
        if let CellKind::Lstm { .. } = self.kind {
            results.push(of(&state, cell));
        }
        Ok(Some(results))
    }

    /// Computes the states of one step. Returns false if a state cannot be quantised because it is not finite.
    ///
    /// # Safety
    ///
    /// The operands are contiguous and have the layer's extents, and so has the memory in `at`. The states in it are
    /// initialised.
    unsafe fn step(&self, cpu: &Cpu, at: At<T>, step: usize, room: &mut Option<Room>) -> Result<bool> {
        let (h, gates) = (self.h, self.kind.gates());
        let wide = gates * h;
        let late = self.kind == CellKind::Gru { linear: false };
        let early = if late { 2 * h } else { wide };
        pace::look();
        // SAFETY: this function's contract. Rows are apart, and each call of the closure has its own row.
        unsafe {
            match (self.packed(), room) {
                (Some(Packed::Bytes(weights)), Some(room)) => {
                    // Layers with 8-bit weights always compute in `f32`.
                    let state = std::slice::from_raw_parts(at.hidden.cast_const().cast(), self.batch * h);
                    let products = std::slice::from_raw_parts_mut(at.products.cast(), self.batch * wide);
                    if !weights.multiply(cpu, state, products, room)? {
                        return Ok(false);
                    }
                }
                _ => self.multiply(at.hidden, at.products, 0..early),
            }
            let shared = Shared((at, elements::<T>(&self.x).add(step * self.batch * wide)));
            let bias = self.bias.as_ref().map(|bias| std::slice::from_raw_parts(elements::<T>(bias), h));
            let peepholes = self.peepholes.as_ref();
            let peepholes =
                peepholes.map(|peepholes| std::slice::from_raw_parts(elements::<T>(peepholes), 3 * h));
            let each = |second: bool| {
                walk::split(self.batch, h, GRAIN, |from, to| {
                    let (at, x) = shared.get();
                    for row in (from..to).filter(|&row| self.lasts(row, step)) {
                        let room = |ptr: *mut T| std::slice::from_raw_parts_mut(ptr.add(row * h), h);
                        let operands = Step {
                            x: std::slice::from_raw_parts(x.add(row * wide), wide),
                            product: std::slice::from_raw_parts(at.products.add(row * early), early),
                            hidden: room(at.hidden),
                            clip: self.clip,
                            functions: self.functions,
                        };
                        let cell = match self.kind {
                            CellKind::Rnn => Cell::Rnn,
                            CellKind::Gru { linear: true } => Cell::Gru { bias },
                            CellKind::Gru { .. } if second => Cell::Candidate { late: room(at.late) },
                            CellKind::Gru { .. } => Cell::Reset { scaled: room(at.scaled) },
                            CellKind::Lstm { coupled } => {
                                Cell::Lstm { cell: room(at.cell), coupled, peepholes }
                            }
                        };
                        crate::kernels::recurrent::step(cell, operands);
                    }
                });
            };
            each(false);
            if late {
                // Sequences that have ended wrote no scaled state in this step, so clear theirs.
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

    /// Multiplies the states with columns of float weights. `columns` must be all columns, or one of the parts of
    /// [`Packed::Floats`].
    ///
    /// # Safety
    ///
    /// There is a state for each sequence, and room for the products.
    unsafe fn multiply(&self, states: *const T, products: *mut T, columns: std::ops::Range<usize>) {
        let (wide, n) = (self.h * self.kind.gates(), columns.len());
        let states = Strided::dense(states, self.h);
        // SAFETY: this function's contract; the columns are those of the weights.
        unsafe {
            match &self.weights {
                Matrix::Floats(weights) => {
                    let weights = Strided::dense(elements::<T>(weights).add(columns.start), wide);
                    T::multiply(Dims { m: self.batch, k: self.h, n }, products, states, weights);
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

    /// Returns whether the sequence `row` includes this step.
    fn lasts(&self, row: usize, step: usize) -> bool {
        self.lengths.as_ref().is_none_or(|lengths| lengths.get(row).is_some_and(|&length| step < length))
    }
}

/// Pointers to the results and the intermediate results.
#[derive(Debug, Clone, Copy)]
struct At<T> {
    outputs: *mut T,
    hidden: *mut T,
    cell: *mut T,
    /// The products of the states and the weights.
    products: *mut T,
    /// The states scaled by the reset gate, and their products with the weights.
    scaled: *mut T,
    late: *mut T,
}
