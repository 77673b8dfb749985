//! Parameters that are symbolic expressions, evaluated in each run of a plan.

use super::guard::{FlatExpr, SymbolPlaces};
use crate::Error;
use crate::erased::AnyTensor;
use crate::trace::{Recipe, SymbolicParams, SymbolicValue};
use bb_ir::graph::DimExpr;
use bb_ir::op::Param;
use bb_ir::{DataType, Shape, TensorData, memory};
use smallvec::SmallVec;
use std::borrow::Cow;

/// The parameters of an instruction that are symbolic expressions.
#[derive(Debug)]
pub(crate) struct RuntimeParams(Box<[RuntimeParam]>);

#[derive(Debug)]
struct RuntimeParam {
    param: usize,
    value: RuntimeValue,
}

#[derive(Debug)]
enum RuntimeValue {
    List(Box<[(usize, FlatExpr)]>),
    Elements(DataType, Shape, Box<[FlatExpr]>),
    Range { start: FlatExpr, step: FlatExpr, count: FlatExpr },
}

impl RuntimeParams {
    /// Compiles the expressions.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if an expression contains a name that is not a symbol.
    pub(super) fn new(params: &SymbolicParams, symbols: &SymbolPlaces<'_>) -> Result<RuntimeParams, Error> {
        let flat = |expr: &DimExpr| FlatExpr::new(expr, symbols);
        let one = |value: &SymbolicValue| -> Result<RuntimeValue, Error> {
            Ok(match value {
                SymbolicValue::List(list) => {
                    let each = list.iter().map(|(at, expr)| Ok((*at, flat(expr)?)));
                    RuntimeValue::List(each.collect::<Result<_, Error>>()?)
                }
                SymbolicValue::Data(dtype, Recipe::Elements(shape, exprs)) => RuntimeValue::Elements(
                    *dtype,
                    shape.clone(),
                    exprs.iter().map(flat).collect::<Result<_, Error>>()?,
                ),
                SymbolicValue::Data(_, Recipe::Range { start, step, count }) => {
                    RuntimeValue::Range { start: flat(start)?, step: flat(step)?, count: flat(count)? }
                }
            })
        };
        let params = params.0.iter().map(|p| Ok(RuntimeParam { param: p.param, value: one(&p.value)? }));
        Ok(RuntimeParams(params.collect::<Result<_, Error>>()?))
    }

    /// Returns the parameters for these inputs; `params` are the parameters in the trace.
    ///
    /// # Errors
    ///
    /// [`Error::Ir`] if a number does not fit its type, or a tensor does not fit into memory.
    pub(super) fn of<'p, T: AnyTensor>(
        &self,
        params: &'p [Param<'static>],
        inputs: &[&T],
    ) -> Result<SmallVec<[Param<'p>; 4]>, Error> {
        let overflow = || Error::from(bb_ir::Error::Overflow { op: "extents", shape: Box::default() });
        let value = |expr: &FlatExpr| expr.value(inputs).ok_or_else(overflow);
        let mut all: SmallVec<[Param<'p>; 4]> = SmallVec::with_capacity(params.len());
        for (at, param) in params.iter().enumerate() {
            let Some(own) = self.0.iter().find(|own| own.param == at) else {
                all.push(borrowed(param));
                continue;
            };
            all.push(match (&own.value, param) {
                (RuntimeValue::List(list), Param::Ints(numbers)) => {
                    let mut numbers = numbers.to_vec();
                    for (at, expr) in list {
                        *numbers.get_mut(*at).ok_or_else(overflow)? = value(expr)?;
                    }
                    Param::Ints(Cow::Owned(numbers))
                }
                (RuntimeValue::List(list), Param::Extents(numbers)) => {
                    let mut numbers = numbers.to_vec();
                    for (at, expr) in list {
                        let number = usize::try_from(value(expr)?).map_err(|_| overflow())?;
                        *numbers.get_mut(*at).ok_or_else(overflow)? = number;
                    }
                    Param::Extents(Cow::Owned(numbers))
                }
                (RuntimeValue::List(_), _) => return Err(overflow()),
                (RuntimeValue::Elements(dtype, shape, exprs), _) => {
                    let values: SmallVec<[i64; 8]> = exprs.iter().map(value).collect::<Result<_, _>>()?;
                    Param::Data(Cow::Owned(integers(*dtype, shape, &values).ok_or_else(overflow)?))
                }
                (RuntimeValue::Range { start, step, count }, _) => {
                    let (start, step, count) = (value(start)?, value(step)?, value(count)?);
                    let count = usize::try_from(count).map_err(|_| overflow())?;
                    let last =
                        i64::try_from(count).ok().and_then(|n| n.checked_mul(step)?.checked_add(start));
                    last.ok_or_else(overflow)?;
                    let elements = memory::collected("range", (0..count as i64).map(|i| start + i * step))?;
                    Param::Data(Cow::Owned(TensorData::new(&[count], &elements)?))
                }
            });
        }
        Ok(all)
    }
}

/// Returns a parameter that borrows its contents from another one.
fn borrowed<'p>(param: &'p Param<'static>) -> Param<'p> {
    match param {
        Param::Ints(list) => Param::Ints(Cow::Borrowed(list)),
        Param::Floats(list) => Param::Floats(Cow::Borrowed(list)),
        Param::Extents(list) => Param::Extents(Cow::Borrowed(list)),
        Param::Text(text) => Param::Text(Cow::Borrowed(text)),
        Param::Data(data) => Param::Data(Cow::Borrowed(data)),
        other => other.clone(),
    }
}

/// Creates a tensor of integers; `None` if a value does not fit the element type.
fn integers(dtype: DataType, shape: &[usize], values: &[i64]) -> Option<TensorData> {
    match dtype {
        DataType::I64 => TensorData::new(shape, values).ok(),
        DataType::I32 => {
            let values: SmallVec<[i32; 8]> =
                values.iter().map(|&v| i32::try_from(v).ok()).collect::<Option<_>>()?;
            TensorData::new(shape, &values).ok()
        }
        DataType::Bool => {
            let values: SmallVec<[bool; 8]> = values.iter().map(|&v| v != 0).collect();
            TensorData::bools(shape, &values).ok()
        }
        _ => None,
    }
}
