//! Integer expressions of symbolic dimensions.
//!
//! A [`DimExpr`] is stored in a normal form, so that two expressions with the same meaning are usually equal. An operation whose result
//! would have too many terms returns `None`. Expressions are exact for all values of the names: nothing is rounded, and the only
//! assumption is that extents are not negative.

mod postfix;
mod text;

pub use postfix::Postfix;

/// The maximum number of names and parts of an expression.
const MOST: usize = 24;

/// An integer expression of symbolic dimensions, which are not negative: a sum of products in normal form.
///
/// # Examples
///
/// ```
/// use bb_ir::graph::DimExpr;
/// let (past, new) = (DimExpr::name("past"), DimExpr::name("new"));
/// let total = past.plus(&new).unwrap();
/// assert_eq!(total.to_string(), "new + past");
/// assert_eq!(total.minus(&past), Some(new));
/// assert_eq!(total.value(&|name| (name == "past").then_some(3).or(Some(1))), Some(4));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DimExpr {
    /// Sorted. No two terms have the same factors, and no term has the coefficient 0.
    terms: Vec<Term>,
    constant: i64,
}

/// A product of factors and the coefficient `times`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Term {
    /// Sorted and not empty.
    factors: Vec<Factor>,
    times: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Factor {
    Name(String),
    /// The quotient by a positive number, rounded down.
    Quotient(Box<DimExpr>, i64),
    /// The maximum of two expressions.
    Greater(Box<DimExpr>, Box<DimExpr>),
    /// The minimum of two expressions.
    Lesser(Box<DimExpr>, Box<DimExpr>),
}

impl From<i64> for DimExpr {
    fn from(constant: i64) -> DimExpr {
        DimExpr { terms: Vec::new(), constant }
    }
}

impl DimExpr {
    /// Creates an expression that is the symbolic dimension called `name`.
    pub fn name(name: &str) -> DimExpr {
        DimExpr::of(Factor::Name(name.to_owned()))
    }

    fn of(factor: Factor) -> DimExpr {
        DimExpr { terms: vec![Term { factors: vec![factor], times: 1 }], constant: 0 }
    }

