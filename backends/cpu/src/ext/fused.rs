//! Programs of element-wise functions of `f32`. A block of elements goes through all lines while it is in the first-level
//! cache, so that memory is read and written once.

use crate::array::Array;
use crate::error::{CpuError, Result};
use crate::kernels::elementwise::{self, GRAIN, Run};
use crate::kernels::op::{Binary, Unary};
use crate::kernels::{Shared, walk};
use crate::layout::{Dim, Dims, broadcast_strides, collapse};
use crate::ops::made;
use crate::pool::Pool;
use bb::ext::scalar::{Function, Line, lines};
use bb::ir::infer;
use bb::{DataType, Shape, Tensor};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The most tensors of a program that is computed here.
const TENSORS: usize = 8;
/// The most intermediate results that are held at the same time.
const REGISTERS: usize = 8;
/// The number of elements that go through a program at once. All registers take 16 KiB.
const BLOCK: usize = 512;
/// The least number of elements in a line of operands. Shorter ones are not worth the blocks.
const SHORTEST: usize = 8;

/// The loop of a line.
#[derive(Debug, Clone, Copy)]
enum Loop {
    One(Run<1>),
    Two(Run<2>),
}

/// Where a line finds an operand.
#[derive(Debug, Clone, Copy)]
enum Place {
    Tensor(usize),
    Register(usize),
}

/// A line with its places. The last line has no register: it writes the result.
#[derive(Debug, Clone, Copy)]
struct Step {
    run: Loop,
    operands: [Place; 2],
    to: Option<usize>,
}

/// A program whose lines have loops and registers.
#[derive(Debug)]
struct Program {
    steps: SmallVec<[Step; 12]>,
}

/// Computes a program. Returns `None` for other types and layouts, which the operation's body handles.
pub(super) fn fused(pool: &Arc<Pool>, xs: &[&Array], program: &[i64]) -> Result<Option<Array>> {
    if xs.is_empty() || xs.len() > TENSORS || xs.iter().any(|x| x.dtype() != DataType::F32) {
        return Ok(None);
    }
    let lines = lines(program, xs.len()).map_err(CpuError::from)?;
    let Some(program) = Program::new(&lines, xs.len()) else { return Ok(None) };
    let (shape, dims) = match alike(xs) {
        Some(walk) => walk,
        None => {
            let shapes: SmallVec<[&[usize]; TENSORS]> = xs.iter().map(|x| x.shape()).collect();
            let shape = infer::broadcast("fused", &shapes)?;
            let dims = joint(xs, &shape);
            (shape, dims)
        }
    };
    if !all_are_read(&lines, xs.len()) {
        return Ok(None);
    }
    let (outer, inner) = match dims.as_slice() {
        [outer @ .., inner] => (outer, *inner),
        [] => (&[][..], Dim { extent: 1, strides: [0; TENSORS] }),
    };
    if inner.extent < SHORTEST && !outer.is_empty() {
        return Ok(None);
    }
    let rows: usize = outer.iter().map(|dim| dim.extent).product();
    let pointers: [*const f32; TENSORS] =
        std::array::from_fn(|i| xs.get(i).map_or(std::ptr::null(), |x| x.ptr().cast()));
    made(pool, DataType::F32, shape, |out| {
        let shared = Shared((out.cast::<f32>(), pointers));
        let blocks = inner.extent.div_ceil(BLOCK);
        walk::split(rows * blocks, inner.extent.min(BLOCK) * program.steps.len(), GRAIN, |from, to| {
            let (out, pointers) = shared.get();
            let mut room = Room::new();
            for at in from..to {
                let (row, first) = (at / blocks, at % blocks * BLOCK);
                let n = BLOCK.min(inner.extent - first);
                let offsets = offsets(outer, row);
                // SAFETY: the tensors have elements at every index of their dimensions, and `out` has room for a result at
                // each; nobody else writes this block's.
                unsafe {
                    let operands = Operands { pointers, offsets, strides: inner.strides, first, n };
                    program.run(&mut room, &operands, out.add(row * inner.extent + first));
                }
            }
        });
    })
    .map(Some)
}

