//! Solves the demands of operators for extents: determines some extents as numbers, or as expressions of other extents.

use super::demands::{Demand, demands};
use super::extents::{Extents, Open};
use super::search::USUAL;
use bb::Module;
use bb_ir::graph::{Dim, DimExpr, Postfix};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of inference rounds. Each round uses the extents that were determined before.
const MOST_ROUNDS: usize = 12;

/// The maximum extent that is tried for a nonlinear equation.
const MOST_SCANNED: i64 = 8192;

/// The maximum number of open extents. Each determined extent is substituted into all others, so the cost grows quickly.
const MOST_OPEN: usize = 512;

/// The maximum number of nonlinear equations that are solved.
const MOST_SCANS: usize = 64;

/// The maximum number of solutions of a nonlinear equation. An equation with more solutions is not used.
const MOST_SOLUTIONS: usize = 16;

/// The known facts about open extents.
#[derive(Debug, Default)]
pub(super) struct Solution {
    /// The determined extents, as expressions of open extents.
    determined: BTreeMap<String, DimExpr>,
    /// The remaining demands on the extents.
    demands: Vec<Demand>,
    /// The number of nonlinear equations that were solved.
    scans: usize,
}

impl Solution {
    /// Solves the demands of a model's nodes for all extents that they determine.
    pub(super) fn new(module: &Module, extents: &Extents) -> Solution {
        let mut solution = Solution::default();
        let open: BTreeSet<String> = extents.open().iter().map(Open::to_string).collect();
        if open.len() > MOST_OPEN {
            return solution;
        }
        for _ in 0..MOST_ROUNDS {
            let Some(demands) = solution.infer(module, extents) else { break };
            solution.demands = demands;
            // Broadcasts also allow 1, so they are used only if no equality determines an extent.
            if !solution.step(&open, false) && !solution.step(&open, true) {
                break;
            }
        }
        solution
    }

    /// Returns the demands of the nodes, inferred with the extents determined so far.
    fn infer(&self, module: &Module, extents: &Extents) -> Option<Vec<Demand>> {
        let graph = module.graph();
        let dim = |open: &Open| {
            let name = open.to_string();
            Dim::from(self.determined.get(&name).cloned().unwrap_or_else(|| DimExpr::name(&name)))
        };
        let dims: Vec<_> = graph
            .inputs
            .iter()
            .filter_map(|value| Some((*value, extents.symbolic(graph.name_of(*value), &dim)?)))
            .collect();
        let limits = bb_ir::Limits::default();
        let (graph, _problems) = bb_ir::infer::with_dims(graph, &dims, bb::onnx::OPERATORS, &limits).ok()?;
        Some(demands(&graph))
    }

    /// Uses each demand that determines an extent. Returns false if none does. `soft` selects broadcasts instead of equalities.
    fn step(&mut self, open: &BTreeSet<String>, soft: bool) -> bool {
        let mut found = false;
        for demand in self.demands.clone() {
            let (a, b) = match (&demand, soft) {
                (Demand::Equal(a, b), false) => (a, b),
                // An extent of 1 broadcasts to every other, so it determines nothing.
                (Demand::Broadcast(a, b), true) if a.constant() != Some(1) && b.constant() != Some(1) => {
                    (a, b)
                }
                _ => continue,
            };
            // An earlier demand of this round may have determined a name in the expressions, so they are substituted.
            let (Some(a), Some(b)) = (self.substituted(a), self.substituted(b)) else { continue };
            let solved = determined(&a, &b, &mut self.scans);
            if let Some((name, value)) = solved.filter(|(name, _)| open.contains(name)) {
                found |= self.determine(name, value);
            }
        }
        found
    }

