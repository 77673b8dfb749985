//! The extents that bodies compute with. They are numbers, and while tracing also expressions.

use super::log::{Guard, Log, Relation, When};
use crate::error::NodePart;
use crate::{Backend, Error};
use bb_ir::graph::DimExpr;
use bb_ir::infer;
use std::sync::Arc;

/// The extents of a tensor.
pub type Extents = infer::Extents<Extent>;

/// An extent, or another integer that is computed from extents.
///
/// On a backend's tensors, an extent is a number. While tracing, it consists of the number for the traced inputs and an
/// expression of the input extents that may differ in other runs. Arithmetic computes both. A comparison uses the
/// numbers, and the plan under construction is then valid only for inputs that give the same result. Reading the
/// [`number`](Extent::number) makes the plan valid only for that number. So bodies should compute with extents wherever
/// possible, and pass them to the methods of [`Ops`](crate::ext::Ops) that take extents, for example
/// [`reshape_to`](crate::ext::Ops::reshape_to).
///
/// # Examples
///
/// ```
/// use bb::ext::Ops;
///
/// /// Merges the last two dimensions; a plan of it holds for all extents.
/// fn merge<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
///     let mut shape = on.extents(x);
///     if let (Some(last), Some(before)) = (shape.pop(), shape.pop()) {
///         shape.push(before.times(&last));
///     }
///     on.reshape_to(x, &shape)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Extent {
    number: i64,
    symbolic: Option<Arc<Symbolic>>,
}

/// The part of an extent that exists only while tracing.
#[derive(Debug)]
struct Symbolic {
    expr: DimExpr,
    /// The conditions that make the expression correct.
    when: When,
    log: Arc<Log>,
}

impl From<i64> for Extent {
    fn from(number: i64) -> Extent {
        Extent { number, symbolic: None }
    }
}

impl From<usize> for Extent {
    fn from(number: usize) -> Extent {
        Extent { number: i64::try_from(number).unwrap_or(i64::MAX), symbolic: None }
    }
}

impl Extent {
    /// Creates an extent that may differ between runs. If the expression is constant and unconditional, the extent is a
    /// plain number.
    pub(crate) fn symbolic(number: i64, expr: DimExpr, when: When, log: &Arc<Log>) -> Extent {
        let when = when.bounded(log);
        if when.is_always() && expr.constant().is_some() {
            return Extent { number, symbolic: None };
        }
        Extent { number, symbolic: Some(Arc::new(Symbolic { expr, when, log: log.clone() })) }
    }

    /// Returns the number. While tracing, this makes the plan valid only for this number.
    pub fn number(&self) -> i64 {
        if let Some(symbolic) = &self.symbolic {
            symbolic.log.require(&symbolic.when);
            symbolic.log.tie(&symbolic.expr);
        }
        self.number
    }

    /// Returns the number. Unlike [`number`](Self::number), this does not make the plan valid only for this number. Use
    /// this for messages, and for estimates that do not affect results.
    pub fn present(&self) -> i64 {
        self.number
    }

    /// Returns whether the extent is the same number in all runs.
    pub fn is_fixed(&self) -> bool {
        self.symbolic.is_none()
    }

    /// Returns the expression, and adds its conditions to the plan.
    pub(crate) fn required(&self) -> Option<&DimExpr> {
        let symbolic = self.symbolic.as_ref()?;
        symbolic.log.require(&symbolic.when);
        symbolic.expr.constant().is_none().then_some(&symbolic.expr)
    }

    /// Returns the expression if it has no conditions.
    pub(crate) fn unconditional(&self) -> Option<DimExpr> {
        self.when().is_always().then(|| self.expr())
    }

    /// Returns the conditions that make the expression correct.
    pub(crate) fn when(&self) -> When {
        self.symbolic.as_ref().map_or(When::ALWAYS, |symbolic| symbolic.when.clone())
    }

    /// Returns the same extent with additional conditions.
    pub(crate) fn under(&self, when: &When, log: &Arc<Log>) -> Extent {
        if when.is_always() {
            return self.clone();
        }
        Extent::symbolic(self.number, self.expr(), self.when().and(when), log)
    }