/// Tells whether every tensor and every line is read on the way to the result. Otherwise the result may have other extents
/// than all tensors together.
fn all_are_read(lines: &[Line], tensors: usize) -> bool {
    let results = tensors + lines.len() - 1;
    (0..results).all(|value| lines.iter().any(|line| line.operands.contains(&value)))
}

/// Returns the extents of the result and its one dimension, if all tensors are dense and have these extents, or one element.
fn alike(xs: &[&Array]) -> Option<(Shape, Dims<TENSORS>)> {
    let most = xs.iter().max_by_key(|x| (x.len(), x.shape().len()))?;
    let mut strides = [0; TENSORS];
    for (x, stride) in xs.iter().zip(&mut strides) {
        let whole = x.shape() == most.shape() && x.is_dense();
        let single = x.len() == 1 && x.shape().len() <= most.shape().len();
        if !whole && !single {
            return None;
        }
        *stride = isize::from(whole);
    }
    Some((Shape::from_slice(most.shape()), std::iter::once(Dim { extent: most.len(), strides }).collect()))
}

/// Returns the dimensions in which all tensors are walked together, merged.
fn joint(xs: &[&Array], shape: &[usize]) -> Dims<TENSORS> {
    let strides: SmallVec<[_; TENSORS]> =
        xs.iter().map(|x| broadcast_strides(x.shape(), &x.strides(), shape)).collect();
    collapse(shape.iter().enumerate().map(|(i, &extent)| Dim {
        extent,
        strides: std::array::from_fn(|k| strides.get(k).and_then(|s| s.get(i)).copied().unwrap_or(0)),
    }))
}

/// Returns the distance of each tensor's row from its first element.
fn offsets(outer: &[Dim<TENSORS>], row: usize) -> [isize; TENSORS] {
    let (mut left, mut at) = (row, [0; TENSORS]);
    for dim in outer.iter().rev() {
        let index = (left % dim.extent).cast_signed();
        left /= dim.extent;
        at.iter_mut().zip(dim.strides).for_each(|(at, stride)| *at += index * stride);
    }
    at
}

impl Program {
    /// Gives each line a loop, and each result a register until its last reader; `None` if there are too few registers.
    fn new(lines: &[Line], tensors: usize) -> Option<Program> {
        let last_reader =
            |result: usize| lines.iter().rposition(|line| line.operands.contains(&(tensors + result)));
        let mut register_of: SmallVec<[Option<usize>; 24]> = SmallVec::new();
        let mut free: SmallVec<[usize; REGISTERS]> = (0..REGISTERS).rev().collect();
        let mut steps = SmallVec::new();
        for (at, line) in lines.iter().enumerate() {
            let place = |operand: usize| match operand.checked_sub(tensors) {
                None => Some(Place::Tensor(operand)),
                Some(result) => (*register_of.get(result)?).map(Place::Register),
            };
            let [first, second] = line.operands;
            let operands = [place(first)?, place(second)?];
            // A loop must not write what it reads, so that its operands' registers are free only afterwards.
            let to = if at + 1 == lines.len() { None } else { Some(free.pop()?) };
            let run = loop_of(line.function)?;
            steps.push(Step { run, operands, to });
            register_of.push(to);
            for &operand in line.operands.get(..line.function.arity()).unwrap_or_default() {
                if let Some(result) = operand.checked_sub(tensors)
                    && last_reader(result) == Some(at)
                    && let Some(register) = register_of.get(result).copied().flatten()
                    && !free.contains(&register)
                {
                    free.push(register);
                }
            }
        }
        Some(Program { steps })
    }

