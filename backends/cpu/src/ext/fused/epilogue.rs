//! Element-wise programs whose first tensor is the result of a convolution. They read its elements while these are in a cache.

use super::program::{Program, Room};
use super::{BLOCK, PART, TENSORS};
use crate::array::{Array, element_size};
use crate::error::{CpuError, Result};
use crate::ext::rounded;
use crate::gemm::End;
use crate::kernels::chain::{self, Code, HELD, Line, NOWHERE, PLACES, Place};
use crate::kernels::element_loop::GRAIN;
use crate::kernels::half::Half;
use crate::kernels::walk;
use crate::layout::broadcast_strides;
use crate::ops::made;
use crate::pool::Pool;
use bb::{DataType, KernelOperand, Shape, Tensor};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The number of results that fit no second-level cache. Fewer results are as fast to read again afterwards.
const DISTANT: usize = 1 << 18;

/// A plane with fewer places (spatial elements) is processed together with other planes.
const SMALL: usize = 256;

/// A program that follows a convolution. It reads the result of the convolution and other tensors.
#[derive(Debug)]
pub(crate) struct Then<'a> {
    pub(crate) program: &'a Program,
    /// All tensors of the program except the first.
    pub(crate) xs: SmallVec<[&'a Array; TENSORS]>,
}

impl Then<'_> {
    /// Runs the program as a separate step on a result that is already computed.
    ///
    /// # Errors
    ///
    /// Errors of the operation `fused`.
    pub(crate) fn apart(&self, pool: &Arc<Pool>, first: Array) -> Result<Array> {
        let others = self.xs.iter().map(|&x| KernelOperand::Shared(x));
        let mut operands = std::iter::once(KernelOperand::Owned(first)).chain(others).collect();
        self.program.compute(pool, &mut operands)
    }
}

/// The memory for the sums of a convolution, and the program that then runs over them.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    /// The contiguous sums of all samples, planes and places.
    pub(crate) sums: *mut f32,
    /// The destination of the program: the sums themselves, or results of another type. Null if no program follows.
    out: *mut u8,
    epilogue: Option<&'a Epilogue<'a>>,
}

// SAFETY: tensors are only read, and threads write the results of different planes or places.
unsafe impl Sync for Results<'_> {}

/// Creates an array of the results of a convolution with elements of type `dtype`. `f` writes the sums.
///
/// `f` must report all results exactly once with [`done`](Results::done).
///
/// # Errors
///
/// Errors of `f` and of [`Then`].
pub(crate) fn written(
    pool: &Arc<Pool>,
    dtype: DataType,
    shape: Shape,
    then: Option<&Then<'_>>,
    f: impl FnOnce(&Results<'_>) -> Result<()>,
) -> Result<Array> {
    let mut done = Ok(());
    let Some(then) = then else {
        let out = made(pool, DataType::F32, shape, |out| {
            done = f(&Results::plain(out.cast()));
        })?;
        done?;
        return rounded(pool, out, dtype);
    };
    let count: usize = shape.iter().product();
    let near = dtype == DataType::F32 && count < DISTANT;
    let Some(mut epilogue) = Some(then).filter(|_| !near).and_then(|then| Epilogue::new(then, dtype, &shape))
    else {
        return then.apart(pool, written(pool, dtype, shape, None, f)?);
    };
    let result = then.program.result();
    let apart = match result {
        DataType::F32 => None,
        _ => {
            let bytes = count.checked_mul(size_of::<f32>()).ok_or_else(|| CpuError::no_memory(usize::MAX))?;
            Some(pool.take(bytes)?)
        }
    };
    let out = made(pool, result, shape, |out| {
        let sums: *mut f32 = apart.as_ref().map_or(out, |block| block.ptr()).cast();
        if let Some(end) = &mut epilogue.end {
            end.beside.0 = sums.cast_const();
        }
        done = f(&Results { sums, out, epilogue: Some(&epilogue) });
    })?;
    done?;
    Ok(out)
}

/// A program that runs over the results of a convolution.
#[derive(Debug)]
struct Epilogue<'a> {
    program: &'a Program,
    /// The rounding of the sums before the program, if they are rounded.
    round: Option<Code>,
    others: SmallVec<[Other; TENSORS]>,
    /// The number of planes of a sample, and the number of places of a plane.
    planes: usize,
    places: usize,
    /// The number of places of a plane that the program processes in one pass.
    block: usize,
    /// The same program in a form that matrix products apply to each tile, if there is one.
    end: Option<End<f32>>,
}

