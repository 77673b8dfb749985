//! Computes products and convolutions of quantised tensors in integers, as [`Quant`](crate::ext::Quant) does.
//!
//! Exporters write a quantised operator as `DequantizeLinear` before its operands, the operator on floats, and `QuantizeLinear`
//! after it. Sums of integer products are exact, whereas sums of floats round each term. Only three roundings remain: the
//! conversion of a sum to a float, its product with the scale, and one quotient. So the result is at least as close to the
//! exact result as before. A result byte may differ by one. [`PassSwitches::integers`](crate::PassSwitches::integers) switches
//! the pass off.
//!
//! No sum may overflow, which the pass checks with the number of terms and the biases. The scale of each bias must equal the
//! scale of the products that it is added to, as quantisers write it.

use super::quantised::{
    Dequantized, Quantized, Unbounded, are_bytes, bytes, calls, insert, is_plain, like, look_up, step,
    zero_point,
};
use super::recognized::origins;
use super::view::View;
use super::{Pass, PassOptions};
use crate::ext::{NnOp, QuantOp};
use crate::plan::engine::Engine;
use crate::trace::{NewValue, Step, StepId, StepOrigins, Trace, TraceEdit, TraceValue};
use crate::{DataType, Error, Primitive};
use bb_ir::op::Param;
use bb_ir::{Shape, TensorData};

pub(super) const PASS: Pass = Pass { name: "integer-products", engines: &[Engine::Interpreter], run };

/// The maximum product of two differences between a byte and a zero point.
const GREATEST: u64 = 255 * 255;