    /// Returns the conditions that ensure that the extent has the traced number.
    pub(crate) fn tied(&self) -> When {
        match &self.symbolic {
            Some(symbolic) => symbolic.when.and(&When::tied(&symbolic.log, &symbolic.expr)),
            None => When::ALWAYS,
        }
    }

    /// Returns the extent as a plain number if the trace is already tied to that number.
    pub(crate) fn settled(&self) -> Extent {
        match &self.symbolic {
            Some(symbolic) if symbolic.when.is_always() && symbolic.log.is_tied(&symbolic.expr) => {
                Extent::from(self.number)
            }
            _ => self.clone(),
        }
    }

    /// Returns the expression.
    pub(crate) fn expr(&self) -> DimExpr {
        self.symbolic.as_ref().map_or_else(|| DimExpr::from(self.number), |symbolic| symbolic.expr.clone())
    }

    fn combined(
        &self,
        other: &Extent,
        number: Option<i64>,
        compute: impl FnOnce(&DimExpr, &DimExpr) -> Option<DimExpr>,
    ) -> Extent {
        let known =
            number.unwrap_or(if (self.number < 0) == (other.number < 0) { i64::MAX } else { i64::MIN });
        let Some(log) = self.log().or(other.log()) else { return Extent::from(known) };
        let when = self.when().and(&other.when());
        match number.and_then(|_| compute(&self.expr(), &other.expr())) {
            Some(expr) => Extent::symbolic(known, expr, when, log),
            None => {
                // The result has no expression. Its number is correct if both operands have their traced numbers.
                let when = when.and(&self.tied()).and(&other.tied());
                Extent::symbolic(known, DimExpr::from(known), when, log)
            }
        }
    }

    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.symbolic.as_ref().map(|symbolic| &symbolic.log)
    }

    /// Returns the sum.
    pub fn plus(&self, other: &Extent) -> Extent {
        self.combined(other, self.number.checked_add(other.number), DimExpr::plus)
    }

    /// Returns the difference.
    pub fn minus(&self, other: &Extent) -> Extent {
        self.combined(other, self.number.checked_sub(other.number), DimExpr::minus)
    }

    /// Returns the product.
    pub fn times(&self, other: &Extent) -> Extent {
        self.combined(other, self.number.checked_mul(other.number), DimExpr::times)
    }

    /// Returns the quotient, rounded down. Division by 0 returns 0.
    pub fn floor_div(&self, by: &Extent) -> Extent {
        if by.is(0) {
            return Extent::from(0i64);
        }
        self.quotient(by)
    }

    /// Returns the quotient, rounded down. The divisor must not be 0.
    pub(crate) fn quotient(&self, by: &Extent) -> Extent {
        let remainder = self.number.checked_rem_euclid(by.number);
        let number = if by.number > 0 {
            self.number.checked_div_euclid(by.number)
        } else {
            self.number
                .checked_div(by.number)
                .zip(remainder)
                .map(|(q, r)| q - i64::from(r != 0 && self.number > 0))
        };
        self.combined(by, number, |a, b| {
            if let Some(quotient) = a.exact_div(b) {
                return Some(quotient);
            }
            b.constant().filter(|b| *b > 0).and_then(|b| a.floor_div(b))
        })
    }

    /// Returns the quotient by a positive number, rounded up.
    pub fn ceil_div(&self, by: &Extent) -> Extent {
        self.plus(by).minus(&Extent::from(1i64)).floor_div(by)
    }

    /// Returns the maximum of the two extents.
    #[must_use]
    pub fn greater(&self, other: &Extent) -> Extent {
        self.combined(other, Some(self.number.max(other.number)), DimExpr::greater)
    }

    /// Returns the minimum of the two extents.
    #[must_use]
    pub fn lesser(&self, other: &Extent) -> Extent {
        self.combined(other, Some(self.number.min(other.number)), DimExpr::lesser)
    }

    /// Returns whether the extent equals a number.
    pub fn is(&self, number: i64) -> bool {
        self.equals(&Extent::from(number))
    }

    /// Returns whether the two extents are equal.
    pub fn equals(&self, other: &Extent) -> bool {
        let equal = self.number == other.number;
        let relation = if equal { Relation::Zero } else { Relation::NotZero };
        self.guard(other, |difference| {
            let opposite = difference.scaled(-1)?;
            if relation == Relation::NotZero && (difference.at_least(1) || opposite.at_least(1)) {
                return Some(None);
            }
            let expr = if difference <= opposite { difference } else { opposite };
            Some(Some(Guard { expr, relation }))
        });
        equal
    }

    /// Returns whether the extent is greater than or equal to the other.
    pub fn at_least(&self, other: &Extent) -> bool {
        let answer = self.number >= other.number;
        self.guard(other, |difference| {
            let expr = if answer { difference } else { difference.scaled(-1)?.plus(&DimExpr::from(-1))? };
            let sure = expr.at_least(0);
            Some((!sure).then(|| Guard::at_least_zero(&expr)))
        });
        answer
    }

    /// Makes the plan valid only if the comparison of the difference has the same result as now. `guard` returns the
    /// condition on the difference. It returns `Some(None)` if the result is always the same, and `None` if the
    /// expression would grow too large; then the plan is tied to the traced numbers.
    fn guard(&self, other: &Extent, guard: impl FnOnce(DimExpr) -> Option<Option<Guard>>) {
        let Some(log) = self.log().or(other.log()) else { return };
        log.require(&self.when());
        log.require(&other.when());
        let Some(difference) = self.expr().minus(&other.expr()) else {
            log.tie(&self.expr());
            return log.tie(&other.expr());
        };
        if difference.constant().is_some() {
            return;
        }
        match guard(difference) {
            Some(guard) => guard.into_iter().for_each(|guard| log.require(&When::guarded(guard))),
            None => {
                log.tie(&self.expr());
                log.tie(&other.expr());
            }
        }
    }

    /// Returns true if the two extents are equal in all runs; false if this is not certain.
    pub fn is_same(&self, other: &Extent) -> bool {
        match (&self.symbolic, &other.symbolic) {
            (None, None) => self.number == other.number,
            (Some(a), Some(b)) => {
                Arc::ptr_eq(a, b) || a.when.is_always() && b.when.is_always() && a.expr == b.expr
            }
            _ => false,
        }
    }
}

