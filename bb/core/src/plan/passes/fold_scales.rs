//! Folds constants into constant weights: factors of the result of a convolution or matrix product, and addends of a
//! convolution.
//!
//! ```text
//! conv(x, w, b) * s + t       becomes    conv(x, w * s, b * s + t), where s and t have a number for each channel, or one
//! matmul(x, w) * s            becomes    matmul(x, w * s), where s has a number for each column, or one
//! ```
//!
//! A batch normalisation after a convolution is a product and a sum of this form. The new steps on constants run once, because
//! `fold-constants` folds them later. So this pass treats the same values as constants, and stays within the same budget of
//! bytes.
//!
//! The weights are rounded once more, and the results once or twice less, so the last digits may differ. Scaled weights that
//! leave the range of their type overflow or vanish.
//! [`PassSwitches::fold_scales`](crate::PassSwitches::fold_scales) switches the pass off.

use super::fold_constants::{Folded, folded};
use super::quantised::{calls, insert, step};
use super::recognized::{origins, replace};
use super::{Pass, PassOptions};
use crate::ext::NnOp;
use crate::plan::engine::Engine;
use crate::trace::{NewStep, NewValue, Operation, Step, StepId, Trace, TraceEdit, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use bb_ir::op::Param;
use bb_ir::{Shape, TensorData};

pub(super) const PASS: Pass = Pass { name: "fold-scales", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    if !options.switches.fold_scales {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let Folded { constant, mut left, .. } = folded(trace, options)?;
    let is_constant = |value: TraceValue| constant.get(value).copied();
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        let Some(weighted) = Weighted::of(trace, step, &is_constant)? else { continue };
        let mut scaled = Scaled { id, weighted, readers: Vec::new() };
        while let Some((reader, made)) = scaled.next(trace, &uses, &is_constant)?
            && let Some(rest) = left.checked_sub(made)
        {
            left = rest;
            scaled.weighted.result = reader.result;
            scaled.readers.push(reader);
        }
        if !scaled.readers.is_empty() {
            found.push(scaled);
        }
    }
    let count = found.iter().map(|scaled| scaled.readers.len()).sum();
    let mut edit = trace.edit();
    for scaled in found {
        scaled.fold(&mut edit)?;
    }
    edit.finish()?;
    Ok(count)
}

/// The kind of a step with constant weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sum {
    /// Channels are dimension 1 of the result and dimension 0 of the weights.
    Conv,
    /// Columns are the last dimension of the result and of the weights.
    MatMul,
}

/// A step with constant weights.
struct Weighted {
    sum: Sum,
    weights: TraceValue,
    bias: Option<TraceValue>,
    /// The number of channels or columns.
    count: usize,
    /// The result of the step, or of its last folded reader.
    result: TraceValue,
}

impl Weighted {
    fn of(
        trace: &Trace,
        step: &Step,
        is_constant: &impl Fn(TraceValue) -> Result<bool, Error>,
    ) -> Result<Option<Weighted>, Error> {
        let (sum, x, weights, bias) = match *step.inputs.as_slice() {
            [Some(x), Some(w)] if calls(step, Primitive::MatMul.spec()) => (Sum::MatMul, x, w, None),
            [Some(x), Some(w), bias] if calls(step, NnOp::Conv.spec()) => (Sum::Conv, x, w, bias),
            _ => return Ok(None),
        };
        let &[result] = step.outputs.as_slice() else { return Ok(None) };
        let known = is_constant(weights)? && bias.map_or(Ok(true), is_constant)?;
        let info = trace.values.get(weights)?;
        let count = match (sum, info.shape.as_slice()) {
            (Sum::Conv, &[count, ..]) | (Sum::MatMul, &[_, .., count]) => count,
            _ => return Ok(None),
        };
        let precise = matches!(info.dtype, DataType::F32 | DataType::F64);
        let alike = trace.values.get(result)?.dtype == info.dtype;
        // A step that reads only constants is not folded, because it runs once anyway.
        let folds = known && precise && alike && !is_constant(x)?;
        Ok(folds.then_some(Weighted { sum, weights, bias, count, result }))
    }
}

/// A step that scales or shifts a result by a constant.
struct Reader {
    id: StepId,
    op: Primitive,
    by: TraceValue,
    /// The number of elements of the constant: one, or one for each channel or column.
    count: usize,
    result: TraceValue,
}

/// A step with constant weights, and the following steps that are folded into it.
struct Scaled {
    id: StepId,
    weighted: Weighted,
    readers: Vec<Reader>,
}