/// A tensor of a program, with its strides for samples, planes and places. A stride is 0 if the dimension is broadcast.
#[derive(Debug, Clone, Copy)]
struct Other {
    pointer: *const u8,
    half: Option<&'static Half>,
    strides: [isize; 3],
}

impl Other {
    /// Returns the elements for `n` places of `count` planes, starting at an index.
    ///
    /// # Safety
    ///
    /// The tensor has these elements. `copy` has room for them if they must be copied: 16-bit floats, and elements of several
    /// planes.
    #[inline(always)]
    unsafe fn place(&self, index: [usize; 3], [count, n]: [usize; 2], copy: *mut f32) -> Place {
        let &Other { pointer, half, strides } = self;
        let at: isize = index.iter().zip(strides).map(|(&at, stride)| at.cast_signed() * stride).sum();
        let [_, plane, along] = strides;
        let single = along == 0 && (plane == 0 || count == 1);
        let dense = count == 1 || plane == n.cast_signed() && (along == 1 || n == 1);
        // SAFETY: this function's contract.
        unsafe {
            let from = |row: usize| {
                let at = at + row.cast_signed() * plane;
                match half {
                    None => pointer.cast::<f32>().offset(at).cast::<u8>(),
                    Some(_) => pointer.cast::<u16>().offset(at).cast(),
                }
            };
            if (single || dense) && half.is_none() {
                return Place { ptr: from(0).cast::<f32>().cast_mut(), single };
            }
            if let (true, Some(half)) = (single || dense, half) {
                (half.widen)(copy.cast(), [from(0)], if single { 1 } else { count * n });
                return Place { ptr: copy, single };
            }
            for row in 0..count {
                let to = copy.add(row * n);
                let read = if along == 0 { 1 } else { n };
                match half {
                    None => to.copy_from_nonoverlapping(from(row).cast(), read),
                    Some(half) => (half.widen)(to.cast(), [from(row)], read),
                }
                if along == 0 {
                    std::slice::from_raw_parts_mut(to, n).fill(*to);
                }
            }
            Place { ptr: copy, single: false }
        }
    }
}

impl<'a> Epilogue<'a> {
    /// Lays the tensors out along the results, `[samples, planes, …]`. Returns `None` if a tensor has more elements than the
    /// results, or if its places within a plane have no common stride.
    fn new(then: &Then<'a>, dtype: DataType, shape: &[usize]) -> Option<Epilogue<'a>> {
        let (&[_, planes], spatial) = (shape.get(..2)?, shape.get(2..)?) else { return None };
        let places = spatial.iter().product();
        let mut others = SmallVec::new();
        for x in &then.xs {
            let before = shape.len().checked_sub(x.shape().len())?;
            let fits = |(&own, &extent): (&usize, &usize)| own == extent || own == 1;
            if !x.shape().iter().zip(shape.get(before..)?).all(fits) {
                return None;
            }
            let strides = broadcast_strides(x.shape(), &x.strides(), shape);
            let (&[sample, plane], rest) = (strides.get(..2)?, strides.get(2..)?) else { return None };
            // Within a plane, the places must either be contiguous or all be the same element.
            let mut dense = 1;
            let mut along = true;
            for (&stride, &extent) in rest.iter().zip(spatial).rev() {
                along &= extent == 1 || stride == dense;
                dense *= extent.cast_signed();
            }
            let same = rest.iter().zip(spatial).all(|(&stride, &extent)| stride == 0 || extent == 1);
            let place = match (same, along) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => return None,
            };
            let strides = [sample, plane, place];
            others.push(Other { pointer: x.ptr(), half: Half::of(x.dtype()), strides });
        }
        let round = match dtype {
            DataType::F16 => Some(Code::RoundF16),
            DataType::BF16 => Some(Code::RoundBf16),
            _ => None,
        };
        let copies = round.is_some() || others.iter().any(|other: &Other| other.half.is_some());
        let block = if then.program.chain().is_some() && !copies { PART } else { BLOCK };
        let mut epilogue =
            Epilogue { program: then.program, round, others, planes, places, block, end: None };
        epilogue.end = epilogue.bounded(shape);
        Some(epilogue)
    }