/// Lets the shape rules compute with extents. A comparison in a rule becomes a condition of the plan; reading the
/// traced number does not.
impl infer::Extent for Extent {
    fn of(number: i64) -> Option<Self> {
        Some(number.into())
    }

    fn number(&self) -> Option<i64> {
        match &self.symbolic {
            Some(symbolic) => {
                // The expression may be constant only under conditions. These become conditions of the plan.
                let number = symbolic.expr.constant()?;
                symbolic.log.require(&symbolic.when);
                Some(number)
            }
            None => Some(self.number),
        }
    }

    fn current(&self) -> Option<i64> {
        Some(self.number)
    }

    fn unknown() -> Option<Self> {
        None
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        self.number.checked_add(other.number)?;
        Some(self.plus(other))
    }

    fn minus(&self, other: &Self) -> Option<Self> {
        self.number.checked_sub(other.number)?;
        Some(self.minus(other))
    }

    fn times(&self, other: &Self) -> Option<Self> {
        self.number.checked_mul(other.number)?;
        Some(self.times(other))
    }

    fn floor_div(&self, by: i64) -> Option<Self> {
        (by > 0).then(|| self.quotient(&by.into()))
    }

    fn exact_div(&self, by: &Self) -> Option<Self> {
        if self.number.checked_rem(by.number)? != 0 {
            return None;
        }
        let quotient = self.quotient(by);
        // If the expressions do not prove that the remainder is 0, the plan becomes valid only if it is 0.
        quotient.times(by).equals(self).then_some(quotient)
    }

