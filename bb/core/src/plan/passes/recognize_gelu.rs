//! Replaces the steps of a GELU, by the error function or by tanh, by one operation.
//!
//! ```text
//! y = x * (1 + erf(x / sqrt(2))) / 2
//! y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2
//! ```
//!
//! Factors may come in any order, and any of them may include the factor 1/2. The argument of `erf` or `tanh`, here called the
//! curve, is compared as a polynomial in `x`, so the way it is written does not matter either.
//!
//! The operation computes the same formula without the cancellation of `1 + erf(x)` for negative `x`. Its error is at most the
//! error of the steps, and the last digits may differ. For minus infinity it yields the limit 0, whereas the steps yield NaN.
//! [`PassSwitches::recognize`](crate::PassSwitches::recognize) switches the pass off.

use super::matching::Matching;
use super::pattern::Pattern;
use super::quantised::calls;
use super::recognized::{Call, find, has_call, replace_by_calls};
use super::{Pass, PassOptions};
use crate::ext::{NnOp, Scalar, ScalarOp};
use crate::plan::engine::Engine;
use crate::trace::{StepId, Trace, TraceValue};
use crate::{Backend, DataType, Error, Primitive};
use bb_ir::op::Param;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

pub(super) const PASS: Pass = Pass { name: "recognize-gelu", engines: &[Engine::Interpreter], run };

/// Returns the relative tolerance for constants of an element type; `None` for types that are not replaced. Exporters write at
/// least seven digits, but half floats have fewer. The tolerance allows for the product of two rounded constants.
fn tolerance(dtype: DataType) -> Option<f64> {
    match dtype {
        DataType::F32 => Some(1e-6),
        DataType::F16 => Some(2f64.powi(-10)),
        DataType::BF16 => Some(2f64.powi(-7)),
        _ => None,
    }
}

/// The maximum number of nested steps in the argument of the curve. Exporters need five.
const DEPTH: usize = 6;

/// The coefficients of 1, `x`, `x²` and `x³`.
type Polynomial = [f64; 4];

/// The slot that collects the factors of the curve.
const CURVE: usize = 0;

/// The slot that collects all other factors.
const PRODUCT: usize = 1;

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let native = options.switches.recognize && options.natives.has(NnOp::Gelu.spec());
    if !native || !has_call(trace, &[ScalarOp::Erf.spec(), ScalarOp::Tanh.spec()]) {
        return Ok(0);
    }
    let found = find(trace, options, &[product_with_curve(false)?, product_with_curve(true)?], accepted)?;
    replace_by_calls(trace, found)
}

/// Returns the pattern of the product of `x` and a sum that contains the curve. Each of them may have factors.
fn product_with_curve(tanh: bool) -> Result<Pattern, Error> {
    Pattern::of([DataType::F32; 3], |on, [x, argument, addend]| {
        let curve = if tanh { on.tanh(&argument)? } else { on.erf(&argument)? };
        let sum = on.add(&on.scaled(CURVE, &curve), &addend)?;
        Ok(on.scaled(PRODUCT, &on.mul(&on.scaled(PRODUCT, &sum), &on.scaled(PRODUCT, &x))?))
    })
}

/// Accepts a match if the factors amount to 1/2, for `x` and for its product with the curve, and if the argument of the curve
/// is the expected polynomial in `x`.
fn accepted(matching: &Matching<'_>, steps: &mut Vec<StepId>) -> Result<Option<Call>, Error> {
    let &Matching { view, result, .. } = matching;
    let [Some(x), Some(argument), Some(addend)] = matching.operands() else { return Ok(None) };
    let [of, made] = [view.trace.values.get(x)?, view.trace.values.get(result)?];
    let (Some(addend), Some(tolerance)) = (view.number(addend)?, tolerance(of.dtype)) else {
        return Ok(None);
    };
    let is_near = |found: f64, expected: f64| (found - expected).abs() <= tolerance * expected.abs();
    let [curve, product] = [CURVE, PRODUCT].map(|slot| matching.factor(slot));
    let halves = is_near(product * curve, 0.5) && is_near(product * f64::from(addend), 0.5);
    // A number of higher rank would raise the rank of the result.
    if !halves || of.shape != made.shape {
        return Ok(None);
    }
    let tanh = matching.calling(ScalarOp::Tanh.spec()).next().is_some();
    let scale = 0.5 * FRAC_2_SQRT_PI * SQRT_2;
    let expected = if tanh { [0.0, scale, 0.0, 0.044_715 * scale] } else { [0.0, FRAC_1_SQRT_2, 0.0, 0.0] };
    let same = polynomial(matching, steps, argument, x, DEPTH)?
        .is_some_and(|found| found.iter().zip(expected).all(|(&found, expected)| is_near(found, expected)));
    let params = Box::new([Param::Bool(tanh)]);
    Ok(same.then(|| Call { spec: NnOp::Gelu.spec(), params, inputs: vec![Some(x)] }))
}

/// Reads a value as a polynomial in `x`, and adds its steps to the list; `None` if it is not a polynomial of degree three or
/// less.
fn polynomial(
    matching: &Matching<'_>,
    steps: &mut Vec<StepId>,
    value: TraceValue,
    x: TraceValue,
    depth: usize,
) -> Result<Option<Polynomial>, Error> {
    if value == x {
        return Ok(Some([0.0, 1.0, 0.0, 0.0]));
    }
    if let Some(number) = matching.view.number(value)? {
        return Ok(Some([number.into(), 0.0, 0.0, 0.0]));
    }
    let (Some((id, step)), Some(depth)) = (matching.view.maker(value)?, depth.checked_sub(1)) else {
        return Ok(None);
    };
    let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
    steps.push(id);
    let is = |op: Primitive| calls(step, op.spec());
    let [add, mul, div, pow] = [Primitive::Add, Primitive::Mul, Primitive::Div, Primitive::Pow].map(is);
    if !(add || mul || div || pow) {
        return Ok(None);
    }
    let Some(a) = polynomial(matching, steps, a, x, depth)? else { return Ok(None) };
    if add || mul {
        let Some(b) = polynomial(matching, steps, b, x, depth)? else { return Ok(None) };
        return Ok(if mul { product(a, b) } else { Some(sum(a, b)) });
    }
    Ok(match matching.view.number(b)? {
        Some(by) if div => Some(a.map(|part| part / f64::from(by))),
        Some(2.0) => product(a, a),
        Some(3.0) => product(a, a).and_then(|square| product(square, a)),
        _ => None,
    })
}

/// Adds two polynomials.
fn sum(mut a: Polynomial, b: Polynomial) -> Polynomial {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// Multiplies two polynomials; `None` if the degree exceeds three.
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
    use crate::contract::PassSwitches;
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

    #[test]
    fn the_half_may_be_a_product_of_several_factors() {
        let (count, text) = recognized(|on, x| {
            Ok(vec![on.mul(&times(on, x, 0.25)?, &times(on, &by_erf(on, x)?, 2.0)?)?])
        });
        assert_eq!(count, 6, "{text}");
        assert!(text.contains(": f32[2, 3] = gelu(input0) {tanh=false}\n"), "{text}");
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
            // In order: wrong values of the half, the one and the root, a wrong operand, a wrong cube, and a wrong scale.
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