    /// Recognizes the addition of a tensor with the layout of the results, followed by bounds or a hard swish. Either of the
    /// two parts may be missing.
    fn bounded(&self, shape: &[usize]) -> Option<End<f32>> {
        let (&Line { code: Code::Load, place: 0 }, lines) = self.program.chain()?.split_first()? else {
            return None;
        };
        if shape.contains(&0) || self.round.is_some() || self.program.result() != DataType::F32 {
            return None;
        }
        let other = |place: usize| {
            self.others.get(place.checked_sub(1)?).filter(|other| other.half.is_none() && place < TENSORS)
        };
        let number = |place: usize| {
            let other = other(place).filter(|other| other.strides == [0; 3])?;
            // SAFETY: the tensor has an element for every result, of which there are some.
            Some(unsafe { *other.pointer.cast::<f32>() }).filter(|x| !x.is_nan())
        };
        let own = [(self.planes * self.places).cast_signed(), self.places.cast_signed(), 1];
        let lies_alike = |other: &&Other| {
            let extents = [*shape.first().unwrap_or(&1), self.planes, self.places];
            other.strides.iter().zip(own).zip(extents).all(|((&stride, own), n)| n == 1 || stride == own)
        };
        let (beside, lines) = match *lines {
            [Line { code: Code::Add, place }, ref rest @ ..] => {
                (other(place).filter(lies_alike)?.pointer.cast::<f32>(), rest)
            }
            _ => (std::ptr::null(), lines),
        };
        // A swish reads its operand twice: from a register, or from the sums if nothing was added to them.
        let (lines, again) = match *lines {
            [Line { code: Code::Keep, place: HELD }, ref rest @ ..] => (rest, HELD),
            _ if beside.is_null() => (lines, 0),
            _ => (lines, NOWHERE),
        };
        let (bounds, swish) = match *lines {
            [] => ([f32::NEG_INFINITY, f32::INFINITY], None),
            [Line { code: Code::Relu, .. }] => ([0.0, f32::INFINITY], None),
            [Line { code: Code::Max, place: low }, Line { code: Code::Min, place: high }] => {
                ([number(low)?, number(high)?], None)
            }
            [
                Line { code: Code::Mul, place: by },
                Line { code: Code::Add, place: plus },
                Line { code: Code::Max, place: low },
                Line { code: Code::Min, place: high },
                Line { code: Code::Mul, place },
            ] if place == again => ([number(low)?, number(high)?], Some([number(by)?, number(plus)?])),
            _ => return None,
        };
        Some(End { beside: (std::ptr::null(), beside), bounds, swish })
    }

