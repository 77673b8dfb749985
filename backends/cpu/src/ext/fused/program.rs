//! Compiles programs into steps that read and write numbered places.

use super::operands::{Bits, Cursors, Operands};
use super::{BLOCK, Block, TENSORS};
use crate::kernels::chain::{self, Code, HELD, NOWHERE, PLACES, Place};
use crate::kernels::element_loop::Run;
use crate::kernels::elementwise;
use crate::kernels::half::Half;
use crate::kernels::op::Unary;
use bb::DataType;
use bb::ext::scalar::{Function, Line};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The maximum number of intermediate results that are stored at the same time.
const REGISTERS: usize = PLACES - TENSORS;

/// The computation of a line from its operands, in `f32`.
#[derive(Debug, Clone, Copy)]
enum LineKind {
    /// A function that has a separate loop.
    Alone(Unary),
    /// A function of one operand, computed in a register.
    One(Code),
    /// A function of two operands, computed in registers. The first code applies if the first operand is in the register, and the
    /// second code if the second operand is.
    Two(Code, Code),
    /// The operand itself. The line only rounds it or is the result.
    Same,
}

/// A step of a program, which computes one block.
#[derive(Debug)]
enum ProgramStep {
    /// A separate loop for one function.
    Loop { run: Run<1>, from: usize, to: usize },
    /// A chain of functions that pass a value on in registers.
    Chain { lines: Chain, to: usize },
}

type Chain = SmallVec<[chain::Line; 8]>;

/// The index that represents the program's results. It follows all places.
const OUT: usize = PLACES;

/// A program as a list of steps. The first places are tensors; the others are blocks for intermediate results.
#[derive(Debug)]
pub(crate) struct Program {
    steps: SmallVec<[ProgramStep; 4]>,
    /// The number of lines with a computation.
    lines: usize,
    result: DataType,
    /// If the result is rounded to 16-bit floats: the place that the last step writes, and the conversion.
    narrowed: Option<(usize, &'static Half)>,
}

/// A value of a program: a tensor, or the result of a line.
#[derive(Debug, Clone, Copy)]
struct Value {
    dtype: DataType,
    /// The value that has the same elements as `f32`: the value itself, or the operand of an exact conversion.
    same: usize,
}

/// A line with a computation, and the values that it reads.
#[derive(Debug, Clone, Copy)]
struct Computed {
    kind: LineKind,
    operands: [usize; 2],
    /// The rounding of the result to the type of the line, if that is a 16-bit float.
    round: Option<Code>,
    value: usize,
}

/// Builds steps from lines.
struct Steps<'a> {
    lines: &'a [Computed],
    place_of: SmallVec<[Option<usize>; 32]>,
    free: SmallVec<[usize; REGISTERS]>,
    steps: SmallVec<[ProgramStep; 4]>,
    chain: Chain,
    /// The value that is in the register at the end of the chain.
    held: Option<usize>,
}