impl Scaled {
    /// Returns the only reader of the result, and the number of bytes of new constants that folding the reader creates. Returns
    /// `None` if it cannot be folded.
    fn next(
        &self,
        trace: &Trace,
        uses: &Uses,
        is_constant: &impl Fn(TraceValue) -> Result<bool, Error>,
    ) -> Result<Option<(Reader, usize)>, Error> {
        let &Weighted { sum, weights, bias, count, result: value } = &self.weighted;
        let Some(id) = uses.only_reader(value)? else { return Ok(None) };
        let step = trace.steps.get(id)?;
        let (&[Some(a), Some(b)], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(None);
        };
        let ops = [Primitive::Mul, Primitive::Div, Primitive::Add, Primitive::Sub];
        let op = ops.into_iter().find(|op| calls(step, op.spec()));
        let Some(op) = op.filter(|op| sum == Sum::Conv || matches!(op, Primitive::Mul | Primitive::Div))
        else {
            return Ok(None);
        };
        let turned = matches!(op, Primitive::Mul | Primitive::Add);
        let by = if a == value { b } else { a };
        if a == b || (a != value && !turned) || !is_constant(by)? {
            return Ok(None);
        }
        let [of, constant] = [trace.values.get(value)?, trace.values.get(by)?];
        let Some(missing) = of.shape.len().checked_sub(constant.shape.len()) else { return Ok(None) };
        let axis = match sum {
            Sum::Conv => Some(1),
            Sum::MatMul => of.shape.len().checked_sub(1),
        };
        let mut numbers = 1;
        for (at, &extent) in constant.shape.iter().enumerate().filter(|(_, extent)| **extent != 1) {
            if Some(at + missing) != axis || extent != count {
                return Ok(None);
            }
            numbers = extent;
        }
        let of_bias = bias.map_or(Ok(0), |bias| trace.values.get(bias).map(|info| info.bytes()))?;
        let made = match op {
            Primitive::Mul | Primitive::Div => trace.values.get(weights)?.bytes().saturating_add(of_bias),
            _ => count.saturating_mul(constant.dtype.bits() / 8),
        };
        // The constant itself may have to be reshaped twice, for the weights and for the bias.
        let made = made.saturating_add(constant.bytes().saturating_mul(2));
        Ok(Some((Reader { id, op, by, count: numbers, result }, made)))
    }

    fn fold(self, edit: &mut TraceEdit<'_>) -> Result<(), Error> {
        let Scaled { id, weighted, readers } = self;
        let Weighted { sum, mut weights, mut bias, count, result } = weighted;
        // The constants may be computed after the weighted step, but always before the last reader. So the new steps are
        // inserted there.
        let Some(last) = readers.last().map(|reader| reader.id) else { return Ok(()) };
        for reader in &readers {
            let mut constants = Constants { edit, last, reader };
            let row = [reader.count];
            if matches!(reader.op, Primitive::Mul | Primitive::Div) {
                let mut filters = Shape::from_slice(&row);
                if sum == Sum::Conv {
                    filters.resize(constants.edit.trace().values.get(weights)?.shape.len(), 1);
                }
                let by = constants.shaped(&filters)?;
                weights = constants.combined(weights, by)?;
                if let Some(before) = bias {
                    let by = constants.shaped(&row)?;
                    bias = Some(constants.combined(before, by)?);
                }
            } else {
                let by = constants.shaped(&row)?;
                bias = Some(match bias {
                    Some(before) => constants.combined(before, by)?,
                    None if reader.op == Primitive::Add && reader.count == count => by,
                    None => {
                        let dtype = constants.edit.trace().values.get(weights)?.dtype;
                        let zeros = TensorData::zeros(dtype, &[count], usize::MAX)?;
                        let zeros = constants.edit.constant(zeros);
                        constants.combined(zeros, by)?
                    }
                });
            }
        }
        let mut steps = vec![id];
        steps.extend(readers.iter().map(|reader| reader.id));
        let origins = origins(edit.trace(), &steps)?;
        let own = edit.trace().steps.get(id)?;
        let &[Some(x), ..] = own.inputs.as_slice() else { return Ok(()) };
        let operands = [Some(x), Some(weights), bias];
        let operands = operands.into_iter().take(own.inputs.len());
        let new = NewStep { origins, ..NewStep::like(own, operands) };
        let like = NewValue::like(edit.trace().values.get(result)?);
        let made = insert(edit, last, new, like)?;
        replace(edit, result, made, &steps)
    }
}

/// Inserts the steps that combine constants to replace a reader.
struct Constants<'e, 't> {
    edit: &'e mut TraceEdit<'t>,
    /// The step before which the new steps are inserted.
    last: StepId,
    reader: &'e Reader,
}