    /// Returns the value if the expression contains no names.
    pub fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns the name if the expression is a single symbolic dimension.
    pub fn only_name(&self) -> Option<&str> {
        match (self.terms.as_slice(), self.constant) {
            ([Term { factors, times: 1 }], 0) => match factors.as_slice() {
                [Factor::Name(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the sum of the expressions. Like all operations, it returns `None` if a number overflows or the result has too many
    /// parts.
    pub fn plus(&self, other: &DimExpr) -> Option<DimExpr> {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.factors.cmp(&b.factors),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => break,
            };
            terms.extend(match order {
                std::cmp::Ordering::Less => left.next().cloned(),
                std::cmp::Ordering::Greater => right.next().cloned(),
                std::cmp::Ordering::Equal => {
                    let (a, b) = (left.next()?, right.next()?);
                    let times = a.times.checked_add(b.times)?;
                    (times != 0).then(|| Term { factors: a.factors.clone(), times })
                }
            });
        }
        DimExpr { terms, constant: self.constant.checked_add(other.constant)? }.bounded()
    }

    /// Returns the difference of the expressions.
    pub fn minus(&self, other: &DimExpr) -> Option<DimExpr> {
        self.plus(&other.scaled(-1)?)
    }

    /// Returns the expression multiplied by a number.
    pub fn scaled(&self, by: i64) -> Option<DimExpr> {
        if by == 0 {
            return Some(DimExpr::from(0));
        }
        let scale = |t: &Term| Some(Term { factors: t.factors.clone(), times: t.times.checked_mul(by)? });
        let terms = self.terms.iter().map(scale).collect::<Option<_>>()?;
        Some(DimExpr { terms, constant: self.constant.checked_mul(by)? })
    }

    /// Returns the product of the expressions.
    pub fn times(&self, other: &DimExpr) -> Option<DimExpr> {
        if self.terms.len() * other.terms.len() > MOST {
            return None;
        }
        let mut sum = self.scaled(other.constant)?;
        for b in &other.terms {
            let mut part = DimExpr { terms: vec![b.clone()], constant: 0 }.scaled(self.constant)?;
            for a in &self.terms {
                let mut factors = [a.factors.as_slice(), &b.factors].concat();
                factors.sort_unstable();
                let term = Term { factors, times: a.times.checked_mul(b.times)? };
                part = part.plus(&DimExpr { terms: vec![term], constant: 0 })?;
            }
            sum = sum.plus(&part)?;
        }
        Some(sum)
    }

    /// Returns the quotient of the expression and a positive number, rounded down.
    pub fn floor_div(&self, by: i64) -> Option<DimExpr> {
        if by <= 1 {
            return (by == 1).then(|| self.clone());
        }
        // Terms that are multiples of the divisor are divided exactly.
        let (even, odd): (Vec<&Term>, Vec<&Term>) = self.terms.iter().partition(|t| t.times % by == 0);
        let even = even.into_iter().map(|t| Term { factors: t.factors.clone(), times: t.times / by });
        let whole = DimExpr { terms: even.collect(), constant: self.constant.div_euclid(by) };
        let rest =
            DimExpr { terms: odd.into_iter().cloned().collect(), constant: self.constant.rem_euclid(by) };
        if rest.terms.is_empty() {
            return Some(whole);
        }
        let divided = match rest.terms.as_slice() {
            // Two successive divisions that round down are one division by the product: `floor(floor(a / b) / c) = floor(a / (b * c))`.
            [Term { factors, times: 1 }] if let [Factor::Quotient(inner, first)] = factors.as_slice() => {
                let more = rest.constant.checked_mul(*first)?;
                return inner.plus(&more.into())?.floor_div(first.checked_mul(by)?)?.plus(&whole);
            }
            _ => {
                // The common divisor of the coefficients is cancelled first.
                let common = rest.terms.iter().fold(by, |common, t| divisor(common, t.times));
                let shrunk = |t: &Term| Term { factors: t.factors.clone(), times: t.times / common };
                let terms = rest.terms.iter().map(shrunk).collect();
                let inner = DimExpr { terms, constant: rest.constant.div_euclid(common) };
                if common > 1 {
                    return inner.floor_div(by / common)?.plus(&whole);
                }
                DimExpr::of(Factor::Quotient(Box::new(inner), by))
            }
        };
        divided.plus(&whole)
    }

    /// Returns the quotient of the expression and a positive number, rounded up.
    pub fn ceil_div(&self, by: i64) -> Option<DimExpr> {
        self.plus(&by.checked_sub(1)?.into())?.floor_div(by)
    }

    /// Returns the quotient if the division has no remainder for all values of the names.
    pub fn exact_div(&self, by: &DimExpr) -> Option<DimExpr> {
        if self == by {
            return Some(DimExpr::from(1));
        }
        if let Some(by) = by.constant() {
            let even = by > 0 && self.constant % by == 0 && self.terms.iter().all(|t| t.times % by == 0);
            return even.then(|| self.floor_div(by)).flatten();
        }
        // If the quotient has only one term, it is the quotient of the leading terms.
        let lead = |f: &DimExpr| f.terms.first().cloned();
        let (top, bottom) = (lead(self)?, lead(by)?);
        let mut factors = top.factors;
        for factor in &bottom.factors {
            let at = factors.iter().position(|f| f == factor)?;
            factors.remove(at);
        }
        let even = top.times.checked_rem(bottom.times) == Some(0);
        let times = top.times.checked_div(bottom.times).filter(|_| even)?;
        let candidate = if factors.is_empty() {
            DimExpr::from(times)
        } else {
            DimExpr { terms: vec![Term { factors, times }], constant: 0 }
        };
        if candidate.times(by)? == *self {
            return Some(candidate);
        }
        // If the divisor has only one term, each term is divided separately.
        let ([_], 0, 0) = (by.terms.as_slice(), by.constant, self.constant) else { return None };
        let mut sum = DimExpr::from(0);
        for term in &self.terms {
            let part = DimExpr { terms: vec![term.clone()], constant: 0 };
            if self.terms.len() == 1 {
                return None;
            }
            sum = sum.plus(&part.exact_div(by)?)?;
        }
        Some(sum)
    }

    /// Returns the maximum of the expressions.
    pub fn greater(&self, other: &DimExpr) -> Option<DimExpr> {
        match self.ascending(other) {
            Some([_, greater]) => Some(greater.clone()),
            None => self.either(other, Factor::Greater),
        }
    }

    /// Returns the minimum of the expressions.
    pub fn lesser(&self, other: &DimExpr) -> Option<DimExpr> {
        match self.ascending(other) {
            Some([lesser, _]) => Some(lesser.clone()),
            None => self.either(other, Factor::Lesser),
        }
    }

    /// Returns both expressions in ascending order if the order is the same for all values of the names.
    fn ascending<'a>(&'a self, other: &'a DimExpr) -> Option<[&'a DimExpr; 2]> {
        let is_less = |a: &DimExpr, b: &DimExpr| b.minus(a).is_some_and(|more| more.at_least(0));
        if is_less(self, other) {
            return Some([self, other]);
        }
        is_less(other, self).then_some([other, self])
    }

    /// Creates a maximum or a minimum. The operands are sorted, so that the normal form is unique.
    fn either(&self, other: &DimExpr, one: fn(Box<DimExpr>, Box<DimExpr>) -> Factor) -> Option<DimExpr> {
        let (a, b) = if self < other { (self, other) } else { (other, self) };
        DimExpr::of(one(Box::new(a.clone()), Box::new(b.clone()))).bounded()
    }

    /// Returns both operands if the expression is a minimum.
    pub(crate) fn as_lesser(&self) -> Option<(&DimExpr, &DimExpr)> {
        match (self.terms.as_slice(), self.constant) {
            ([Term { factors, times: 1 }], 0) => match factors.as_slice() {
                [Factor::Lesser(a, b)] => Some((a, b)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the expression is at least `least` for all values of the names; `false` if this cannot be proved.
    pub fn at_least(&self, least: i64) -> bool {
        self.constant >= least
            && self.terms.iter().all(|t| t.times >= 0 && t.factors.iter().all(Factor::not_negative))
    }

    /// Returns whether the expression exceeds `other` by at least `least` for all values of the names; `false` if this cannot be
    /// proved. The result is the same as of [`minus`](Self::minus) followed by [`at_least`](Self::at_least), but the difference is not
    /// built.
    pub fn exceeds(&self, other: &DimExpr, least: i64) -> bool {
        let Some(true) = self.constant.checked_sub(other.constant).map(|more| more >= least) else {
            return false;
        };
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        let mut parts = 0;
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.factors.cmp(&b.factors),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return parts <= MOST,
            };
            let mine = if order.is_le() { left.next() } else { None };
            let others = if order.is_ge() { right.next() } else { None };
            let times = |term: Option<&Term>| term.map_or(0, |term| term.times);
            match times(mine).checked_sub(times(others)) {
                Some(0) => {}
                Some(more) if more > 0 => {
                    let factors = mine.or(others).map_or(&[][..], |term| &term.factors);
                    if !factors.iter().all(Factor::not_negative) {
                        return false;
                    }
                    parts += factors.iter().map(Factor::parts).sum::<usize>();
                }
                _ => return false,
            }
        }
    }

    /// Returns the expression divided by the greatest common divisor of its coefficients, with the constant rounded down. The result is
    /// negative if and only if this expression is negative.
    pub fn tightened(&self) -> DimExpr {
        let common = self.terms.iter().fold(0, |common, term| divisor(common, term.times));
        let by = common.max(1);
        let terms = self.terms.iter().map(|t| Term { factors: t.factors.clone(), times: t.times / by });
        DimExpr { terms: terms.collect(), constant: self.constant.div_euclid(by) }
    }

    /// Returns the terms with positive coefficients, and the terms with negative coefficients, negated: two expressions with only
    /// positive coefficients, whose difference is this expression.
    pub fn sides(&self) -> [DimExpr; 2] {
        [1, -1].map(|sign| {
            let term = |t: &Term| (t.times.signum() == sign).then(|| t.times.checked_abs()).flatten();
            let terms = self
                .terms
                .iter()
                .filter_map(|t| term(t).map(|times| Term { factors: t.factors.clone(), times }));
            let constant = if self.constant.signum() == sign { self.constant.saturating_abs() } else { 0 };
            DimExpr { terms: terms.collect(), constant }
        })
    }

    /// Returns the value of the expression. `named` returns the value of a name. Returns `None` if a name has no value, or on overflow.
    pub fn value(&self, named: &impl Fn(&str) -> Option<i64>) -> Option<i64> {
        self.terms.iter().try_fold(self.constant, |sum, term| {
            let product = term.factors.iter().try_fold(term.times, |product, factor| {
                let value = match factor {
                    Factor::Name(name) => named(name),
                    Factor::Quotient(a, by) => Some(a.value(named)?.div_euclid(*by)),
                    Factor::Greater(a, b) => Some(a.value(named)?.max(b.value(named)?)),
                    Factor::Lesser(a, b) => Some(a.value(named)?.min(b.value(named)?)),
                };
                product.checked_mul(value?)
            });
            sum.checked_add(product?)
        })
    }

    /// Estimates the size of a copy in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.terms.iter().flat_map(|t| &t.factors).map(|f| 64 + f.weight()).sum::<usize>() + 32
    }

    /// Counts the names and parts.
    fn parts(&self) -> usize {
        self.terms.iter().flat_map(|t| &t.factors).map(Factor::parts).sum()
    }

    fn bounded(self) -> Option<DimExpr> {
        (self.parts() <= MOST).then_some(self)
    }
}

/// Returns the greatest common divisor of two numbers; `a` must not be negative.
fn divisor(mut a: i64, b: i64) -> i64 {
    let mut b = b.checked_abs().unwrap_or(1);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Factor {
    fn not_negative(&self) -> bool {
        match self {
            Factor::Name(_) => true,
            Factor::Quotient(a, _) => a.at_least(0),
            Factor::Greater(a, b) => a.at_least(0) || b.at_least(0),
            Factor::Lesser(a, b) => a.at_least(0) && b.at_least(0),
        }
    }

    fn parts(&self) -> usize {
        match self {
            Factor::Name(_) => 1,
            Factor::Quotient(a, _) => 1 + a.parts(),
            Factor::Greater(a, b) | Factor::Lesser(a, b) => 1 + a.parts() + b.parts(),
        }
    }

    fn weight(&self) -> usize {
        match self {
            Factor::Name(name) => name.len(),
            Factor::Quotient(a, _) => a.weight(),
            Factor::Greater(a, b) | Factor::Lesser(a, b) => a.weight() + b.weight(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn n() -> DimExpr {
        DimExpr::name("n")
    }

    fn plus(f: &DimExpr, by: i64) -> DimExpr {
        f.plus(&by.into()).unwrap()
    }

    #[test]
    fn an_expression_exceeds_another_where_their_difference_is_at_least_a_number() {
        let m = DimExpr::name("m");
        let quotient = plus(&n(), -5).floor_div(2).unwrap();
        let all = [
            DimExpr::from(3),
            n(),
            plus(&n(), 4),
            n().plus(&m).unwrap(),
            n().scaled(3).unwrap().minus(&m).unwrap(),
            n().times(&m).unwrap(),
            quotient.clone(),
            quotient.plus(&n()).unwrap(),
            n().greater(&m).unwrap(),
            n().scaled(-2).unwrap(),
        ];
        for a in &all {
            for b in &all {
                for least in [-4, 0, 1, 5] {
                    let expected = a.minus(b).is_some_and(|more| more.at_least(least));
                    assert_eq!(a.exceeds(b, least), expected, "{a} and {b} by {least}");
                }
            }
        }
    }

    #[test]
    fn sums_and_products_have_one_form() {
        let square = plus(&n(), 1).times(&plus(&n(), -1)).unwrap();
        assert_eq!(square, plus(&n().times(&n()).unwrap(), -1));
        assert_eq!(square.to_string(), "n*n - 1");
        let m = DimExpr::name("m");
        assert_eq!(n().plus(&m), m.plus(&n()));
        assert_eq!(n().minus(&n()), Some(DimExpr::from(0)));
        assert_eq!(n().scaled(-2).unwrap().to_string(), "-2*n");
    }

    #[test]
    fn comparisons_with_zero_have_a_least_form() {
        let (a, b) = (DimExpr::name("a"), DimExpr::name("b"));
        let few = a.scaled(-8).unwrap().plus(&DimExpr::from(100)).unwrap();
        assert_eq!(few.tightened().to_string(), "-a + 12");
        for (n, within) in [(0, true), (12, true), (13, false)] {
            let at = |_: &str| Some(n);
            assert_eq!(
                (few.value(&at).unwrap() >= 0, few.tightened().value(&at).unwrap() >= 0),
                (within, within)
            );
        }
        let both = a.scaled(6).unwrap().minus(&b.scaled(4).unwrap()).unwrap();
        assert_eq!(both.tightened().to_string(), "3*a - 2*b");
        assert_eq!(DimExpr::from(-7).tightened(), DimExpr::from(-7));
        assert_eq!(few.sides().map(|side| side.to_string()), ["100", "8*a"]);
        assert_eq!(
            both.minus(&DimExpr::from(3)).unwrap().sides().map(|side| side.to_string()),
            ["6*a", "4*b + 3"]
        );
    }

    #[test]
    fn quotients_round_down_once() {
        // Two convolutions with the stride 2 yield floor((floor((n - 1) / 2) - 1) / 2).
        let once = plus(&n(), -1).floor_div(2).unwrap();
        let twice = plus(&once, -1).floor_div(2).unwrap();
        for value in 0..40 {
            let expected = ((value - 1i64).div_euclid(2) - 1).div_euclid(2);
            assert_eq!(twice.value(&|_| Some(value)), Some(expected), "{twice} at {value}");
        }
        assert_eq!(plus(&n().scaled(4).unwrap(), 6).floor_div(2), Some(plus(&n().scaled(2).unwrap(), 3)));
        assert_eq!(
            n().scaled(6).and_then(|f| plus(&f, 3).floor_div(4)).unwrap().to_string(),
            "floor((3*n + 1)/2)"
        );
        assert_eq!(n().floor_div(0), None);
        assert_eq!(n().ceil_div(3).unwrap().value(&|_| Some(7)), Some(3));
    }

    #[test]
    fn exact_quotients_have_no_remainder() {
        let total = n().plus(&DimExpr::name("m")).unwrap();
        let whole = total.scaled(512).unwrap().times(&n()).unwrap();
        assert_eq!(whole.exact_div(&total), Some(n().scaled(512).unwrap()));
        assert_eq!(whole.exact_div(&n().scaled(64).unwrap()), total.scaled(8));
        assert_eq!(total.exact_div(&n()), None);
        assert_eq!(n().scaled(3).unwrap().exact_div(&2.into()), None);
        assert_eq!(n().exact_div(&0.into()), None);
    }

    #[test]
    fn maximum_and_minimum_simplify_where_the_order_is_certain() {
        assert_eq!(n().greater(&0.into()), Some(n()));
        assert_eq!(plus(&n(), 2).lesser(&n()), Some(n()));
        let open = n().lesser(&512.into()).unwrap();
        assert_eq!(open.to_string(), "min(512, n)");
        assert_eq!([3, 600].map(|v| open.value(&|_| Some(v))), [Some(3), Some(512)]);
        assert!(open.at_least(0) && !open.at_least(1));
    }

    #[test]
    fn too_many_terms_yield_none() {
        let grow = |f: DimExpr, i: usize| f.plus(&DimExpr::name(&format!("d{i}")));
        assert_eq!((0..MOST + 1).try_fold(DimExpr::from(0), grow), None);
        assert_eq!(DimExpr::from(i64::MAX).plus(&1.into()), None);
    }
}