impl Steps<'_> {
    fn place(&self, value: usize) -> Option<usize> {
        self.place_of.get(value).copied().flatten()
    }

    /// Returns the block of a value, and assigns a free block if the value has none. Returns `None` if no block is free.
    fn block(&mut self, value: usize) -> Option<usize> {
        if let Some(place) = self.place(value) {
            return Some(place);
        }
        let block = self.free.pop()?;
        *self.place_of.get_mut(value)? = Some(block);
        Some(block)
    }

    /// Adds the line at index `at`; `last` is the place that the last line writes. Returns `None` if there are too few blocks.
    fn add(&mut self, at: usize, last: Option<usize>) -> Option<()> {
        let line = *self.lines.get(at)?;
        let later = self.lines.get(at + 1..)?;
        let [first, second] = line.operands;
        if let LineKind::Alone(op) = line.kind {
            let run = elementwise::unary(op, DataType::F32, false)?.run;
            let rounded = line.round.is_some() && !later.is_empty();
            let to = if rounded { None } else { last }.map_or_else(|| self.block(line.value), Some)?;
            self.steps.push(ProgramStep::Loop { run, from: self.place(first)?, to });
            if rounded {
                self.chain.push(chain::Line { code: Code::Load, place: to });
            }
        } else {
            let turned = self.held == Some(second) && self.held != Some(first);
            let (own, other) = if turned { (second, first) } else { (first, second) };
            if self.held != Some(own) {
                self.chain.push(chain::Line { code: Code::Load, place: self.place(own)? });
            }
            let code = match line.kind {
                LineKind::One(code) => Some((code, NOWHERE)),
                LineKind::Two(code, of_second) => {
                    Some((if turned { of_second } else { code }, self.place(other)?))
                }
                LineKind::Alone(_) | LineKind::Same => None,
            };
            self.chain.extend(code.map(|(code, place)| chain::Line { code, place }));
        }
        // The conversion of the results already rounds the last line.
        let round = line.round.filter(|_| !later.is_empty() && !self.chain.is_empty());
        self.chain.extend(round.map(|code| chain::Line { code, place: NOWHERE }));
        for operand in line.operands {
            if !later.iter().any(|later| later.operands.contains(&operand)) {
                self.release(operand);
            }
        }
        self.end(line.value, later, last)
    }

    /// Ends the chain after a line, unless the next line reads the line's value and so continues the chain.
    fn end(&mut self, value: usize, later: &[Computed], last: Option<usize>) -> Option<()> {
        self.held = None;
        if self.chain.is_empty() {
            return Some(());
        }
        let reads = |line: &Computed| line.operands.contains(&value);
        let next = later.first().filter(|next| reads(next) && !matches!(next.kind, LineKind::Alone(_)));
        let twice =
            next.is_some_and(|next| matches!(next.kind, LineKind::Two(..)) && next.operands == [value; 2]);
        let again = twice || later.iter().skip(1).any(reads);
        if next.is_some() {
            if again {
                let place = self.block(value)?;
                self.chain.push(chain::Line { code: Code::Keep, place });
            }
            self.held = Some(value);
            return Some(());
        }
        let to = last.map_or_else(|| self.block(value), Some)?;
        self.steps.push(ProgramStep::Chain { lines: std::mem::take(&mut self.chain), to });
        Some(())
    }

    /// Frees the block of a value that no later line reads.
    fn release(&mut self, value: usize) {
        if let Some(place) = self.place_of.get_mut(value)
            && let Some(block) = place.filter(|&place| place >= TENSORS)
        {
            *place = None;
            self.free.push(block);
        }
    }
}

impl Program {
    /// Builds steps from the lines. Returns `None` for unsupported types, for operands of different types, and if there are too few
    /// blocks.
    pub(super) fn new(lines: &[Line], types: &[DataType]) -> Option<Program> {
        let (computed, result) = computed(lines, types)?;
        let tensor = |value| Some(value).filter(|&value| value < types.len());
        let mut steps = Steps {
            lines: &computed,
            place_of: (0..types.len() + lines.len()).map(tensor).collect(),
            free: (TENSORS..PLACES).rev().collect(),
            steps: SmallVec::new(),
            chain: Chain::new(),
            held: None,
        };
        let mut narrowed = None;
        for (at, line) in computed.iter().enumerate() {
            let mut last = (at + 1 == computed.len()).then_some(OUT);
            if let (Some(to), Some(half)) = (&mut last, Half::of(result)) {
                *to = steps.block(line.value)?;
                narrowed = Some((*to, half));
            }
            steps.add(at, last)?;
        }
        let mut steps = steps.steps;
        hold(&mut steps, narrowed.map(|(from, _)| from));
        Some(Program { steps, lines: computed.len(), result, narrowed })
    }

    /// Returns the number of lines with a computation.
    pub(super) fn len(&self) -> usize {
        self.lines
    }

