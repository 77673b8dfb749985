//! Programs in steps, whose values have places.

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

/// The most intermediate results that are held at the same time.
const REGISTERS: usize = PLACES - TENSORS;

/// The computation of a line from its operands, as `f32`.
#[derive(Debug, Clone, Copy)]
enum LineKind {
    /// A function that has a loop of its own.
    Alone(Unary),
    /// A function of one operand, in registers.
    One(Code),
    /// A function of two operands, in registers: the code if the first one is in the registers, and the code if the second one
    /// is.
    Two(Code, Code),
    /// The operand itself, which is rounded or is the result.
    Same,
}

/// A part of a program, which writes a block.
#[derive(Debug)]
enum ProgramStep {
    /// A loop of one function.
    Loop { run: Run<1>, from: usize, to: usize },
    /// Functions that follow each other in registers.
    Chain { lines: Chain, to: usize },
}

type Chain = SmallVec<[chain::Line; 8]>;

/// The place of the program's results.
const OUT: usize = PLACES;

/// A program in steps. The first places are tensors; the others are blocks for intermediate results.
#[derive(Debug)]
pub(crate) struct Program {
    steps: SmallVec<[ProgramStep; 4]>,
    /// The number of lines that compute something.
    lines: usize,
    result: DataType,
    /// Where the last step writes, if that is rounded to 16-bit floats, and how.
    narrowed: Option<(usize, &'static Half)>,
}

/// A value of a program: a tensor, or the result of a line.
#[derive(Debug, Clone, Copy)]
struct Value {
    dtype: DataType,
    /// The value that has the same elements as `f32`: itself, or the operand of a conversion without rounding.
    same: usize,
}

/// A line that computes something, with the values that it reads.
#[derive(Debug, Clone, Copy)]
struct Computed {
    kind: LineKind,
    operands: [usize; 2],
    /// How the result is rounded to the type of the line, if that has 16 bits.
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
    /// The value that the chain ends with.
    held: Option<usize>,
}

impl Steps<'_> {
    fn place(&self, value: usize) -> Option<usize> {
        self.place_of.get(value).copied().flatten()
    }

    /// Returns the block of a value, and assigns one if it has none; `None` if there are too few.
    fn block(&mut self, value: usize) -> Option<usize> {
        if let Some(place) = self.place(value) {
            return Some(place);
        }
        let block = self.free.pop()?;
        *self.place_of.get_mut(value)? = Some(block);
        Some(block)
    }

    /// Adds a line; `last` is where the last one writes. Returns `None` if there are too few blocks.
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
        // The last rounding is the conversion of the results.
        let round = line.round.filter(|_| !later.is_empty() && !self.chain.is_empty());
        self.chain.extend(round.map(|code| chain::Line { code, place: NOWHERE }));
        for operand in line.operands {
            if !later.iter().any(|later| later.operands.contains(&operand)) {
                self.release(operand);
            }
        }
        self.end(line.value, later, last)
    }

    /// Ends the chain after a line, or goes on with it if the next line reads the result.
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

    /// Frees the block of a value that is not read again.
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
    /// Builds steps from the lines; `None` for other types, for types of operands that differ, and if there are too few blocks.
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

    /// Returns the number of lines.
    pub(super) fn len(&self) -> usize {
        self.lines
    }

    /// Returns the lines of the only step, if that is a chain which holds nothing in blocks and whose results are not rounded.
    pub(super) fn chain(&self) -> Option<&[chain::Line]> {
        let [ProgramStep::Chain { lines, to: OUT }] = self.steps.as_slice() else { return None };
        lines.iter().all(|line| !(TENSORS..PLACES).contains(&line.place)).then_some(lines)
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
    pub(super) unsafe fn run(
        &self,
        room: &mut Room,
        operands: &Operands,
        cursors: &mut Cursors,
        [first, n]: [usize; 2],
        out: *mut u8,
        replaced: Option<usize>,
    ) {
        // SAFETY: this function's contract; each block has room for the elements, and its steps write what later ones read.
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

    /// Computes `n` results of the elements at the places: tensors, and blocks for intermediate results. Copies are written to
    /// the blocks of the tensors.
    ///
    /// # Safety
    ///
    /// Each tensor's place has `n` elements, or a single one, and each other place is a block; `n` is at most [`BLOCK`], unless the
    /// program is a [`chain`](Self::chain), which writes to no block. `out` has room for the results, and may be the place of the
    /// tensor `replaced`.
    pub(super) unsafe fn through(
        &self,
        places: &mut [Place; PLACES],
        copies: &mut [Block; TENSORS],
        n: usize,
        out: *mut u8,
        replaced: Option<usize>,
    ) {
        // SAFETY: this function's contract; the steps of a program write what later ones read.
        unsafe {
            for step in &self.steps {
                if let ProgramStep::Loop { from, .. } = *step
                    && let Some(place) = places.get_mut(from).filter(|place| place.single)
                    && let Some(copy) = copies.get_mut(from)
                {
                    // A loop reads an element for each result.
                    let (value, to) = (*place.ptr, copy.as_mut_ptr().cast::<f32>());
                    std::slice::from_raw_parts_mut(to, n).fill(value);
                    *place = Place { ptr: to, single: false };
                }
                let place = |at: usize| places.get(at).map_or(out.cast(), |place| place.ptr);
                match *step {
                    ProgramStep::Chain { ref lines, to } => chain::run(lines, places, place(to), n),
                    // A loop must not overwrite its operand.
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

/// Keeps values in registers that the same chain reads again and no later step does. `narrowed` is the block that is read after
/// the last step. At each line of a chain one value is held.
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

/// Returns whether steps read a block before they write it.
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
        let kind = if line.function.converts_to().is_some() { LineKind::Same } else { kind(line.function)? };
        computed.push(Computed { kind, operands: [a.same, b.same], round: rounding(dtype), value });
        values.push(Value { dtype, same: value });
    }
    Some((computed, values.last()?.dtype))
}

/// Returns how elements are rounded to a type of 16-bit floats.
fn rounding(dtype: DataType) -> Option<Code> {
    match dtype {
        DataType::F16 => Some(Code::RoundF16),
        DataType::BF16 => Some(Code::RoundBf16),
        _ => None,
    }
}

/// The memory of blocks. All elements that are read were written for the same block, except for tensors of a single element.
#[repr(align(64))]
pub(super) struct Room {
    pub(super) registers: [Block; REGISTERS],
    /// Copies of tensors that are not contiguous, or have other types.
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

/// Returns how programs compute a function; `None` if they do not compute it.
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
