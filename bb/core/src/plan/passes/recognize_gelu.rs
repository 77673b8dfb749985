//! Replaces a GELU that an exporter spelled out, by the error function or by tanh, by one operation.
//!
//! ```text
//! y = x * (1 + erf(x / sqrt(2))) / 2
//! y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2
//! ```
//!
//! Factors may come in any order, and any of them may carry the factor 1/2. The argument of the curve is compared as a
//! polynomial in `x`, so its spelling does not matter either.
//!
//! The operation computes the same formula without the cancellation of `1 + erf(x)` for negative `x`. Its error is at most the
//! error of the steps, and the last digits may differ. For minus infinity it gives the limit, 0, whereas the steps give NaN.
//! [`PassSwitches::recognize`](crate::PassSwitches::recognize) switches the pass off.

use super::quantised::{calls, insert, step};
use super::recognized::{is_closed, number, origins, replace, with_factor, with_number};
use super::{Pass, PassOptions};
use crate::ext::{NnOp, ScalarOp};
use crate::plan::program::Engine;
use crate::trace::{NewValue, StepId, Trace, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use bb_ir::op::Param;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

pub(super) const PASS: Pass = Pass { name: "recognize-gelu", engines: &[Engine::Interpreter], run };

/// Returns the relative tolerance of a constant; `None` for elements that no GELU has. Exporters write seven digits or more,
/// and halves keep fewer. The tolerance allows for the product of two rounded constants.
fn tolerance(dtype: DataType) -> Option<f64> {
    match dtype {
        DataType::F32 => Some(1e-6),
        DataType::F16 => Some(2f64.powi(-10)),
        DataType::BF16 => Some(2f64.powi(-7)),
        _ => None,
    }
}

/// The maximum depth of the argument of the curve: exporters need five steps.
const DEPTH: usize = 6;

/// Coefficients of 1, `x`, `x²` and `x³`.
type Polynomial = [f64; 4];

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let spec = NnOp::Gelu.spec();
    if !options.switches.recognize || !options.natives.has(spec) {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let mut found = Vec::new();
    for (id, _) in trace.steps.iter() {
        let matching = GeluMatch { trace, uses: &uses, options, steps: Vec::new() };
        found.extend(matching.gelu(id)?);
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for Gelu { x, tanh, last, result, steps } in found {
        count += steps.len();
        let new =
            step(spec, Box::new([Param::Bool(tanh)]), [Some(x)], origins(edit.trace(), &steps)?);
        let like = NewValue::like(edit.trace().values.get(result)?);
        let made = insert(&mut edit, last, new, like)?;
        replace(&mut edit, result, made, &steps)?;
    }
    edit.finish()?;
    Ok(count)
}

/// A matched GELU.
struct Gelu {
    x: TraceValue,
    tanh: bool,
    /// The step whose result is replaced.
    last: StepId,
    result: TraceValue,
    /// The steps that the operation replaces, in order.
    steps: Vec<StepId>,
}

/// The state of a match.
struct GeluMatch<'t> {
    trace: &'t Trace,
    uses: &'t Uses,
    options: PassOptions<'t>,
    steps: Vec<StepId>,
}

impl GeluMatch<'_> {
    /// Matches the steps around one that computes the curve.
    fn gelu(mut self, curve: StepId) -> Result<Option<Gelu>, Error> {
        let step = self.trace.steps.get(curve)?;
        let tanh = calls(step, ScalarOp::Tanh.spec());
        if !tanh && !calls(step, ScalarOp::Erf.spec()) {
            return Ok(None);
        }
        let (&[Some(argument)], &[made]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(None);
        };
        self.steps.push(curve);
        // The product so far is `(sum[0] + sum[1] * curve) * factor`.
        let (mut product, mut sum, mut factor) = (made, [0.0, 1.0], None);
        while let Some(last) = self.uses.only_reader(product)? {
            let step = self.trace.steps.get(last)?;
            let (&[Some(a), Some(b)], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
                break;
            };
            if let Some((of, by)) = with_factor(self.trace, self.options, last)?
                && of == product
            {
                sum = sum.map(|part| part * by);
            } else if let Some((of, by)) = with_number(self.trace, self.options, last, Primitive::Add)?
                && of == product
                && factor.is_none()
            {
                sum[0] += by;
            } else if calls(step, Primitive::Mul.spec()) && factor.is_none() && a != b {
                factor = Some(if a == product { b } else { a });
            } else {
                break;
            }
            self.steps.push(last);
            product = result;
            if let Some(factor) = factor
                && let Some(x) = self.operand(factor, sum, argument, tanh)?
            {
                return self.whole(x, tanh, last, result);
            }
        }
        Ok(None)
    }

    /// Returns `x`, if the factor of the product is `x` or half of `x`, as the sum requires, and the argument of the curve is
    /// the expected polynomial in `x`.
    fn operand(
        &mut self,
        factor: TraceValue,
        sum: [f64; 2],
        argument: TraceValue,
        tanh: bool,
    ) -> Result<Option<TraceValue>, Error> {
        let scale = 0.5 * FRAC_2_SQRT_PI * std::f64::consts::SQRT_2;
        let expected =
            if tanh { [0.0, scale, 0.0, 0.044_715 * scale] } else { [0.0, FRAC_1_SQRT_2, 0.0, 0.0] };
        let Some(tolerance) = tolerance(self.trace.values.get(factor)?.dtype) else { return Ok(None) };
        let is_near = |found: f64, expected: f64| (found - expected).abs() <= tolerance * expected.abs();
        let all = |number: f64| sum.iter().all(|&part| is_near(part, number));
        let half = match self.uses.maker(factor)? {
            Some(id) if all(1.0) => with_factor(self.trace, self.options, id)?
                .filter(|(_, half)| is_near(*half, 0.5))
                .map(|(x, _)| (x, Some(id))),
            _ => None,
        };
        let Some((x, halved)) = half.or_else(|| all(0.5).then_some((factor, None))) else {
            return Ok(None);
        };
        let known = self.steps.len();
        self.steps.extend(halved);
        let same = self.polynomial(argument, x, DEPTH)?.is_some_and(|found| {
            found.iter().zip(expected).all(|(&found, expected)| is_near(found, expected))
        });
        if !same {
            self.steps.truncate(known);
        }
        Ok(same.then_some(x))
    }

    /// Reads a value as a polynomial in `x`; `None` if it is no polynomial of this degree.
    fn polynomial(
        &mut self,
        value: TraceValue,
        x: TraceValue,
        depth: usize,
    ) -> Result<Option<Polynomial>, Error> {
        if value == x {
            return Ok(Some([0.0, 1.0, 0.0, 0.0]));
        }
        if let Some(number) = number(self.trace, self.options, value)? {
            return Ok(Some([number.into(), 0.0, 0.0, 0.0]));
        }
        let (Some(id), Some(depth)) = (self.uses.maker(value)?, depth.checked_sub(1)) else {
            return Ok(None);
        };
        let step = self.trace.steps.get(id)?;
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
        self.steps.push(id);
        let is = |op: Primitive| calls(step, op.spec());
        let [add, mul, div, pow] = [Primitive::Add, Primitive::Mul, Primitive::Div, Primitive::Pow].map(is);
        if !(add || mul || div || pow) {
            return Ok(None);
        }
        let Some(a) = self.polynomial(a, x, depth)? else { return Ok(None) };
        if add || mul {
            let Some(b) = self.polynomial(b, x, depth)? else { return Ok(None) };
            return Ok(if mul { product(a, b) } else { Some(sum(a, b)) });
        }
        Ok(match number(self.trace, self.options, b)? {
            Some(by) if div => Some(a.map(|part| part / f64::from(by))),
            Some(2.0) => product(a, a),
            Some(3.0) => product(a, a).and_then(|square| product(square, a)),
            _ => None,
        })
    }

    /// Checks the result of all steps.
    fn whole(
        mut self,
        x: TraceValue,
        tanh: bool,
        last: StepId,
        result: TraceValue,
    ) -> Result<Option<Gelu>, Error> {
        self.steps.sort_unstable();
        self.steps.dedup();
        let [of, made] = [self.trace.values.get(x)?, self.trace.values.get(result)?];
        // A number with more dimensions would raise the rank of the result.
        let same = of.shape == made.shape && tolerance(of.dtype).is_some();
        if !same || !is_closed(self.trace, self.uses, &self.steps, last)? {
            return Ok(None);
        }
        Ok(Some(Gelu { x, tanh, last, result, steps: self.steps }))
    }
}