    /// Computes a block of results.
    ///
    /// # Safety
    ///
    /// The tensors have the elements of the block, and `out` has room for its results.
    #[expect(
        clippy::indexing_slicing,
        reason = "registers and tensors are below their numbers, which `new` saw to"
    )]
    unsafe fn run(&self, room: &mut Room, operands: &Operands, out: *mut f32) {
        // SAFETY: this function's contract; each register has room for a block.
        unsafe {
            let tensors: [*const u8; TENSORS] =
                std::array::from_fn(|i| operands.contiguous(i, &mut room.tensors[i]));
            let registers = room.registers.as_mut_ptr();
            for step in &self.steps {
                let from = |place: Place| match place {
                    Place::Tensor(i) => tensors[i],
                    Place::Register(i) => registers.add(i).cast::<u8>().cast_const(),
                };
                let to = step.to.map_or(out.cast::<u8>(), |register| registers.add(register).cast());
                let [first, second] = step.operands;
                match step.run {
                    Loop::One(run) => run(to, [from(first)], operands.n),
                    Loop::Two(run) => run(to, [from(first), from(second)], operands.n),
                }
            }
        }
    }
}

/// Room for the elements of a block.
type Block = MaybeUninit<[f32; BLOCK]>;

/// The memory of blocks. What is read of it was written for the same block.
struct Room {
    registers: [Block; REGISTERS],
    /// Copies of operands that are not contiguous.
    tensors: [Block; TENSORS],
}

impl Room {
    const fn new() -> Room {
        Room { registers: [MaybeUninit::uninit(); REGISTERS], tensors: [MaybeUninit::uninit(); TENSORS] }
    }
}

/// The operands of a block.
struct Operands {
    pointers: [*const f32; TENSORS],
    offsets: [isize; TENSORS],
    strides: [isize; TENSORS],
    first: usize,
    n: usize,
}

impl Operands {
    /// Returns the elements of a tensor one after another, copied if they are not.
    ///
    /// # Safety
    ///
    /// The tensor has the elements of the block, which are at most [`BLOCK`], or its pointer is null.
    #[expect(clippy::indexing_slicing, reason = "`i` is below the number of tensors")]
    unsafe fn contiguous(&self, i: usize, copy: &mut Block) -> *const u8 {
        let (pointer, stride) = (self.pointers[i], self.strides[i]);
        if pointer.is_null() {
            return pointer.cast();
        }
        // SAFETY: this function's contract.
        unsafe {
            let from = pointer.offset(self.offsets[i] + self.first.cast_signed() * stride);
            if stride == 1 {
                return from.cast();
            }
            let to = copy.as_mut_ptr().cast::<f32>();
            if stride == 0 {
                let value = *from;
                (0..self.n).for_each(|at| to.add(at).write(value));
            } else {
                (0..self.n).for_each(|at| to.add(at).write(*from.offset(at.cast_signed() * stride)));
            }
            to.cast::<u8>().cast_const()
        }
    }
}

/// Returns the loop of a function on `f32`.
fn loop_of(function: Function) -> Option<Loop> {
    let one = |op: Unary| Some(Loop::One(elementwise::unary(op, DataType::F32, false)?.run));
    let two = |op: Binary| Some(Loop::Two(elementwise::binary(op, DataType::F32, false)?.run));
    match function {
        Function::Add => two(Binary::Add),
        Function::Sub => two(Binary::Sub),
        Function::Mul => two(Binary::Mul),
        Function::Div => two(Binary::Div),
        Function::Maximum => two(Binary::Max),
        Function::Minimum => two(Binary::Min),
        Function::Neg => one(Unary::Neg),
        Function::Abs => one(Unary::Abs),
        Function::Sqrt => one(Unary::Sqrt),
        Function::Exp => one(Unary::Exp),
        Function::Log => one(Unary::Log),
        Function::Tanh => one(Unary::Tanh),
        Function::Sigmoid => one(Unary::Sigmoid),
        Function::Erf => one(Unary::Erf),
        Function::Relu => one(Unary::Relu),
        _ => None,
    }
}
