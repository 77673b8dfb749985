//! The conditions on inputs under which a plan is valid: element types, ranks, fixed extents, and guards.
//!
//! Dimension expressions are compiled to short programs for a stack machine, which read extents by index. So checking inputs
//! involves no look-up by name, no hashing and no allocation.

use crate::contract::most_elements;
use crate::erased::AnyTensor;
use crate::trace::{
    Event, Guard, InputIndex, MOST_COMPARED, Phase, Place, Relation, Symbol, TableIndex, Trace, needed,
};
use crate::{Error, RunOptions};
use bb_ir::graph::{DimExpr, Postfix};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// The location of each symbolic dimension, by name: the index of an input, and an axis.
pub(super) struct SymbolPlaces<'a>(HashMap<&'a str, Place>);

impl<'a> SymbolPlaces<'a> {
    pub(super) fn new(symbols: &'a [Symbol]) -> SymbolPlaces<'a> {
        let place = |symbol: &'a Symbol| Some((symbol.name.as_str(), *symbol.places.first()?));
        SymbolPlaces(symbols.iter().filter_map(place).collect())
    }
}

/// A dimension expression, compiled to a program over the extents of inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FlatExpr(Box<[FlatOp]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlatOp {
    Number(i64),
    Extent(Place),
    Add,
    Multiply,
    Quotient(i64),
    Greater,
    Lesser,
}

impl FlatExpr {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if it contains a name that is not a symbol.
    pub(super) fn new(expr: &DimExpr, symbols: &SymbolPlaces<'_>) -> Result<FlatExpr, Error> {
        let mut ops = Vec::new();
        let mut complete = true;
        expr.postfix(&mut |part| {
            ops.push(match part {
                Postfix::Number(n) => FlatOp::Number(n),
                Postfix::Add => FlatOp::Add,
                Postfix::Multiply => FlatOp::Multiply,
                Postfix::Quotient(by) => FlatOp::Quotient(by),
                Postfix::Greater => FlatOp::Greater,
                Postfix::Lesser => FlatOp::Lesser,
                Postfix::Name(name) => match symbols.0.get(name) {
                    Some(place) => FlatOp::Extent(*place),
                    None => {
                        complete = false;
                        FlatOp::Number(0)
                    }
                },
            });
        });
        if complete {
            Ok(FlatExpr(ops.into()))
        } else {
            Err(Error::excluded("names to be symbols of the trace"))
        }
    }

    /// Evaluates the expression; `None` on overflow.
    #[inline]
    pub(super) fn value<T: AnyTensor + ?Sized>(&self, inputs: &[&T]) -> Option<i64> {
        if let [FlatOp::Extent(place)] = *self.0 {
            return extent(inputs, place);
        }
        let mut stack: SmallVec<[i64; 16]> = SmallVec::new();
        for op in &self.0 {
            let value = match *op {
                FlatOp::Number(n) => n,
                FlatOp::Extent(place) => extent(inputs, place)?,
                FlatOp::Quotient(by) => stack.pop()?.checked_div_euclid(by)?,
                FlatOp::Add | FlatOp::Multiply | FlatOp::Greater | FlatOp::Lesser => {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    match op {
                        FlatOp::Add => a.checked_add(b)?,
                        FlatOp::Multiply => a.checked_mul(b)?,
                        FlatOp::Greater => a.max(b),
                        _ => a.min(b),
                    }
                }
            };
            stack.push(value);
        }
        stack.pop()
    }
}

#[inline]
fn extent<T: AnyTensor + ?Sized>(inputs: &[&T], place: Place) -> Option<i64> {
    let extent = inputs.get(place.input.position())?.shape().get(place.axis as usize)?;
    i64::try_from(*extent).ok()
}

/// The assumptions of a plan about one input.
#[derive(Debug)]
pub(super) struct InputGuard {
    dtype: DataType,
    rank: usize,
    /// The fixed extents, as pairs of axis and extent.
    fixed: Box<[(u32, usize)]>,
    value: Option<TensorData>,
}

impl InputGuard {
    /// Returns whether tensors with different extents pass the guard.
    pub(super) fn is_open(&self) -> bool {
        self.value.is_none() && (self.fixed.len() < self.rank || self.rank == 0)
    }

    /// Returns whether only one extent along an axis passes the guard.
    pub(super) fn fixes(&self, axis: usize) -> bool {
        self.value.is_some() || self.fixed.iter().any(|(fixed, _)| *fixed as usize == axis)
    }