impl Constants<'_, '_> {
    /// Returns the reader's constant, reshaped to this shape.
    fn shaped(&mut self, shape: &[usize]) -> Result<TraceValue, Error> {
        let by = self.reader.by;
        let info = self.edit.trace().values.get(by)?;
        if info.shape.as_slice() == shape {
            return Ok(by);
        }
        let like = NewValue::shaped(info, Shape::from_slice(shape));
        let params: Box<[Param<'static>]> = Box::new([Param::Extents(shape.to_vec().into())]);
        let origins = origins(self.edit.trace(), &[self.reader.id])?;
        let new = step(Primitive::Reshape.spec(), params, [Some(by)], origins);
        insert(self.edit, self.last, new, like)
    }

    /// Applies the operation of the reader to two constants.
    fn combined(&mut self, value: TraceValue, by: TraceValue) -> Result<TraceValue, Error> {
        let like = NewValue::like(self.edit.trace().values.get(value)?);
        let Operation::Row(spec) = self.edit.trace().steps.get(self.reader.id)?.operation else {
            return Err(Error::excluded("a product to be an operation of a table"));
        };
        let origins = origins(self.edit.trace(), &[self.reader.id])?;
        let new = step(spec, Box::default(), [Some(value), Some(by)], origins);
        insert(self.edit, self.last, new, like)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::{ConvOptions, Nn, OpSet};
    use crate::plan::passes::fold_constants;
    use crate::plan::passes::samples::{native, zeros};
    use crate::contract::PassSwitches;
    use crate::trace::{Phase, TraceStop, TracedTensor, Tracer};
    use bb_ir::op::Family;

    const WEIGHTS: [usize; 4] = [4, 128, 3, 3];

    fn constant(on: &Tracer, shape: &[usize]) -> TracedTensor {
        let data = vec![0.5f32; shape.iter().product()];
        on.constant(&TensorData::new(shape, &data).unwrap()).unwrap()
    }

    fn conv(on: &Tracer, x: &TracedTensor, bias: Option<&TracedTensor>) -> Result<TracedTensor, TraceStop> {
        on.conv(x, &zeros(on, &WEIGHTS), bias, ConvOptions::default())
    }

    fn folded(
        options: PassOptions<'_>,
        inputs: &[&[usize]],
        function: impl FnOnce(&Tracer, &[TracedTensor]) -> Result<Vec<TracedTensor>, TraceStop>,
    ) -> (usize, String) {
        let convs = [(Family::Nn, OpSet::default().with(NnOp::Conv as u16))];
        let mut trace = native(&convs, inputs, function);
        let count = run(&mut trace, options).unwrap();
        trace.check().unwrap();
        (count, trace.to_string())
    }

    const X: &[&[usize]] = &[&[2, 128, 5, 5]];
    const ON: PassOptions<'static> = PassOptions::INTERPRETED;

    #[test]
    fn a_batch_normalisation_becomes_weights_and_a_bias() {
        let (count, text) = folded(ON, X, |on, xs| {
            let y = conv(on, &xs[0], None)?;
            let y = on.mul(&y, &constant(on, &[4, 1, 1]))?;
            Ok(vec![on.add(&constant(on, &[1, 4, 1, 1]), &y)?])
        });
        assert_eq!(count, 2);
        assert_eq!(
            text,
            "%7: f32[4, 1, 1, 1] = reshape(constant1) {shape=[4, 1, 1, 1]}\n\
             %8: f32[4, 128, 3, 3] = mul(constant0, %7)\n\
             %9: f32[4] = reshape(constant2) {shape=[4]}\n\
             %10: f32[2, 4, 3, 3] = conv(input0, %8, %9) {strides=[], pads=[], dilations=[], group=1}\nreturn %10\n"
        );
    }

    #[test]
    fn a_bias_is_scaled_too_and_a_single_number_is_one_for_each_channel() {
        let (count, text) = folded(ON, X, |on, xs| {
            let y = conv(on, &xs[0], Some(&constant(on, &[4])))?;
            let y = on.div(&y, &constant(on, &[]))?;
            Ok(vec![on.sub(&y, &constant(on, &[1]))?])
        });
        assert_eq!(count, 2);
        assert_eq!(
            text,
            "%8: f32[1, 1, 1, 1] = reshape(constant2) {shape=[1, 1, 1, 1]}\n\
             %9: f32[4, 128, 3, 3] = div(constant1, %8)\n\
             %10: f32[1] = reshape(constant2) {shape=[1]}\n\
             %11: f32[4] = div(constant0, %10)\n%12: f32[4] = sub(%11, constant3)\n\
             %13: f32[2, 4, 3, 3] = conv(input0, %9, %12) {strides=[], pads=[], dilations=[], group=1}\nreturn %13\n"
        );
    }

    #[test]
    fn a_number_for_each_column_of_a_product() {
        let (count, text) = folded(ON, &[&[2, 3, 128]], |on, xs| {
            let y = on.matmul(&xs[0], &zeros(on, &[128, 64]))?;
            let y = on.mul(&y, &constant(on, &[1, 64]))?;
            Ok(vec![on.add(&y, &constant(on, &[64]))?])
        });
        assert_eq!(count, 1);
        assert_eq!(
            text,
            "%7: f32[64] = reshape(constant1) {shape=[64]}\n%8: f32[128, 64] = mul(constant0, %7)\n\
             %9: f32[2, 3, 64] = matmul(input0, %8)\n%6: f32[2, 3, 64] = add(%9, constant2)\nreturn %6\n"
        );
    }

    #[test]
    fn what_is_no_number_for_each_channel_stays() {
        let shapes: [&[usize]; 5] = [&[5], &[5, 1], &[2, 1, 1, 1], &[2, 4, 1, 1], &[1, 1, 4, 1, 1]];
        for shape in shapes {
            let (count, text) = folded(ON, X, |on, xs| {
                let y = conv(on, &xs[0], None)?;
                // A window of three by three leaves three of five rows and columns.
                let shape: Vec<usize> = shape.iter().map(|&n| if n == 5 { 3 } else { n }).collect();
                Ok(vec![on.mul(&y, &constant(on, &shape))?])
            });
            assert_eq!(count, 0, "{shape:?}: {text}");
        }
        for shape in [&[3, 1][..], &[2, 1, 1], &[2, 3, 64]] {
            let (count, text) = folded(ON, &[&[2, 3, 128]], |on, xs| {
                let y = on.matmul(&xs[0], &zeros(on, &[128, 64]))?;
                Ok(vec![on.mul(&y, &constant(on, shape))?])
            });
            assert_eq!(count, 0, "{shape:?}: {text}");
        }
    }

    #[test]
    fn what_others_read_or_is_turned_around_or_is_no_constant_stays() {
        type Made = Result<Vec<TracedTensor>, TraceStop>;
        let cases: [fn(&Tracer, &[TracedTensor]) -> Made; 5] = [
            |on, xs| {
                let y = conv(on, &xs[0], None)?;
                Ok(vec![on.mul(&y, &constant(on, &[4, 1, 1]))?, y])
            },
            |on, xs| {
                let y = conv(on, &xs[0], None)?;
                Ok(vec![on.mul(&y, &constant(on, &[4, 1, 1]))?, on.neg(&y)?])
            },
            |on, xs| Ok(vec![on.sub(&constant(on, &[4, 1, 1]), &conv(on, &xs[0], None)?)?]),
            |on, xs| Ok(vec![on.mul(&conv(on, &xs[0], None)?, &xs[1])?]),
            |on, xs| {
                let y = on.conv(&xs[0], &xs[2], None, ConvOptions::default())?;
                Ok(vec![on.mul(&y, &constant(on, &[4, 1, 1]))?])
            },
        ];
        for case in cases {
            let (count, text) = folded(ON, &[X[0], &[4, 1, 1], &WEIGHTS], case);
            assert_eq!(count, 0, "{text}");
        }
    }

    #[test]
    fn the_constants_run_once_and_within_the_bytes_that_they_may_take() {
        let scaled = |on: &Tracer, xs: &[TracedTensor]| {
            let y = conv(on, &xs[0], None)?;
            Ok(vec![on.mul(&y, &on.exp(&constant(on, &[4, 1, 1]))?)?])
        };
        let weights = 4 * WEIGHTS.iter().product::<usize>();
        for (fold_bytes, count) in [(weights + 64, 1), (weights - 1, 0)] {
            let options = PassOptions { fold_bytes, ..ON };
            let convs = [(Family::Nn, OpSet::default().with(NnOp::Conv as u16))];
            let mut trace = native(&convs, X, scaled);
            assert_eq!(run(&mut trace, options).unwrap(), count);
            (fold_constants::PASS.run)(&mut trace, options).unwrap();
            let left = trace.steps.entries().filter(|step| step.phase == Phase::EachRun).count();
            assert_eq!(left, 2 - count, "{trace}");
        }
    }

    #[test]
    fn without_the_option_nothing_changes() {
        let (count, _) = folded(PassOptions { switches: PassSwitches { fold_scales: false, ..ON.switches }, ..ON }, X, |on, xs| {
            Ok(vec![on.mul(&conv(on, &xs[0], None)?, &constant(on, &[]))?])
        });
        assert_eq!(count, 0);
    }
}