    /// Returns the lines of the only step, if that is a chain that stores nothing in blocks and whose results are not rounded.
    pub(super) fn chain(&self) -> Option<&[chain::Line]> {
        let [ProgramStep::Chain { lines, to: OUT }] = self.steps.as_slice() else { return None };
        lines.iter().all(|line| !(TENSORS..PLACES).contains(&line.place)).then_some(lines)
    }

    /// Returns the element type of the result.
    pub(super) fn result(&self) -> DataType {
        self.result
    }

    /// Computes `n` results from result `first` on. `out` may be the memory of the same elements of the tensor `replaced`.
    ///
    /// # Safety
    ///
    /// The tensors have the elements of the block. The block follows the previous one, or is the block at which the cursors began.
    /// `out` has room for its results.
    pub(super) unsafe fn run(
        &self,
        room: &mut Room,
        operands: &Operands,
        cursors: &mut Cursors,
        [first, n]: [usize; 2],
        out: *mut u8,
        replaced: Option<usize>,
    ) {
        // SAFETY: this function's contract; each block has room for the elements, and its steps write before later steps read.
        unsafe {
            let mut places = [Place::NONE; PLACES];
            let (tensors, registers) = places.split_at_mut(TENSORS);
            for (at, ((cursor, copy), place)) in
                cursors.iter_mut().zip(&mut room.tensors).zip(tensors).enumerate()
            {
                *place = operands.block(at, cursor, [first, n], copy, &mut room.bits);
            }
            for (place, register) in registers.iter_mut().zip(&mut room.registers) {
                place.ptr = register.as_mut_ptr().cast::<f32>();
            }
            self.through(&mut places, &mut room.tensors, n, out, replaced);
        }
    }

    /// Computes `n` results from the elements at the places. The first places are tensors, the others are blocks for intermediate
    /// results. Copies of tensors are written to `copies`.
    ///
    /// # Safety
    ///
    /// Each tensor's place has `n` elements, or a single element, and each other place is a block; `n` is at most [`BLOCK`], unless
    /// the program is a [`chain`](Self::chain), which writes to no block. `out` has room for the results, and may be the place of
    /// the tensor `replaced`.
    pub(super) unsafe fn through(
        &self,
        places: &mut [Place; PLACES],
        copies: &mut [Block; TENSORS],
        n: usize,
        out: *mut u8,
        replaced: Option<usize>,
    ) {
        // SAFETY: this function's contract; the steps of a program write before later steps read.
        unsafe {
            for step in &self.steps {
                if let ProgramStep::Loop { from, .. } = *step
                    && let Some(place) = places.get_mut(from).filter(|place| place.single)
                    && let Some(copy) = copies.get_mut(from)
                {
                    // A separate loop reads one element for each result, so repeat the single element.
                    let (value, to) = (*place.ptr, copy.as_mut_ptr().cast::<f32>());
                    std::slice::from_raw_parts_mut(to, n).fill(value);
                    *place = Place { ptr: to, single: false };
                }
                let place = |at: usize| places.get(at).map_or(out.cast(), |place| place.ptr);
                match *step {
                    ProgramStep::Chain { ref lines, to } => chain::run(lines, places, place(to), n),
                    // A loop must not overwrite its operand, so write to a block first.
                    ProgramStep::Loop { run, from, to: OUT } if replaced == Some(from) => {
                        let apart = place(TENSORS);
                        run(apart.cast(), [place(from).cast()], n);
                        out.cast::<f32>().copy_from_nonoverlapping(apart, n);
                    }
                    ProgramStep::Loop { run, from, to } => run(place(to).cast(), [place(from).cast()], n),
                }
            }
            if let Some((from, half)) = self.narrowed {
                let from = places.get(from).map_or(out.cast(), |place| place.ptr);
                (half.narrow)(out, [from.cast()], n);
            }
        }
    }
}