/// Adds polynomials.
fn sum(mut a: Polynomial, b: Polynomial) -> Polynomial {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// Multiplies polynomials; `None` if the degree is greater than three.
fn product(a: Polynomial, b: Polynomial) -> Option<Polynomial> {
    let mut product = Polynomial::default();
    for (i, a) in a.into_iter().enumerate() {
        for (j, b) in b.into_iter().enumerate().filter(|(_, b)| a * b != 0.0) {
            *product.get_mut(i + j)? += a * b;
        }
    }
    Some(product)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::ext::{Create, OpSet, Scalar};
    use crate::plan::passes::NativeOps;
    use crate::plan::passes::samples::native;
    use crate::plan::switches::PassSwitches;
    use crate::trace::{TraceStop, TracedTensor, Tracer};
    use bb_ir::op::Family;

    type Made = Result<TracedTensor, TraceStop>;

    fn options() -> PassOptions<'static> {
        let natives = NativeOps::of(&[(Family::Nn, OpSet::default().with(NnOp::Gelu as u16))]);
        PassOptions { natives, ..PassOptions::INTERPRETED }
    }

    fn times(on: &Tracer, x: &TracedTensor, number: f64) -> Made {
        on.mul(x, &on.scalar_like(x, number)?)
    }

    fn shifted(on: &Tracer, x: &TracedTensor) -> Made {
        on.add(&on.scalar_like(x, 1.0)?, x)
    }

    fn recognized(function: impl Fn(&Tracer, &TracedTensor) -> Result<Vec<TracedTensor>, TraceStop>) -> (usize, String) {
        let curves = OpSet::default().with(ScalarOp::Erf as u16).with(ScalarOp::Tanh as u16);
        let mut trace = native(&[(Family::Scalar, curves)], &[&[2, 3]], |on, xs| function(on, &xs[0]));
        let count = run(&mut trace, options()).unwrap();
        trace.check().unwrap();
        (count, trace.to_string())
    }

    fn by_erf(on: &Tracer, x: &TracedTensor) -> Made {
        shifted(on, &on.erf(&on.div(x, &on.scalar_like(x, std::f64::consts::SQRT_2)?)?)?)
    }

    #[test]
    fn the_error_function_in_the_orders_of_exporters() {
        type Order = fn(&Tracer, &TracedTensor) -> Made;
        let orders: [Order; 5] = [
            |on, x| times(on, &on.mul(x, &by_erf(on, x)?)?, 0.5),
            |on, x| on.mul(&times(on, x, 0.5)?, &by_erf(on, x)?),
            |on, x| on.mul(x, &times(on, &by_erf(on, x)?, 0.5)?),
            |on, x| {
                let curve = shifted(on, &on.erf(&times(on, x, 0.707_106_77)?)?)?;
                let y = on.mul(&curve, x)?;
                on.div(&y, &on.scalar_like(&y, 2.0)?)
            },
            |on, x| {
                let half = times(on, &on.erf(&times(on, x, 0.707_106_77)?)?, 0.5)?;
                on.mul(&on.add(&half, &on.scalar_like(&half, 0.5)?)?, x)
            },
        ];
        for order in orders {
            let (count, text) = recognized(|on, x| Ok(vec![order(on, x)?]));
            assert_eq!(count, 5, "{text}");
            let (made, call) = text.split_once(": ").unwrap();
            assert_eq!(call, format!("f32[2, 3] = gelu(input0) {{tanh=false}}\nreturn {made}\n"));
        }
    }

    fn argument(on: &Tracer, x: &TracedTensor, cube: &TracedTensor, scale: f64) -> Made {
        times(on, &on.add(x, &times(on, cube, 0.044_715)?)?, scale)
    }

    #[test]
    fn tanh_of_a_polynomial_however_it_is_written() {
        type Written = fn(&Tracer, &TracedTensor) -> Made;
        let written: [Written; 4] = [
            |on, x| argument(on, x, &on.pow(x, &on.scalar_like(x, 3.0)?)?, 0.797_884_56),
            |on, x| argument(on, x, &on.mul(&on.mul(x, x)?, x)?, 0.797_884_56),
            |on, x| argument(on, x, &on.mul(x, &on.mul(x, x)?)?, 0.797_884_56),
            |on, x| {
                let square = on.mul(&times(on, x, 0.044_715)?, x)?;
                on.mul(&times(on, x, 0.797_884_56)?, &shifted(on, &square)?)
            },
        ];
        for written in written {
            let (count, text) = recognized(|on, x| {
                Ok(vec![on.mul(&times(on, x, 0.5)?, &shifted(on, &on.tanh(&written(on, x)?)?)?)?])
            });
            assert!(count >= 8, "{text}");
            let (made, call) = text.split_once(": ").unwrap();
            assert_eq!(call, format!("f32[2, 3] = gelu(input0) {{tanh=true}}\nreturn {made}\n"));
        }
    }

    #[test]
    fn other_functions_stay() {
        type Other = fn(&Tracer, &TracedTensor) -> Made;
        let others: [Other; 6] = [
            // A wrong half, a wrong one, a wrong root, a wrong operand, a wrong cube, a wrong scale.
            |on, x| times(on, &on.mul(x, &by_erf(on, x)?)?, 0.51),
            |on, x| {
                let erf = on.erf(&times(on, x, 0.707_106_77)?)?;
                times(on, &on.mul(x, &on.add(&erf, &on.scalar_like(x, 2.0)?)?)?, 0.5)
            },
            |on, x| times(on, &on.mul(x, &shifted(on, &on.erf(x)?)?)?, 0.5),
            |on, x| times(on, &on.mul(&on.abs(x)?, &by_erf(on, x)?)?, 0.5),
            |on, x| {
                let argument = argument(on, x, &on.mul(x, x)?, 0.797_884_56)?;
                times(on, &on.mul(x, &shifted(on, &on.tanh(&argument)?)?)?, 0.5)
            },
            |on, x| {
                let argument = argument(on, x, &on.mul(&on.mul(x, x)?, x)?, 0.8)?;
                times(on, &on.mul(x, &shifted(on, &on.tanh(&argument)?)?)?, 0.5)
            },
        ];
        for (case, other) in others.into_iter().enumerate() {
            let (count, text) = recognized(|on, x| Ok(vec![other(on, x)?]));
            assert_eq!(count, 0, "{case}: {text}");
        }
    }

    #[test]
    fn what_others_read_or_the_trace_returns_stays() {
        let (count, _) = recognized(|on, x| {
            let curve = by_erf(on, x)?;
            Ok(vec![times(on, &on.mul(x, &curve)?, 0.5)?, curve])
        });
        assert_eq!(count, 0);
        let (count, _) = recognized(|on, x| {
            let half = times(on, x, 0.5)?;
            Ok(vec![on.mul(&half, &by_erf(on, x)?)?, on.neg(&half)?])
        });
        assert_eq!(count, 0);
    }

    #[test]
    fn a_number_of_many_dimensions_gives_the_result_its_rank() {
        let (count, _) = recognized(|on, x| {
            let half = on.constant(&crate::TensorData::new(&[1, 1, 1], &[0.5f32])?)?;
            Ok(vec![on.mul(&on.mul(x, &by_erf(on, x)?)?, &half)?])
        });
        assert_eq!(count, 0);
    }

    #[test]
    fn without_the_option_or_the_operation_nothing_changes() {
        let curves = OpSet::default().with(ScalarOp::Erf as u16);
        for options in [PassOptions { switches: PassSwitches { recognize: false, ..options().switches }, ..options() }, PassOptions::INTERPRETED] {
            let mut trace = native(&[(Family::Scalar, curves)], &[&[2, 3]], |on, xs| {
                Ok(vec![times(on, &on.mul(&xs[0], &by_erf(on, &xs[0])?)?, 0.5)?])
            });
            assert_eq!(run(&mut trace, options).unwrap(), 0);
        }
    }
}