    #[inline]
    fn holds(&self, x: &dyn AnyTensor, value: Option<&TensorData>) -> bool {
        let shape = x.shape();
        self.dtype == x.dtype()
            && self.rank == shape.len()
            && self.fixed.iter().all(|(axis, extent)| shape.get(*axis as usize) == Some(extent))
            && self.value.as_ref().is_none_or(|v| Some(v) == value)
    }
}

/// The conditions on inputs under which a plan is valid.
#[derive(Debug)]
pub(super) struct Guards {
    pub(super) inputs: Box<[InputGuard]>,
    /// Pairs of extents with the same symbol, which the plan assumes to be equal.
    equal: Box<[(Place, Place)]>,
    conditions: Box<[(FlatExpr, Relation)]>,
}

impl Guards {
    /// Collects the conditions of a trace; `inputs` are the element types, shapes and known values that it was traced with.
    ///
    /// A plan is valid only for inputs that lead to no value of more than `value_bytes` bytes. Other inputs are traced anew,
    /// and the new trace reports the value that is too large.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if an expression contains a name that is not a symbol.
    pub(super) fn new(
        trace: &Trace,
        inputs: impl IntoIterator<Item = (DataType, Shape, Option<TensorData>)>,
        value_bytes: usize,
    ) -> Result<Guards, Error> {
        let mut tied = vec![false; trace.symbols.len()];
        for event in &trace.events {
            if let Event::Tied(no) = event
                && let Some(place) = tied.get_mut(*no as usize)
            {
                *place = true;
            }
        }
        let free: Vec<&Symbol> =
            trace.symbols.iter().zip(&tied).filter(|(_, tied)| !**tied).map(|(symbol, _)| symbol).collect();
        let open: HashSet<Place> = free.iter().flat_map(|symbol| symbol.places.iter().copied()).collect();
        let is_free = |place: Place| open.contains(&place);
        let guard = |(input, (dtype, shape, value)): (usize, (DataType, Shape, Option<TensorData>))| {
            let place = |axis: usize| Place { input: InputIndex::at(input), axis: axis as u32 };
            let fixed =
                shape.iter().enumerate().filter(|(axis, _)| value.is_none() && !is_free(place(*axis)));
            let fixed = fixed.map(|(axis, extent)| (axis as u32, *extent)).collect();
            InputGuard { dtype, rank: shape.len(), fixed, value }
        };
        let inputs = inputs.into_iter().enumerate().map(guard).collect();
        let pairs = |symbol: &&Symbol| {
            let first = symbol.places.first().copied();
            let rest: Vec<Place> = symbol.places.iter().skip(1).copied().collect();
            first.into_iter().flat_map(move |first| rest.clone().into_iter().map(move |place| (first, place)))
        };
        let equal = free.iter().flat_map(pairs).collect();
        let names: HashSet<&str> = free.iter().map(|symbol| symbol.name.as_str()).collect();
        let is_tied = |expr: &DimExpr| {
            let mut all = true;
            expr.names(&mut |name| all &= !names.contains(name));
            all
        };
        let places = SymbolPlaces::new(&trace.symbols);
        let condition = |guard: &Guard| -> Result<(FlatExpr, Relation), Error> {
            Ok((FlatExpr::new(&guard.expr, &places)?, guard.relation))
        };
        let asked = needed(&trace.events)?;
        let asked =
            asked.iter().map(|(_, guard)| *guard).filter(|guard| !is_tied(&guard.expr)).map(condition);
        let sizes = sizes(trace, value_bytes)?;
        let sizes = sizes.iter().filter(|guard| !is_tied(&guard.expr)).map(condition);
        let conditions = asked.chain(sizes).collect::<Result<_, _>>()?;
        Ok(Guards { inputs, equal, conditions })
    }

    /// Returns whether the plan is valid for only one combination of extents.
    pub(super) fn are_fixed(&self) -> bool {
        self.inputs.iter().all(|input| input.value.is_some() || input.fixed.len() == input.rank)
    }

