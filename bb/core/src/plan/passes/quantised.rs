//! Reads and inserts the steps of a trace that quantise and dequantise.

use super::view::View;
use crate::ext::{NnOp, QuantOp, ScalarOp};
use crate::trace::{
    NewStep, NewValue, Operation, Phase, Step, StepId, StepOrigins, Trace, TraceEdit, TraceValue,
};
use crate::{DataType, Error};
use bb_ir::TensorData;
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// Returns whether a step calls an operation, and runs in each run.
pub(super) fn calls(step: &Step, spec: &OpSpec) -> bool {
    let same = |own: &OpSpec| own.family == spec.family && own.index == spec.index;
    step.phase == Phase::EachRun && matches!(step.operation, Operation::Row(own) if same(own))
}

/// Returns whether elements are integers of eight bits.
pub(super) fn are_bytes(dtype: DataType) -> bool {
    matches!(dtype, DataType::U8 | DataType::I8)
}

/// Returns whether dequantising a byte with a scale and quantising it again gives the same byte. The quotient differs from the
/// integer by at most two roundings, unless the product overflows or loses digits because it is very small.
pub(super) fn is_plain(scale: f32) -> bool {
    (1e-30..1e30).contains(&scale)
}

/// The mapping from bytes to the numbers that they represent: multiples of a scale, counted from a zero point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    pub(super) dtype: DataType,
    pub(super) scale: f32,
    pub(super) zero: i32,
}

impl Grid {
    /// Reads a scale and a zero point that are single elements and known before a run; otherwise returns `None`.
    fn of(
        view: View<'_>,
        dtype: DataType,
        scale: TraceValue,
        zero: Option<TraceValue>,
    ) -> Result<Option<Grid>, Error> {
        let Some(scale) = view.scalar(scale)? else { return Ok(None) };
        let zero = match zero.map(|zero| view.data(zero)).transpose()? {
            None => Some(0),
            Some(Some(data)) if data.dtype() == dtype && data.len() == 1 => bytes(data)?.first().copied(),
            Some(_) => None,
        };
        Ok(zero.filter(|_| are_bytes(dtype) && is_plain(scale)).map(|zero| Grid { dtype, scale, zero }))
    }

    /// Returns the minimum and maximum byte.
    pub(super) fn bounds(&self) -> [i32; 2] {
        bounds(self.dtype)
    }

    /// Builds a tensor of bytes from integers within the bounds.
    pub(super) fn list(&self, numbers: &[i32]) -> Result<TensorData, Error> {
        as_bytes(self.dtype, numbers)
    }

    /// Quantises a number to a byte, as `quantize_linear` does; `None` for NaN.
    fn quantized(&self, x: f32) -> Option<i32> {
        let [least, most] = self.bounds().map(|bound| bound as f32);
        let y = (x / self.scale).round_ties_even() + self.zero as f32;
        (!y.is_nan()).then(|| y.clamp(least, most) as i32)
    }
}

/// Returns the minimum and maximum byte of a type.
fn bounds(dtype: DataType) -> [i32; 2] {
    if dtype == DataType::I8 { [-128, 127] } else { [0, 255] }
}

/// Builds a tensor of bytes from integers within the bounds of the type.
fn as_bytes(dtype: DataType, numbers: &[i32]) -> Result<TensorData, Error> {
    let shape = [numbers.len()];
    Ok(if dtype == DataType::I8 {
        TensorData::new(&shape, &numbers.iter().map(|&x| x as i8).collect::<Vec<_>>())?
    } else {
        TensorData::new(&shape, &numbers.iter().map(|&x| x as u8).collect::<Vec<_>>())?
    })
}

/// Returns all bytes of a type, in ascending order.
pub(super) fn all_bytes(dtype: DataType) -> Result<TensorData, Error> {
    let [least, most] = bounds(dtype);
    as_bytes(dtype, &(least..=most).collect::<Vec<_>>())
}

/// Returns bytes as integers; an empty list for other element types.
pub(super) fn bytes(data: &TensorData) -> Result<SmallVec<[i32; 1]>, Error> {
    Ok(match data.dtype() {
        DataType::U8 => data.as_slice::<u8>()?.iter().map(|&x| x.into()).collect(),
        DataType::I8 => data.as_slice::<i8>()?.iter().map(|&x| x.into()).collect(),
        _ => SmallVec::new(),
    })
}