/// The minimum number of filters per group of a convolution, if there are several groups.
const FEW_FILTERS: usize = 8;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    if !options.switches.integers {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let view = View { trace, uses: &uses, options };
    let mut found = Vec::new();
    for (id, step) in trace.steps.iter() {
        if let Some(to) = Quantized::of(view, step)?
            && let Some(product) = Product::of(view, id, &to)?
        {
            found.push((id, to, product));
        }
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for (id, to, product) in found {
        count += 1 + product.steps.len();
        let result = product.inserted(&mut edit, id, &to)?;
        edit.replace(to.result, result)?;
        edit.remove(id)?;
        for &step in &product.steps {
            edit.remove(step)?;
        }
    }
    edit.finish()?;
    Ok(count)
}

/// The kind of a product: a matrix product, or a convolution with these parameters.
enum ProductKind {
    Matrices,
    Convolution(Box<[Param<'static>]>),
}

/// A product of quantised tensors whose result is quantised.
struct Product {
    kind: ProductKind,
    x: Dequantized,
    w: Dequantized,
    /// The zero points of the second operand, in the shape that the operation takes; `None` for 0.
    w_zero: Option<TensorData>,
    /// The integer biases that are added to the sums.
    bias: Option<TraceValue>,
    /// The factor for the integer sums, in a shape that broadcasts to the result.
    scale: TensorData,
    /// The value of the product in the trace.
    product: TraceValue,
    /// The steps that are replaced, except the step that quantises.
    steps: Vec<StepId>,
    bounded: Option<TensorData>,
}

/// The scales of the second operand: one for all elements, or one for each filter or column.
struct Scales<'t> {
    scales: &'t [f32],
    zeros: Option<&'t TensorData>,
}

impl Product {
    fn of(view: View<'_>, id: StepId, to: &Quantized) -> Result<Option<Product>, Error> {
        let found = to.unbounded(view, id)?;
        let Some((maker, made)) = view.maker_for(found.x, found.reader)? else { return Ok(None) };
        if calls(made, NnOp::Conv.spec()) {
            return Product::convolution(view, (maker, made), (&found, to));
        }
        if made.operation.primitive() != Some(Primitive::Add) {
            return Product::matrices(view, (maker, made), None, (&found, to));
        }
        let &[Some(a), Some(b)] = made.inputs.as_slice() else { return Ok(None) };
        for (product, bias) in [(a, b), (b, a)] {
            let Some(by) = view.maker_for(product, maker)? else { continue };
            if let Some(bias) = Dequantized::making(view, bias)?
                && let Some(product) = Product::matrices(view, by, Some((maker, bias)), (&found, to))?
            {
                return Ok(Some(product));
            }
        }
        Ok(None)
    }

    fn convolution(
        view: View<'_>,
        (id, made): (StepId, &Step),
        (found, to): (&Unbounded, &Quantized),
    ) -> Result<Option<Product>, Error> {
        let (&[Some(x), Some(w), bias], &[product]) = (made.inputs.as_slice(), made.outputs.as_slice())
        else {
            return Ok(None);
        };
        let Some((x, w)) = operands(view, [x, w])? else { return Ok(None) };
        let shape = &view.trace.values.get(w.x)?.shape;
        let (&[filters, ref window @ ..], true) = (shape.as_slice(), made.symbolic.is_none()) else {
            return Ok(None);
        };
        let groups = match made.params.last() {
            Some(&Param::Int(groups)) => usize::try_from(groups).unwrap_or(0),
            _ => 0,
        };
        let pays = (2..=3).contains(&window.len()) && pays(filters, groups);
        if !pays || !view.options.natives.has(QuantOp::QLinearConv.spec()) {
            return Ok(None);
        }
        let along = |own: &[usize]| own.len() == shape.len() && own.first() == Some(&filters);
        let Some(of_w) = Scales::of(view, &w, filters, along)? else { return Ok(None) };
        let Some(scales) = of_w.times(view, &x, filters)? else { return Ok(None) };
        let biased = match bias {
            None => None,
            Some(bias) => match Dequantized::making(view, bias)? {
                Some(bias) => Some(bias),
                None => return Ok(None),
            },
        };
        let terms = window.iter().product::<usize>() as u64;
        let Some(bias) = fitting(view, biased, (&scales, filters), terms)? else { return Ok(None) };
        let Some(bounded) = bounded(view, found, to)? else { return Ok(None) };
        let trailing = std::iter::repeat_n(1, window.len() - 1);
        let per_filter: Shape = match scales.len() {
            1 => Shape::new(),
            count => std::iter::once(count).chain(trailing).collect(),
        };
        Ok(Some(Product {
            kind: ProductKind::Convolution(made.params.clone()),
            w_zero: of_w.zeros.map(|zeros| zeros.reshaped(&[zeros.len()])).transpose()?,
            bias,
            scale: TensorData::new(&per_filter, &scales)?,
            product,
            steps: std::iter::once(id).chain(found.steps.iter().copied()).collect(),
            bounded,
            x,
            w,
        }))
    }

    fn matrices(
        view: View<'_>,
        (id, made): (StepId, &Step),
        added: Option<(StepId, Dequantized)>,
        (found, to): (&Unbounded, &Quantized),
    ) -> Result<Option<Product>, Error> {
        let (&[Some(a), Some(b)], &[product]) = (made.inputs.as_slice(), made.outputs.as_slice()) else {
            return Ok(None);
        };
        let native = [QuantOp::MatMulInteger, QuantOp::Requantize];
        if made.operation.primitive() != Some(Primitive::MatMul)
            || !native.iter().all(|op| view.options.natives.has(op.spec()))
        {
            return Ok(None);
        }
        let Some((x, w)) = operands(view, [a, b])? else { return Ok(None) };
        let shape = &view.trace.values.get(w.x)?.shape;
        let &[depth, columns] = shape.as_slice() else { return Ok(None) };
        let along = |own: &[usize]| own == [columns] || own == [1, columns];
        let Some(of_w) = Scales::of(view, &w, columns, along)? else { return Ok(None) };
        let Some(scales) = of_w.times(view, &x, columns)? else { return Ok(None) };
        let (adding, biased) = added.unzip();
        if let Some(bias) = &biased
            && view.trace.values.get(bias.x)?.shape.as_slice() != [columns]
        {
            return Ok(None);
        }
        let Some(bias) = fitting(view, biased, (&scales, columns), depth as u64)? else {
            return Ok(None);
        };
        let Some(bounded) = bounded(view, found, to)? else { return Ok(None) };
        let per_column: Shape =
            if scales.len() == 1 { Shape::new() } else { [scales.len()].into_iter().collect() };
        Ok(Some(Product {
            kind: ProductKind::Matrices,
            w_zero: of_w.zeros.map(|zeros| zeros.reshaped(&[zeros.len()])).transpose()?,
            bias,
            scale: TensorData::new(&per_column, &scales)?,
            product,
            steps: std::iter::once(id).chain(adding).chain(found.steps.iter().copied()).collect(),
            bounded,
            x,
            w,
        }))
    }

    /// Inserts the steps that compute in integers, and returns their result.
    fn inserted(&self, edit: &mut TraceEdit<'_>, id: StepId, to: &Quantized) -> Result<TraceValue, Error> {
        let steps: Vec<StepId> = self.steps.iter().copied().chain([id]).collect();
        let origins = origins(edit.trace(), &steps)?;
        let x_zero = zero_point(edit, self.x.zero, edit.trace().values.get(self.x.x)?.dtype)?;
        let w_zero = match &self.w_zero {
            Some(zeros) if zeros.len() == 1 => edit.constant(zeros.reshaped(&[])?),
            Some(zeros) => edit.constant(zeros.clone()),
            None => zero_point(edit, None, edit.trace().values.get(self.w.x)?.dtype)?,
        };
        let scale = edit.constant(self.scale.clone());
        let y_zero = to.zero(edit)?;
        let y = like(edit.trace(), to.result, to.grid.dtype)?;
        let y = match &self.kind {
            ProductKind::Convolution(params) => {
                let operands = [self.x.x, self.w.x].map(Some);
                let rest = [x_zero, w_zero, scale, to.scale, y_zero].map(Some);
                let inputs = operands.into_iter().chain([self.bias]).chain(rest);
                let new = step(QuantOp::QLinearConv.spec(), params.clone(), inputs, origins.clone());
                insert(edit, id, new, y)?
            }
            ProductKind::Matrices => {
                let sum = self.sums(edit, id, [x_zero, w_zero], &origins)?;
                let inputs = [sum, scale, to.scale, y_zero].map(Some);
                let new = step(QuantOp::Requantize.spec(), Box::default(), inputs, origins.clone());
                insert(edit, id, new, y)?
            }
        };
        match &self.bounded {
            None => Ok(y),
            Some(table) => {
                let table = edit.constant(table.clone());
                look_up(edit, id, [y, table], origins)
            }
        }
    }

    /// Inserts an integer matrix product, and the addition of its bias.
    fn sums(
        &self,
        edit: &mut TraceEdit<'_>,
        id: StepId,
        [x_zero, w_zero]: [TraceValue; 2],
        origins: &StepOrigins,
    ) -> Result<TraceValue, Error> {
        let whole: NewValue = like(edit.trace(), self.product, DataType::I32)?;
        let inputs = [self.x.x, self.w.x, x_zero, w_zero].map(Some);
        let product = step(QuantOp::MatMulInteger.spec(), Box::default(), inputs, origins.clone());
        let product = insert(edit, id, product, whole.clone())?;
        let Some(bias) = self.bias else { return Ok(product) };
        let inputs = [product, bias].map(Some);
        insert(edit, id, step(Primitive::Add.spec(), Box::default(), inputs, origins.clone()), whole)
    }
}

/// Returns whether integers are faster than floats. They are not if groups have few filters, as in a depthwise convolution,
/// because the byte products then have too few rows to share their loads.
fn pays(filters: usize, groups: usize) -> bool {
    groups == 1 || filters.checked_div(groups).is_some_and(|filters| filters >= FEW_FILTERS)
}

/// Matches the operands of a product: varying bytes with one scale, and constant bytes.
fn operands(view: View<'_>, [x, w]: [TraceValue; 2]) -> Result<Option<(Dequantized, Dequantized)>, Error> {
    let [x, w] = [Dequantized::making(view, x)?, Dequantized::making(view, w)?];
    let (Some(x), Some(w)) = (x, w) else { return Ok(None) };
    let varies = !view.trace.values.get(x.x)?.source.is_constant();
    let fit = varies && is_known(view, w.x)? && x.grid(view)?.is_some();
    Ok(fit.then_some((x, w)))
}

/// Returns whether a value is a constant, or a transposed constant, so that its extents are the same in all runs.
fn is_known(view: View<'_>, value: TraceValue) -> Result<bool, Error> {
    let mut value = value;
    while let Some((_, step)) = view.maker(value)? {
        match (step.operation.primitive(), step.inputs.as_slice()) {
            (Some(Primitive::Transpose), &[Some(operand)]) => value = operand,
            _ => return Ok(false),
        }
    }
    Ok(view.trace.values.get(value)?.source.is_constant())
}

/// Returns the table that clamps each byte. The inner `None` means that clamping changes no byte; the outer `None` means that
/// the backend has no native table look-up.
fn bounded(view: View<'_>, found: &Unbounded, to: &Quantized) -> Result<Option<Option<TensorData>>, Error> {
    let table = found.table(&to.grid)?;
    Ok((table.is_none() || view.options.natives.has(QuantOp::Lookup.spec())).then_some(table))
}

impl<'t> Scales<'t> {
    /// Reads the scales and zero points of the second operand: one for all, or `count` of them in a shape that `along` accepts.
    fn of(
        view: View<'t>,
        w: &Dequantized,
        count: usize,
        along: impl Fn(&[usize]) -> bool,
    ) -> Result<Option<Scales<'t>>, Error> {
        let dtype = view.trace.values.get(w.x)?.dtype;
        let fits = |shape: &[usize], len: usize| len == 1 || (len == count && along(shape));
        let Some((shape, scales)) = view.floats(w.scale)? else { return Ok(None) };
        if !are_bytes(dtype) || !fits(shape, scales.len()) {
            return Ok(None);
        }
        let zeros = match w.zero.map(|zero| view.data(zero)).transpose()? {
            None => None,
            Some(Some(zeros)) if zeros.dtype() == dtype && fits(zeros.shape(), zeros.len()) => Some(zeros),
            Some(_) => return Ok(None),
        };
        // Zero points of weights are usually 0. Then they need no correction and are dropped.
        let zeros = match zeros {
            Some(zeros) if bytes(zeros)?.iter().all(|&zero| zero == 0) => None,
            zeros => zeros,
        };
        Ok(Some(Scales { scales, zeros }))
    }

    /// Multiplies the scales by the scale of the first operand.
    fn times(&self, view: View<'_>, x: &Dequantized, count: usize) -> Result<Option<Vec<f32>>, Error> {
        let Some(grid) = x.grid(view)? else { return Ok(None) };
        let products: Vec<f32> = self.scales.iter().map(|scale| grid.scale * scale).collect();
        debug_assert!(products.len() == 1 || products.len() == count);
        Ok(products.iter().all(|&scale| is_plain(scale)).then_some(products))
    }
}

/// Returns the integers of a bias, if its scales are the scales of the products and no sum of `terms` products and the bias
/// overflows. The inner `None` means that there is no bias; the outer `None` means that a condition is not met.
fn fitting(
    view: View<'_>,
    bias: Option<Dequantized>,
    (scales, count): (&[f32], usize),
    terms: u64,
) -> Result<Option<Option<TraceValue>>, Error> {
    let room = (i32::MAX as u64).checked_sub(terms.saturating_mul(GREATEST));
    let Some(room) = room else { return Ok(None) };
    let Some(bias) = bias else { return Ok(Some(None)) };
    let (Some(numbers), Some((_, own))) = (view.data(bias.x)?, view.floats(bias.scale)?) else {
        return Ok(None);
    };
    let zero = match bias.zero.map(|zero| view.data(zero)).transpose()? {
        None => true,
        Some(Some(zeros)) if zeros.dtype() == DataType::I32 => {
            zeros.as_slice::<i32>()?.iter().all(|&z| z == 0)
        }
        Some(_) => false,
    };
    if numbers.dtype() != DataType::I32 || numbers.shape() != [count] || !zero {
        return Ok(None);
    }
    let at = |list: &[f32], i: usize| list.get(if list.len() == 1 { 0 } else { i }).copied();
    let same = |i: usize| match (at(own, i), at(scales, i)) {
        (Some(own), Some(scale)) => (own - scale).abs() <= scale * f32::EPSILON,
        _ => false,
    };
    let small = numbers.as_slice::<i32>()?.iter().all(|x| u64::from(x.unsigned_abs()) <= room);
    Ok((small && (0..count).all(same)).then_some(Some(bias.x)))
}