/// Moves values from blocks to the second register if only the same chain reads them again. `narrowed` is the block that is read
/// after the last step. The register stores one value at a time.
fn hold(steps: &mut [ProgramStep], narrowed: Option<usize>) {
    for at in 0..steps.len() {
        let (before, later) = steps.split_at_mut(at + 1);
        let Some(ProgramStep::Chain { lines, .. }) = before.last_mut() else { continue };
        let mut line = 0;
        while let Some(&chain::Line { code, place }) = lines.get(line) {
            line += 1;
            if code != Code::Keep || place == HELD {
                continue;
            }
            let rest = lines.get(line..).unwrap_or_default();
            let reads = |line: &chain::Line| line.place == place && line.code != Code::Keep;
            let until = rest.iter().position(|line| line.place == place && line.code == Code::Keep);
            let end = until.unwrap_or(rest.len());
            let read_later = until.is_none() && (narrowed == Some(place) || is_read(later, place));
            let Some(last) = rest.iter().take(end).rposition(reads).filter(|_| !read_later) else { continue };
            for line in lines.iter_mut().skip(line - 1).take(last + 2).filter(|line| line.place == place) {
                line.place = HELD;
            }
            line += last + 1;
        }
    }
}

/// Returns whether the steps read a block before they write it.
fn is_read(steps: &[ProgramStep], block: usize) -> bool {
    for step in steps {
        match step {
            ProgramStep::Loop { from, to, .. } => {
                if *from == block || *to == block {
                    return *from == block;
                }
            }
            ProgramStep::Chain { lines, to } => {
                if let Some(line) = lines.iter().find(|line| line.place == block) {
                    return line.code != Code::Keep;
                }
                if *to == block {
                    return false;
                }
            }
        }
    }
    false
}

/// Finds the lines with a computation, and the type of the last line. Returns `None` for unsupported types.
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
        let kind = if line.function.converts_to().is_some() { LineKind::Same } else { kind(line.function)? };
        computed.push(Computed { kind, operands: [a.same, b.same], round: rounding(dtype), value });
        values.push(Value { dtype, same: value });
    }
    Some((computed, values.last()?.dtype))
}

/// Returns the rounding to a type of 16-bit floats; `None` for other types.
fn rounding(dtype: DataType) -> Option<Code> {
    match dtype {
        DataType::F16 => Some(Code::RoundF16),
        DataType::BF16 => Some(Code::RoundBf16),
        _ => None,
    }
}

/// The memory of all blocks. An element is only read after it was written for the same block, except for tensors of a single
/// element.
#[repr(align(64))]
pub(super) struct Room {
    pub(super) registers: [Block; REGISTERS],
    /// Copies of tensors that are not contiguous or are not `f32`.
    pub(super) tensors: [Block; TENSORS],
    /// 16-bit floats during their conversion.
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

/// Returns the kind of line that computes a function; `None` if programs do not support it.
fn kind(function: Function) -> Option<LineKind> {
    Some(match function {
        Function::Add => LineKind::Two(Code::Add, Code::Add),
        Function::Sub => LineKind::Two(Code::Sub, Code::SubFrom),
        Function::Mul => LineKind::Two(Code::Mul, Code::Mul),
        Function::Div => LineKind::Two(Code::Div, Code::DivFrom),
        Function::Maximum => LineKind::Two(Code::Max, Code::MaxFrom),
        Function::Minimum => LineKind::Two(Code::Min, Code::MinFrom),
        Function::Neg => LineKind::One(Code::Neg),
        Function::Abs => LineKind::One(Code::Abs),
        Function::Sqrt => LineKind::One(Code::Sqrt),
        Function::Relu => LineKind::One(Code::Relu),
        Function::Exp => LineKind::Alone(Unary::Exp),
        Function::Log => LineKind::Alone(Unary::Log),
        Function::Tanh => LineKind::Alone(Unary::Tanh),
        Function::Sigmoid => LineKind::Alone(Unary::Sigmoid),
        Function::Erf => LineKind::Alone(Unary::Erf),
        _ => return None,
    })
}