    /// Returns whether the plan is valid for these inputs; `value` returns the elements of the inputs that were read for some
    /// plan.
    #[inline]
    pub(super) fn hold<'v>(
        &self,
        inputs: &[&dyn AnyTensor],
        value: impl Fn(usize) -> Option<&'v TensorData>,
    ) -> bool {
        self.inputs.iter().zip(inputs).enumerate().all(|(i, (guard, x))| guard.holds(*x, value(i)))
            && self.equal.iter().all(|(a, b)| extent(inputs, *a) == extent(inputs, *b))
            && self
                .conditions
                .iter()
                .all(|(expr, relation)| expr.value(inputs).is_some_and(|number| relation.holds(number)))
    }
}

/// Returns the conditions under which no step of a run has a result that is too large. Conditions that follow from others are
/// omitted.
fn sizes(trace: &Trace, value_bytes: usize) -> Result<Vec<Guard>, Error> {
    let made = trace.steps.entries().filter(|step| step.phase == Phase::EachRun);
    let values = made.flat_map(|step| &step.outputs).filter_map(|value| trace.values.get(*value).ok());
    let mut guards: Vec<Guard> = Vec::new();
    // Many values of a graph have the same extents.
    let mut seen: HashSet<(&DimExpr, usize)> = HashSet::new();
    for value in values {
        RunOptions::check_current()?;
        let Some(count) = &value.elements else { continue };
        let most = most_elements(value.dtype, value_bytes);
        if !seen.insert((count, most)) {
            continue;
        }
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        // If this count cannot be compared as an expression, the run checks the size of the value itself.
        let Some(left) = DimExpr::from(most).minus(count) else { continue };
        let guard = Guard::at_least_zero(&left);
        // Only the latest guards are compared, to bound the time. A redundant guard does no harm.
        let latest = guards.len().saturating_sub(MOST_COMPARED);
        if !guards.iter().skip(latest).any(|other| guard.follows_from(other)) {
            let rest = guards.split_off(latest);
            guards.extend(rest.into_iter().filter(|other| !other.follows_from(&guard)));
            guards.push(guard);
        }
    }
    Ok(guards)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Tensor;

    /// A tensor with a shape but no elements.
    #[derive(Clone)]
    struct ShapeTensor(Vec<usize>);

    impl Tensor for ShapeTensor {
        fn dtype(&self) -> DataType {
            DataType::F32
        }

        fn shape(&self) -> &[usize] {
            &self.0
        }
    }

    #[test]
    fn programs_say_what_expressions_do() {
        let names = ["a", "b", "c"];
        let symbol = |(at, name): (usize, &&str)| Symbol {
            name: (*name).to_owned(),
            number: 0,
            places: SmallVec::from_elem(Place { input: InputIndex::at(at / 2), axis: at as u32 % 2 }, 1),
        };
        let symbols: Vec<Symbol> = names.iter().enumerate().map(symbol).collect();
        let places = SymbolPlaces::new(&symbols);
        let [a, b, c] = names.map(DimExpr::name);
        let exprs = [
            DimExpr::from(-3),
            a.clone(),
            a.plus(&b).unwrap().times(&c).unwrap().minus(&DimExpr::from(5)).unwrap(),
            a.times(&a).unwrap().scaled(-2).unwrap().plus(&b).unwrap().floor_div(3).unwrap(),
            a.lesser(&b.scaled(2).unwrap()).unwrap().greater(&c).unwrap().plus(&a).unwrap(),
            a.plus(&b).unwrap().floor_div(2).unwrap().minus(&c).unwrap().floor_div(4).unwrap(),
        ];
        for expr in &exprs {
            let flat = FlatExpr::new(expr, &places).unwrap();
            for numbers in [[0, 0, 0], [1, 0, 7], [5, 9, 2], [12, 3, 40], [1 << 20, 3, 1]] {
                let inputs = [ShapeTensor(numbers[..2].to_vec()), ShapeTensor(numbers[2..].to_vec())];
                let named =
                    |name: &str| names.iter().zip(numbers).find(|(n, _)| **n == name).map(|(_, i)| i as i64);
                assert_eq!(flat.value(&inputs.each_ref()), expr.value(&named), "{expr} of {numbers:?}");
            }
        }
        assert!(FlatExpr::new(&DimExpr::name("d"), &places).is_err());
        let huge = [ShapeTensor(vec![usize::MAX >> 1, 1]), ShapeTensor(vec![2])];
        assert_eq!(FlatExpr::new(&a.times(&c).unwrap(), &places).unwrap().value(&huge.each_ref()), None);
    }
}