/// A step that dequantises integers to `f32`.
#[derive(Debug, Clone)]
pub(super) struct Dequantized {
    pub(super) x: TraceValue,
    pub(super) scale: TraceValue,
    pub(super) zero: Option<TraceValue>,
    pub(super) origins: StepOrigins,
}

impl Dequantized {
    /// Reads a step that dequantises; `None` for other steps.
    pub(super) fn of(trace: &Trace, step: &Step) -> Result<Option<Dequantized>, Error> {
        if !calls(step, QuantOp::DequantizeLinear.spec()) {
            return Ok(None);
        }
        let (&[Some(x), Some(scale), zero], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice())
        else {
            return Ok(None);
        };
        let wide = trace.values.get(result)?.dtype == DataType::F32;
        Ok(wide.then(|| Dequantized { x, scale, zero, origins: step.origins.clone() }))
    }

    /// Reads the step that dequantises to a value; `None` if another step computes the value.
    pub(super) fn making(view: View<'_>, value: TraceValue) -> Result<Option<Dequantized>, Error> {
        match view.maker(value)? {
            Some((_, step)) => Dequantized::of(view.trace, step),
            None => Ok(None),
        }
    }

    /// Returns the mapping from bytes to numbers, if there is one scale for all elements.
    pub(super) fn grid(&self, view: View<'_>) -> Result<Option<Grid>, Error> {
        Grid::of(view, view.trace.values.get(self.x)?.dtype, self.scale, self.zero)
    }

    /// Returns a new step that dequantises other integers in the same way.
    pub(super) fn with(&self, x: TraceValue) -> NewStep {
        let params = Box::new([Param::Type(DataType::F32)]);
        let inputs = [Some(x), Some(self.scale), self.zero];
        step(QuantOp::DequantizeLinear.spec(), params, inputs, self.origins.clone())
    }
}

/// A step that quantises `f32` to bytes, with one scale for all elements.
#[derive(Debug, Clone)]
pub(super) struct Quantized {
    pub(super) x: TraceValue,
    pub(super) scale: TraceValue,
    pub(super) zero: Option<TraceValue>,
    pub(super) result: TraceValue,
    pub(super) grid: Grid,
}

impl Quantized {
    /// Reads a step that quantises; `None` for other steps.
    pub(super) fn of(view: View<'_>, step: &Step) -> Result<Option<Quantized>, Error> {
        if !calls(step, QuantOp::QuantizeLinear.spec()) {
            return Ok(None);
        }
        let (&[Some(x), Some(scale), zero], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice())
        else {
            return Ok(None);
        };
        let of = view.trace.values.get(x)?.dtype;
        let precise = matches!(&step.params[..], [_, Param::OptType(None | Some(DataType::F32)), ..]);
        if of != DataType::F32 || !precise {
            return Ok(None);
        }
        let grid = Grid::of(view, view.trace.values.get(result)?.dtype, scale, zero)?;
        Ok(grid.map(|grid| Quantized { x, scale, zero, result, grid }))
    }

    /// Returns the zero point as an operand.
    pub(super) fn zero(&self, edit: &mut TraceEdit<'_>) -> Result<TraceValue, Error> {
        zero_point(edit, self.zero, self.grid.dtype)
    }

    /// Walks back from the quantised value past steps that clamp it, as long as no other step reads their results. Clamping
    /// numbers before they are quantised equals clamping the bytes, because quantisation is monotonic.
    pub(super) fn unbounded(&self, view: View<'_>, id: StepId) -> Result<Unbounded, Error> {
        let mut found = Unbounded { x: self.x, reader: id, steps: Vec::new(), bounds: Vec::new() };
        while let Some((maker, step)) = view.maker_for(found.x, found.reader)?
            && let Some((x, bounds)) = bounding(view, step)?
        {
            let within = |bound: Option<f32>| bound.map(|bound| self.grid.quantized(bound));
            let [least, most] = bounds.map(within);
            if least == Some(None) || most == Some(None) {
                break;
            }
            found.x = x;
            found.reader = maker;
            found.steps.push(maker);
            found.bounds.push([least.flatten(), most.flatten()]);
        }
        Ok(found)
    }
}

/// A value that is clamped and then quantised, before it is clamped.
#[derive(Debug)]
pub(super) struct Unbounded {
    pub(super) x: TraceValue,
    /// The step that reads the value.
    pub(super) reader: StepId,
    /// The steps that clamp the value, from the last to the first.
    pub(super) steps: Vec<StepId>,
    /// The minimum and maximum byte of each of these steps.
    bounds: Vec<[Option<i32>; 2]>,
}