    /// Runs the program over `n` places of `count` planes, starting at an index. If there are several planes, `n` must be all
    /// places of a plane.
    ///
    /// # Safety
    ///
    /// These sums exist and are at most one block, and there is room for their results. No other thread reads or writes them.
    unsafe fn run(
        &self,
        room: &mut Room,
        [sums, out]: [*mut u8; 2],
        index: [usize; 3],
        [count, n]: [usize; 2],
    ) {
        let [sample, plane, place] = index;
        let at = (sample * self.planes + plane) * self.places + place;
        let mut places = [Place::NONE; PLACES];
        // SAFETY: this function's contract. The tensors broadcast to the results.
        unsafe {
            let mut own = Place { ptr: sums.cast::<f32>().add(at), single: false };
            let (tensors, registers) = places.split_at_mut(TENSORS);
            for (place, register) in registers.iter_mut().zip(&mut room.registers) {
                place.ptr = register.as_mut_ptr().cast::<f32>();
            }
            let [first, rest @ ..] = tensors else { return };
            let [copy, copies @ ..] = &mut room.tensors;
            for ((other, place), copy) in self.others.iter().zip(rest).zip(copies) {
                *place = other.place(index, [count, n], copy.as_mut_ptr().cast());
            }
            let out = out.add(at * element_size(self.program.result()));
            let replaced = (out == own.ptr.cast()).then_some(0);
            *first = own;
            if let Some(code) = self.round {
                own.ptr = copy.as_mut_ptr().cast();
                let lines = [Line { code: Code::Load, place: 0 }, Line { code, place: NOWHERE }];
                chain::run(&lines, &places, own.ptr, count * n);
                let [first, ..] = &mut places;
                *first = own;
            }
            self.program.through(&mut places, &mut room.tensors, count * n, out, replaced);
        }
    }

    /// Runs the program over a range of planes and places of a sample.
    ///
    /// # Safety
    ///
    /// As for [`Results::done`]; `ends` contains the pointers `sums` and `out` of the results.
    unsafe fn over(&self, ends: [*mut u8; 2], sample: usize, planes: Range<usize>, places: Range<usize>) {
        let mut room = Room::new();
        // SAFETY: this function's contract.
        unsafe {
            if places == (0..self.places) && (1..SMALL).contains(&self.places) {
                for plane in planes.clone().step_by(BLOCK / self.places) {
                    let count = (BLOCK / self.places).min(planes.end - plane);
                    self.run(&mut room, ends, [sample, plane, 0], [count, self.places]);
                }
                return;
            }
            for plane in planes {
                for place in places.clone().step_by(self.block) {
                    let n = self.block.min(places.end - place);
                    self.run(&mut room, ends, [sample, plane, place], [1, n]);
                }
            }
        }
    }
}

impl Results<'_> {
    /// Returns results that no program follows.
    pub(crate) const fn plain(sums: *mut f32) -> Self {
        Results { sums, out: std::ptr::null_mut(), epilogue: None }
    }

    /// Runs the program over the sums of some planes and places of a sample. The thread that wrote the sums must call this.
    ///
    /// # Safety
    ///
    /// The sums exist. No other thread reads or writes them or their results.
    #[inline]
    pub(crate) unsafe fn done(&self, sample: usize, planes: Range<usize>, places: Range<usize>) {
        if let Some(epilogue) = self.epilogue {
            // SAFETY: this function's contract.
            unsafe { epilogue.over([self.sums.cast(), self.out], sample, planes, places) }
        }
    }

    /// Runs the program over all sums of a sample; threads share the planes.
    ///
    /// # Safety
    ///
    /// As for [`done`](Self::done).
    pub(crate) unsafe fn sample_done(&self, sample: usize) {
        if let Some(Epilogue { planes, places, program, .. }) = self.epilogue {
            walk::split(*planes, places * program.len(), GRAIN, |from, to| {
                // SAFETY: this function's contract, and each call has different planes.
                unsafe { self.done(sample, from..to, 0..*places) }
            });
        }
    }

    /// Returns whether a program follows the sums.
    pub(crate) fn has_epilogue(&self) -> bool {
        self.epilogue.is_some()
    }

    /// Returns the program in the form that products can apply to each tile. A caller that uses it does not call
    /// [`done`](Self::done).
    pub(crate) fn end(&self) -> Option<&End<f32>> {
        self.epilogue?.end.as_ref()
    }
}
