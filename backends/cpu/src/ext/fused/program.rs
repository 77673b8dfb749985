//! Programs whose lines have loops, and whose values have places.

use super::operands::{Bits, Cursors, Operands};
use super::{BLOCK, Block, TENSORS};
use crate::kernels::elementwise::{self, Run};
use crate::kernels::half::Half;
use crate::kernels::op::{Binary, Unary};
use crate::kernels::pair::pair;
use bb::DataType;
use bb::ext::scalar::{Function, Line};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The most intermediate results that are held at the same time.
const REGISTERS: usize = 8;

/// What a step computes of its operands, as `f32`.
#[derive(Debug, Clone, Copy)]
enum Kind {
    One(Unary),
    Two(Binary),
    /// The second of the first and a third operand.
    Three(Binary, Binary),
    /// The operand itself, which is rounded or is the result.
    Same,
}

/// The loop of a step.
#[derive(Debug, Clone, Copy)]
enum Loop {
    One(Run<1>),
    Two(Run<2>),
    Three(Run<3>),
    Same,
}

impl Kind {
    /// Returns the loop; `None` if there is none.
    fn run(self) -> Option<Loop> {
        Some(match self {
            Kind::One(op) => Loop::One(elementwise::unary(op, DataType::F32, false)?.run),
            Kind::Two(op) => Loop::Two(elementwise::binary(op, DataType::F32, false)?.run),
            Kind::Three(first, second) => Loop::Three(pair(first, second)?),
            Kind::Same => Loop::Same,
        })
    }
}

/// Where a line finds an operand.
#[derive(Debug, Clone, Copy)]
enum Place {
    Tensor(usize),
    Register(usize),
}

/// A loop with its places. Where it has fewer operands, the last of them are those of others.
#[derive(Debug, Clone, Copy)]
struct Step {
    run: Loop,
    operands: [Place; 3],
    to: usize,
    /// How what the loop computes is rounded to the type of the line, if that has 16 bits.
    round: Option<&'static Half>,
}

/// A program whose lines have loops and registers. The last line writes the result.
#[derive(Debug)]
pub(crate) struct Program {
    steps: SmallVec<[Step; 12]>,
    result: DataType,
}

/// A value of a program: a tensor, or what a line computes.
#[derive(Debug, Clone, Copy)]
struct Value {
    dtype: DataType,
    /// The value that has the same elements as `f32`: itself, or what a conversion without rounding reads.
    same: usize,
}

/// A line that computes something, with the values that it reads.
#[derive(Debug, Clone, Copy)]
struct Computed {
    kind: Kind,
    operands: [usize; 3],
    round: Option<&'static Half>,
    value: usize,
}

impl Program {
    /// Gives each line a loop, and each result a register until its last reader; `None` for other types, for types of operands
    /// that differ, and if there are too few registers.
    pub(super) fn new(lines: &[Line], types: &[DataType]) -> Option<Program> {
        let (computed, result) = computed(lines, types)?;
        let computed = paired(computed);
        let tensors = types.len();
        let mut register_of: SmallVec<[Option<usize>; 24]> = SmallVec::from_elem(None, lines.len());
        let mut free: SmallVec<[usize; REGISTERS]> = (0..REGISTERS).rev().collect();
        let mut steps = SmallVec::new();
        for (at, line) in computed.iter().enumerate() {
            let place = |operand: usize| match operand.checked_sub(tensors) {
                None => Some(Place::Tensor(operand)),
                Some(result) => (*register_of.get(result)?).map(Place::Register),
            };
            let [first, second, third] = line.operands;
            let operands = [place(first)?, place(second)?, place(third)?];
            // A loop must not write what it reads, so that its operands' registers are free only afterwards.
            let to = free.pop()?;
            steps.push(Step { run: line.kind.run()?, operands, to, round: line.round });
            if let Some(register) = line.value.checked_sub(tensors).and_then(|at| register_of.get_mut(at)) {
                *register = Some(to);
            }
            for &operand in &line.operands {
                let read_again = computed.iter().skip(at + 1).any(|later| later.operands.contains(&operand));
                if let Some(result) = operand.checked_sub(tensors)
                    && !read_again
                    && let Some(register) = register_of.get_mut(result).and_then(Option::take)
                {
                    free.push(register);
                }
            }
        }
        Some(Program { steps, result })
    }

    /// Returns the number of loops.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the element type of the result.
    pub(super) fn result(&self) -> DataType {
        self.result
    }