impl Unbounded {
    /// Returns the table that clamps each byte; `None` if clamping changes no byte.
    pub(super) fn table(&self, grid: &Grid) -> Result<Option<TensorData>, Error> {
        let [least, most] = grid.bounds();
        let bounded = |byte: i32| {
            let one = |byte: i32, [least, most]: &[Option<i32>; 2]| {
                let byte = least.map_or(byte, |least| byte.max(least));
                most.map_or(byte, |most| byte.min(most))
            };
            self.bounds.iter().rev().fold(byte, one)
        };
        if (least..=most).all(|byte| bounded(byte) == byte) {
            return Ok(None);
        }
        grid.list(&(least..=most).map(bounded).collect::<Vec<_>>()).map(Some)
    }
}

/// A clamped value, with its minimum and maximum.
type Clipped = (TraceValue, [Option<f32>; 2]);

/// Matches a step that clamps numbers. Returns the value before it and the bounds. If there are two bounds, the upper one is
/// applied last.
fn bounding(view: View<'_>, step: &Step) -> Result<Option<Clipped>, Error> {
    let inputs = step.inputs.as_slice();
    let number = |value: TraceValue| match view.trace.values.get(value)?.shape.is_empty() {
        true => view.scalar(value),
        false => Ok(None),
    };
    Ok(match *inputs {
        [Some(x)] if calls(step, NnOp::Relu.spec()) => Some((x, [Some(0.0), None])),
        [Some(x), least, most] if calls(step, NnOp::Clip.spec()) => {
            let bounds = [least.map(number).transpose()?, most.map(number).transpose()?];
            (!bounds.contains(&Some(None))).then(|| (x, bounds.map(Option::flatten)))
        }
        [Some(a), Some(b)] => {
            let greatest = calls(step, ScalarOp::Minimum.spec());
            if !greatest && !calls(step, ScalarOp::Maximum.spec()) {
                return Ok(None);
            }
            let (x, bound) = match (number(a)?, number(b)?) {
                (None, Some(bound)) => (a, bound),
                (Some(bound), None) => (b, bound),
                _ => return Ok(None),
            };
            Some((x, if greatest { [None, Some(bound)] } else { [Some(bound), None] }))
        }
        _ => None,
    })
}

/// Returns a zero point as an operand: the passed one, or a new constant 0 if there is none.
pub(super) fn zero_point(
    edit: &mut TraceEdit<'_>,
    zero: Option<TraceValue>,
    dtype: DataType,
) -> Result<TraceValue, Error> {
    Ok(match zero {
        Some(zero) => zero,
        None => edit.constant(TensorData::zeros(dtype, &[], usize::MAX)?),
    })
}

/// Returns a new step that runs in each run.
pub(super) fn step(
    spec: &'static OpSpec,
    params: Box<[Param<'static>]>,
    inputs: impl IntoIterator<Item = Option<TraceValue>>,
    origins: StepOrigins,
) -> NewStep {
    NewStep {
        operation: Operation::Row(spec),
        params,
        symbolic: None,
        inputs: inputs.into_iter().collect(),
        origins,
        phase: Phase::EachRun,
    }
}

/// Inserts a step with one result.
pub(super) fn insert(
    edit: &mut TraceEdit<'_>,
    before: StepId,
    step: NewStep,
    result: NewValue,
) -> Result<TraceValue, Error> {
    let made = edit.insert(before, step, [result])?;
    made.first().copied().ok_or_else(|| Error::excluded("a new step to make its result"))
}

/// Returns a new value of an element type, with the extents of another value.
pub(super) fn like(trace: &Trace, value: TraceValue, dtype: DataType) -> Result<NewValue, Error> {
    Ok(NewValue { dtype, ..NewValue::like(trace.values.get(value)?) })
}

/// Inserts a look-up of bytes in a table.
pub(super) fn look_up(
    edit: &mut TraceEdit<'_>,
    before: StepId,
    [x, table]: [TraceValue; 2],
    origins: StepOrigins,
) -> Result<TraceValue, Error> {
    let dtype = edit.trace().values.get(table)?.dtype;
    let result = like(edit.trace(), x, dtype)?;
    let new = step(QuantOp::Lookup.spec(), Box::default(), [Some(x), Some(table)], origins);
    insert(edit, before, new, result)
}

/// Returns a new value of rank 1.
pub(super) fn list(dtype: DataType, extent: usize) -> NewValue {
    NewValue::fixed(dtype, &[extent])
}
