//! Symbolic parameters of steps: expressions that are evaluated when the inputs' extents are known.

use super::{Extent, negative};
use crate::Error;
use bb_ir::graph::DimExpr;
use bb_ir::infer::RuleParam;
use bb_ir::op::Param;
use bb_ir::{DataType, Shape};
use smallvec::SmallVec;

/// The parameters of a step that are expressions. The step's own parameters have the values for the traced
/// extents.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SymbolicParams(pub(crate) Vec<SymbolicParam>);

/// One symbolic parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SymbolicParam {
    /// The index of the parameter among the step's parameters.
    pub(crate) param: usize,
    pub(crate) value: SymbolicValue,
}

/// The value of a symbolic parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SymbolicValue {
    /// The symbolic entries of a list of integers or extents, each with its index and expression.
    List(Vec<(usize, DimExpr)>),
    /// A host tensor of integers.
    Data(DataType, Recipe),
}

/// The computation of a tensor of integers from extents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Recipe {
    /// Each element is an expression.
    Elements(Shape, Vec<DimExpr>),
    /// `start`, `start + step`, …: `count` elements.
    Range { start: DimExpr, step: DimExpr, count: DimExpr },
}

/// Returns parameters with the values for the traced extents, and the parameters that are expressions.
///
/// # Errors
///
/// [`Error::Operator`] if an extent is negative.
pub(super) fn split<'a>(
    params: &[RuleParam<'a, Extent>],
) -> Result<(SmallVec<[Param<'a>; 4]>, Option<SymbolicParams>), Error> {
    let mut numbers = SmallVec::new();
    let mut symbolic = SymbolicParams::default();
    for (at, param) in params.iter().enumerate() {
        let list = |extents: &[Extent]| {
            let expr = |(at, extent): (usize, &Extent)| Some((at, extent.required()?.clone()));
            extents.iter().enumerate().filter_map(expr).collect::<Vec<_>>()
        };
        let value = match param {
            RuleParam::Fixed(param) => {
                numbers.push((*param).clone());
                None
            }
            RuleParam::Ints(extents) => {
                numbers.push(Param::Ints(extents.iter().map(Extent::present).collect()));
                Some(SymbolicValue::List(list(extents)))
            }
            RuleParam::Extents(extents) => {
                let shape: Option<Vec<usize>> =
                    extents.iter().map(|extent| usize::try_from(extent.present()).ok()).collect();
                numbers.push(Param::Extents(shape.ok_or_else(|| negative(extents))?.into()));
                Some(SymbolicValue::List(list(extents)))
            }
        };
        match value {
            Some(SymbolicValue::List(list)) if list.is_empty() => {}
            Some(value) => symbolic.0.push(SymbolicParam { param: at, value }),
            None => {}
        }
    }
    Ok((numbers, (!symbolic.0.is_empty()).then_some(symbolic)))
}