    /// Records an extent's expression, and substitutes it into the other expressions.
    fn determine(&mut self, name: String, value: DimExpr) -> bool {
        let one = BTreeMap::from([(name.clone(), value.clone())]);
        let replaced: Option<BTreeMap<String, DimExpr>> = self
            .determined
            .iter()
            .map(|(other, expr)| Some((other.clone(), substituted(expr, &one)?)))
            .collect();
        let Some(replaced) = replaced else { return false };
        self.determined = replaced;
        self.determined.insert(name, value);
        true
    }

    fn substituted(&self, expr: &DimExpr) -> Option<DimExpr> {
        substituted(expr, &self.determined)
    }

    /// Returns the number of expressions and demands that each choice is checked against.
    pub(super) fn size(&self) -> usize {
        self.determined.len() + self.demands.len()
    }

    /// Returns whether the operators determine an extent.
    pub(super) fn determines(&self, open: &Open) -> bool {
        self.determined.contains_key(&open.to_string())
    }

    /// Returns the value of a determined extent. `chosen` returns the values of the extents that are not determined.
    pub(super) fn value(&self, open: &Open, chosen: &dyn Fn(&str) -> Option<i64>) -> Option<usize> {
        let value = self.determined.get(&open.to_string())?.value(&|name: &str| chosen(name))?;
        usize::try_from(value).ok()
    }

    /// Returns whether chosen extents satisfy the demands, as far as this can be checked without inference.
    pub(super) fn admits(&self, chosen: &dyn Fn(&str) -> Option<i64>) -> bool {
        let named = |name: &str| {
            chosen(name).or_else(|| self.determined.get(name)?.value(&|name: &str| chosen(name)))
        };
        let value = |expr: &DimExpr| expr.value(&named);
        let fits = |demand: &Demand| match demand {
            Demand::Equal(a, b) => Some(value(a)? == value(b)?),
            Demand::Broadcast(a, b) => {
                let (a, b) = (value(a)?, value(b)?);
                Some(a == b || a == 1 || b == 1)
            }
            Demand::AtLeast(a, least) => Some(value(a)? >= *least),
            Demand::Multiple(a, of) => Some(value(a)?.checked_rem(*of)? == 0),
        };
        self.determined.values().all(|expr| value(expr).is_none_or(|n| n >= 0))
            && self.demands.iter().all(|demand| fits(demand).unwrap_or(true))
    }
}

/// Returns a name, and the unique value of it that makes two expressions equal.
fn determined(a: &DimExpr, b: &DimExpr, scans: &mut usize) -> Option<(String, DimExpr)> {
    let names = |expr: &DimExpr| {
        let mut names = BTreeSet::new();
        expr.names(&mut |name| {
            names.insert(name.to_owned());
        });
        names
    };
    let [of_a, of_b] = [names(a), names(b)];
    let all: Vec<&String> = of_a.union(&of_b).collect();
    match all.as_slice() {
        [] => None,
        [name] => Some(((*name).clone(), DimExpr::from(only(a, b, scans)?))),
        _ => [(a, b, &of_b), (b, a, &of_a)].into_iter().find_map(|(lone, other, others)| {
            let name = lone.only_name().filter(|name| !others.contains(*name))?;
            Some((name.to_owned(), other.clone()))
        }),
    }
}

/// Solves `a = b` for the only name in the two expressions. If there are a few solutions, prefers a common extent. Returns `None` if there
/// are too many solutions, or none was found.
fn only(a: &DimExpr, b: &DimExpr, scans: &mut usize) -> Option<i64> {
    let difference = |n: i64| a.value(&|_: &str| Some(n))?.checked_sub(b.value(&|_: &str| Some(n))?);
    let (at_0, at_1, at_2) = (difference(0)?, difference(1)?, difference(2)?);
    let slope = at_1.checked_sub(at_0)?;
    if slope != 0 && at_0.checked_rem(slope) == Some(0) && at_2.checked_sub(at_1) == Some(slope) {
        let root = at_0.checked_div(slope)?.checked_neg()?;
        if root > 0 && difference(root) == Some(0) && difference(root.checked_add(1)?) != Some(0) {
            return Some(root);
        }
    }
    if *scans >= MOST_SCANS {
        return None;
    }
    *scans += 1;
    let all: Vec<i64> =
        (1..=MOST_SCANNED).filter(|n| difference(*n) == Some(0)).take(MOST_SOLUTIONS + 1).collect();
    if all.len() > MOST_SOLUTIONS {
        return None;
    }
    let usual = USUAL.iter().filter_map(|n| i64::try_from(*n).ok()).find(|n| all.contains(n));
    usual.or_else(|| all.first().copied())
}