    fn max(&self, other: &Self) -> Option<Self> {
        // The traced numbers select one of the two, because expressions with maxima would grow.
        Some(if self.at_least(other) { self.clone() } else { other.clone() })
    }

    fn min(&self, other: &Self) -> Option<Self> {
        Some(if other.at_least(self) { self.clone() } else { other.clone() })
    }

    fn same(&self, other: &Self) -> bool {
        self.is_same(other)
    }

    fn surely_at_least(&self, least: i64) -> bool {
        match &self.symbolic {
            Some(symbolic) => symbolic.when.is_always() && symbolic.expr.at_least(least),
            None => self.number >= least,
        }
    }

    fn equals(&self, other: &Self) -> Option<bool> {
        Some(self.equals(other))
    }

    fn at_least(&self, least: i64) -> Option<bool> {
        Some(self.at_least(&least.into()))
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number.fmt(f)
    }
}

/// Returns the product of extents.
pub fn product<'a>(extents: impl IntoIterator<Item = &'a Extent, IntoIter: Clone>) -> Extent {
    let extents = extents.into_iter();
    // If one extent is 0, the product is 0, even if the product of the others would overflow.
    if extents.clone().any(|extent| extent.is_fixed() && extent.number == 0) {
        return Extent::from(0i64);
    }
    extents.fold(Extent::from(1i64), |all, extent| all.times(extent))
}

/// Converts extents to the numbers that a backend's method takes.
///
/// # Errors
///
/// [`Error::Ir`] if an extent is negative.
pub(crate) fn numbers<B: Backend + ?Sized>(extents: &[Extent]) -> Result<bb_ir::Shape, B::Error> {
    let number = |extent: &Extent| usize::try_from(extent.number()).ok();
    let shape: Option<bb_ir::Shape> = extents.iter().map(number).collect();
    shape.ok_or_else(|| negative(extents).into())
}