    /// Computes `n` results from result `first` on. `out` may be the place of the same elements of the tensor `replaced`.
    ///
    /// # Safety
    ///
    /// The tensors have the elements of the block, which follows the one before or is where the cursors began, and `out` has
    /// room for its results.
    #[expect(
        clippy::indexing_slicing,
        reason = "registers and tensors are below their numbers, which `new` saw to"
    )]
    pub(super) unsafe fn run(
        &self,
        room: &mut Room,
        operands: &Operands,
        cursors: &mut Cursors,
        [first, n]: [usize; 2],
        out: *mut u8,
        replaced: Option<usize>,
    ) {
        // SAFETY: this function's contract; each register has room for a block.
        unsafe {
            let mut tensors = [std::ptr::null(); TENSORS];
            for ((at, cursor), tensor) in cursors.iter_mut().enumerate().zip(&mut tensors) {
                let copy = &mut room.tensors[at];
                *tensor = operands.block(at, cursor, [first, n], copy, &mut room.bits);
            }
            let registers = room.registers.as_mut_ptr();
            let bits = room.bits.as_mut_ptr().cast::<u8>();
            for (at, step) in self.steps.iter().enumerate() {
                let from = |place: Place| match place {
                    Place::Tensor(i) => tensors[i],
                    Place::Register(i) => registers.add(i).cast::<u8>().cast_const(),
                };
                let [a, b, c] = step.operands;
                let last = at + 1 == self.steps.len();
                let register = registers.add(step.to).cast::<u8>();
                // A loop must not write what it reads.
                let apart = step.operands.iter().any(|&place| match place {
                    Place::Tensor(i) => replaced == Some(i),
                    Place::Register(_) => false,
                });
                let to = if last && step.round.is_none() && !apart { out } else { register };
                let mut computed = to.cast_const();
                match step.run {
                    Loop::One(run) => run(to, [from(a)], n),
                    Loop::Two(run) => run(to, [from(a), from(b)], n),
                    Loop::Three(run) => run(to, [from(a), from(b), from(c)], n),
                    Loop::Same if step.round.is_some() => computed = from(a),
                    Loop::Same => to.copy_from_nonoverlapping(from(a), n * size_of::<f32>()),
                }
                match step.round {
                    Some(half) if last => (half.narrow)(out, [computed], n),
                    Some(half) => {
                        (half.narrow)(bits, [computed], n);
                        (half.widen)(register, [bits.cast_const()], n);
                    }
                    None if last && apart => {
                        out.copy_from_nonoverlapping(register, n * size_of::<f32>());
                    }
                    None => {}
                }
            }
        }
    }
}

/// Finds the lines that compute something, and the type of the last one; `None` for types that are not computed here.
fn computed(lines: &[Line], types: &[DataType]) -> Option<(SmallVec<[Computed; 12]>, DataType)> {
    let is_known = |dtype: DataType| dtype == DataType::F32 || Half::of(dtype).is_some();
    let mut values: SmallVec<[Value; 32]> = SmallVec::new();
    for (same, &dtype) in types.iter().enumerate() {
        values.push(Value { dtype, same });
    }
    if !types.iter().all(|&dtype| is_known(dtype)) {
        return None;
    }
    let mut computed = SmallVec::new();
    for (at, line) in lines.iter().enumerate() {
        let [a, b] = [*values.get(line.operands[0])?, *values.get(line.operands[1])?];
        let dtype = line.function.converts_to().unwrap_or(a.dtype);
        let value = values.len();
        let is_same = line.function.converts_to().is_some_and(|to| to == DataType::F32 || to == a.dtype);
        if is_same && at + 1 < lines.len() {
            values.push(Value { dtype, same: a.same });
            continue;
        }
        if a.dtype != b.dtype {
            return None;
        }
        let kind = if line.function.converts_to().is_some() { Kind::Same } else { kind(line.function)? };
        computed.push(Computed { kind, operands: [a.same, b.same, b.same], round: Half::of(dtype), value });
        values.push(Value { dtype, same: value });
    }
    Some((computed, values.last()?.dtype))
}

/// Joins a line with the only one that reads it, where there is a loop of both.
fn paired(lines: SmallVec<[Computed; 12]>) -> SmallVec<[Computed; 12]> {
    let mut kept = lines.clone();
    let mut joined: SmallVec<[usize; 12]> = SmallVec::new();
    for at in 0..kept.len() {
        let Some(&Computed { kind: Kind::Two(second), operands: [a, b, _], .. }) = kept.get(at) else {
            continue;
        };
        // What is read second may be read first where that changes nothing.
        let turned = if matches!(second, Binary::Add | Binary::Mul) { Some((b, a)) } else { None };
        for (read, other) in std::iter::once((a, b)).chain(turned) {
            let readers = lines.iter().filter(|line| line.operands.contains(&read)).count();
            let maker = kept.iter().find(|line| line.value == read);
            if let Some(&Computed { kind: Kind::Two(first), operands: [x, y, _], round: None, value }) = maker
                && readers == 1
                && read != other
                && pair(first, second).is_some()
                && let Some(line) = kept.get_mut(at)
            {
                (line.kind, line.operands) = (Kind::Three(first, second), [x, y, other]);
                joined.push(value);
                break;
            }
        }
    }
    kept.retain(|line| !joined.contains(&line.value));
    kept
}

/// The memory of blocks. What is read of it was written for the same block, but for tensors of a single element.
pub(super) struct Room {
    registers: [Block; REGISTERS],
    /// Copies of tensors that are not contiguous, or have other types.
    pub(super) tensors: [Block; TENSORS],
    /// 16-bit floats on the way.
    bits: Bits,
}

impl Room {
    pub(super) const fn new() -> Room {
        Room {
            registers: [MaybeUninit::uninit(); REGISTERS],
            tensors: [MaybeUninit::uninit(); TENSORS],
            bits: MaybeUninit::<[u16; BLOCK]>::uninit(),
        }
    }
}

/// Returns how a function is computed, if it is.
fn kind(function: Function) -> Option<Kind> {
    Some(match function {
        Function::Add => Kind::Two(Binary::Add),
        Function::Sub => Kind::Two(Binary::Sub),
        Function::Mul => Kind::Two(Binary::Mul),
        Function::Div => Kind::Two(Binary::Div),
        Function::Maximum => Kind::Two(Binary::Max),
        Function::Minimum => Kind::Two(Binary::Min),
        Function::Neg => Kind::One(Unary::Neg),
        Function::Abs => Kind::One(Unary::Abs),
        Function::Sqrt => Kind::One(Unary::Sqrt),
        Function::Exp => Kind::One(Unary::Exp),
        Function::Log => Kind::One(Unary::Log),
        Function::Tanh => Kind::One(Unary::Tanh),
        Function::Sigmoid => Kind::One(Unary::Sigmoid),
        Function::Erf => Kind::One(Unary::Erf),
        Function::Relu => Kind::One(Unary::Relu),
        _ => return None,
    })
}