/// Replaces names by expressions. Returns `None` if the result has too many parts.
fn substituted(expr: &DimExpr, by: &BTreeMap<String, DimExpr>) -> Option<DimExpr> {
    let mut stack: Vec<DimExpr> = Vec::new();
    let mut complete = true;
    expr.postfix(&mut |part| {
        let mut two = |make: fn(&DimExpr, &DimExpr) -> Option<DimExpr>| {
            let (b, a) = (stack.pop()?, stack.pop()?);
            make(&a, &b)
        };
        let value = match part {
            Postfix::Number(n) => Some(DimExpr::from(n)),
            Postfix::Name(name) => Some(by.get(name).cloned().unwrap_or_else(|| DimExpr::name(name))),
            Postfix::Add => two(DimExpr::plus),
            Postfix::Multiply => two(DimExpr::times),
            Postfix::Greater => two(DimExpr::greater),
            Postfix::Lesser => two(DimExpr::lesser),
            Postfix::Quotient(by) => stack.pop().and_then(|a| a.floor_div(by)),
        };
        complete &= value.is_some();
        stack.extend(value);
    });
    stack.pop().filter(|_| complete)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn lone(a: &DimExpr, b: &DimExpr) -> Option<i64> {
        only(a, b, &mut 0)
    }

    fn n() -> DimExpr {
        DimExpr::name("n")
    }

    #[test]
    fn an_equation_with_one_or_few_solutions_determines_a_number() {
        let half = n().plus(&DimExpr::from(-3)).unwrap().floor_div(2).unwrap();
        // 2 n = 96000 has one solution. (n - 3) / 2 = 31 has the solutions 65 and 66.
        assert_eq!(lone(&n().scaled(2).unwrap(), &DimExpr::from(96_000)), Some(48_000));
        assert_eq!(lone(&half, &DimExpr::from(31)), Some(65));
        // Of the solutions 223 and 224, 224 is a common extent.
        let half = n().plus(&DimExpr::from(1)).unwrap().floor_div(2).unwrap();
        assert_eq!(lone(&half, &DimExpr::from(112)), Some(224));
        assert_eq!(lone(&n().times(&n()).unwrap(), &DimExpr::from(49)), Some(7));
        assert_eq!(lone(&n().scaled(2).unwrap(), &DimExpr::from(7)), None);
        let even = n().floor_div(2).unwrap().scaled(2).unwrap();
        assert_eq!(lone(&n(), &even), None);
    }

    #[test]
    fn a_name_alone_is_what_the_other_side_says() {
        let sum = n().plus(&DimExpr::name("p")).unwrap();
        assert_eq!(determined(&sum, &DimExpr::name("t"), &mut 0), Some(("t".to_owned(), sum.clone())));
        assert_eq!(determined(&sum, &n(), &mut 0), None);
        let mut solution = Solution::default();
        assert!(
            solution.determine("t".to_owned(), sum) && solution.determine("n".to_owned(), DimExpr::from(4))
        );
        let chosen = |name: &str| (name == "p").then_some(3);
        assert_eq!(solution.value(&Open::Name("t".to_owned()), &chosen), Some(7));
        solution.demands = vec![Demand::Multiple(DimExpr::name("t"), 2)];
        assert!(!solution.admits(&chosen) && solution.admits(&|_| Some(4)));
    }
}