/// Returns the error for a negative extent.
pub(crate) fn negative(extents: &[Extent]) -> Error {
    let got: Vec<i64> = extents.iter().map(Extent::present).collect();
    Error::Operator {
        op: "shape".to_owned(),
        part: NodePart::other("an extent"),
        problem: format!("is negative in {got:?}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::{Event, Varies};
    use crate::trace::{TableIndex, Tracer};
    use bb_ir::DataType;

    /// A pseudo-random generator of small numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// The number of operations.
    const OPERATIONS: u64 = 16;

    /// Computes with extents. `seed` determines the operations. Returns the computed extents and the results of the
    /// comparisons.
    fn computed(seed: u64, inputs: &[Extent]) -> (Vec<Extent>, Vec<bool>) {
        let mut next = Numbers(seed);
        let (mut values, mut answers) = (inputs.to_vec(), Vec::new());
        for _ in 0..12 {
            let [a, b] = [0, 1].map(|_| values[next.below(values.len() as u64) as usize].clone());
            let number = Extent::from(next.below(5) as i64);
            values.push(match next.below(OPERATIONS) {
                0 => a.plus(&b),
                1 => a.minus(&number),
                2 => a.times(&inputs[next.below(3) as usize]),
                3 => a.floor_div(&number),
                4 => a.floor_div(&b),
                5 => a.greater(&b),
                6 => a.lesser(&number),
                7 => a.ceil_div(&Extent::from(number.present() + 1)),
                8 => infer::broadcast("add", &[std::slice::from_ref(&a), &[b]])
                    .map_or(a, |shape| shape[0].clone()),
                9 => {
                    let answer = a.equals(&b);
                    answers.push(answer);
                    if answer { a } else { number }
                }
                10 => {
                    let answer = a.at_least(&b);
                    answers.push(answer);
                    if answer { b } else { a }
                }
                11 => Extent::from(number.present() + i64::from(a.is(1))),
                12 => infer::Extent::beyond(&a, &b).unwrap(),
                13 => {
                    let bounds = [a.minus(&number), b].map(|bound| infer::Bound::read(&bound).unwrap());
                    infer::slice_count(&inputs[0], &bounds[0], &bounds[1], 1 + number.present() % 2).unwrap()
                }
                14 => {
                    let step = infer::Step {
                        kernel: number.plus(&1i64.into()),
                        stride: 2,
                        dilation: 1,
                        before: 1,
                        after: 0,
                    };
                    step.count(&inputs[1], infer::Padding::Given, number.is(2)).unwrap_or(a)
                }
                _ => infer::slice_count(
                    &inputs[2],
                    &infer::Bound::FromEnd(1i64.into()),
                    &infer::Bound::FromEnd(number),
                    -1,
                )
                .unwrap(),
            });
        }
        (values, answers)
    }

    /// Returns whether the extents that the program broadcasts can be broadcast. If not, the result of a broadcast is
    /// meaningless.
    fn broadcasts(seed: u64, inputs: &[i64]) -> bool {
        let mut next = Numbers(seed);
        let mut values = inputs.to_vec();
        let plain: Vec<Extent> = inputs.iter().map(|&n| Extent::from(n)).collect();
        let (all, _) = computed(seed, &plain);
        for step in 0..12 {
            let [a, b] = [0, 1].map(|_| values[next.below(values.len() as u64) as usize]);
            next.below(5);
            let op = next.below(OPERATIONS);
            if op == 2 {
                next.below(3);
            }
            if op == 8 && a != b && a != 1 && b != 1 {
                return false;
            }
            values.push(all[inputs.len() + step].present());
        }
        true
    }

    #[test]
    fn what_holds_under_the_guards_is_what_numbers_give() {
        let (mut held, mut guarded) = (0, 0);
        for seed in 0..3000u64 {
            let mut next = Numbers(seed ^ 0x5DEECE66D);
            let numbers: Vec<usize> = (0..3).map(|_| next.below(6) as usize).collect();
            let traced: Vec<i64> = numbers.iter().map(|&n| n as i64).collect();
            if !broadcasts(seed, &traced) {
                continue;
            }
            let tracer = Tracer::default().symbolic(true);
            let index = crate::trace::InputIndex::at(0);
            let x = tracer.input(index, "x", DataType::F32, &numbers, &Varies::Everything, None);
            let extents = crate::ext::Ops::extents(&tracer, &x);
            let (values, answers) = computed(seed, &extents);
            // Using a value adds its conditions to the plan.
            let exprs: Vec<(i64, DimExpr)> = values
                .iter()
                .map(|value| {
                    (value.present(), value.required().cloned().unwrap_or_else(|| value.present().into()))
                })
                .collect();
            let trace = tracer.finish(Vec::new());
            guarded += usize::from(!trace.events.is_empty());
            for other in 0..40 {
                let mut at = Numbers(seed * 41 + other);
                let others: Vec<i64> = (0..3).map(|_| at.below(7) as i64).collect();
                let named = |name: &str| {
                    let symbol = trace.symbols.iter().find(|symbol| symbol.name == name)?;
                    others.get(symbol.places[0].axis as usize).copied()
                };
                let holds = |event: &Event| match event {
                    Event::Tied(no) => {
                        let symbol = &trace.symbols[*no as usize];
                        named(&symbol.name) == Some(symbol.number)
                    }
                    Event::Guarded(guard) => guard.relation.holds(guard.expr.value(&named).unwrap()),
                };
                if !trace.events.iter().all(holds) || !broadcasts(seed, &others) {
                    continue;
                }
                held += 1;
                let plain: Vec<Extent> = others.iter().map(|&n| Extent::from(n)).collect();
                let (expected, same) = computed(seed, &plain);
                assert_eq!(answers, same, "seed {seed}: {numbers:?} and {others:?}");
                for ((_, expr), expected) in exprs.iter().zip(&expected) {
                    let got = expr.value(&named);
                    assert_eq!(
                        got,
                        Some(expected.present()),
                        "seed {seed}: {expr} of {others:?}, {numbers:?}"
                    );
                }
            }
        }
        assert!(held > 1000 && guarded > 500, "{held} {guarded}");
    }
}
