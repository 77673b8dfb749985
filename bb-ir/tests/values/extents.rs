//! A rule over expressions says what the rule over numbers says, whatever the symbols stand for.
//!
//! Each rule is run on all small shapes of a few expressions, and on the numbers that they are for all small values of
//! the symbols. Where the rule over numbers has a result, what the rule over expressions tells of it must be that.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::graph::{Dim, DimExpr};
use bb_ir::infer::{
    self, Bound, Equation, Extent, Padding, Step, Target, broadcast, range_count, rescaled, resolve_reshape,
    slice_by, split_evenly,
};

/// Returns the extents of the tested shapes: two symbols, numbers, and results of arithmetic on them.
fn dims() -> Vec<Dim> {
    let (n, m) = (Dim::Symbol("n".to_owned()), Dim::Symbol("m".to_owned()));
    let computed = [
        n.shifted(1),
        n.shifted(2),
        n.scaled(2),
        n.shifted(1).and_then(|d| d.floor_div(2)),
        n.plus(&m),
        n.times(&m),
        Extent::min(&n, &Dim::Known(3)),
        Extent::max(&n, &m),
    ];
    let plain = [n, m, Dim::Known(0), Dim::Known(1), Dim::Known(3)];
    plain.into_iter().chain(computed.into_iter().flatten()).collect()
}

/// The values of `n` and `m`.
fn values() -> impl Iterator<Item = (i64, i64)> {
    (0..6).flat_map(|n| (0..4).map(move |m| (n, m)))
}

fn number(dim: &Dim, (n, m): (i64, i64)) -> Option<usize> {
    let value = dim.formula()?.value(&|name| Some(if name == "n" { n } else { m }))?;
    Some(usize::try_from(value).expect("an extent"))
}

fn numbers(dims: &[Dim], at: (i64, i64)) -> Vec<usize> {
    dims.iter().map(|d| number(d, at).expect("known extents")).collect()
}

/// Compares what was told with the numbers; returns how many extents were told.
fn told(dims: &[Dim], numbers: &[usize], at: (i64, i64), what: &str) -> usize {
    assert_eq!(dims.len(), numbers.len(), "{what}");
    let known = dims.iter().zip(numbers).filter_map(|(dim, n)| {
        let told = number(dim, at)?;
        assert_eq!(told, *n, "{what}: {dim} where n, m = {at:?}");
        Some(told)
    });
    known.count()
}

#[test]
fn shapes_of_two_operands_agree() {
    let mut count = 0;
    for a in dims() {
        for b in dims() {
            let (x, y) = ([a.clone(), Dim::Known(2)], [b.clone(), Dim::Known(2)]);
            let what = format!("{a}, {b}");
            for at in values() {
                let (i, j) = (numbers(&x, at), numbers(&y, at));
                if let (Ok(both), Ok(want)) = (broadcast("add", &[&x, &y]), broadcast("add", &[&i, &j])) {
                    count += told(&both, &want, at, &what);
                }
                let joined = infer::concat([&x[..], &y], 0).unwrap().shape;
                let want = infer::concat([&i[..], &j], 0).unwrap().shape;
                count += told(&joined, &want, at, &what);
                let (p, q) = ([a.clone(), b.clone()], [b.clone(), a.clone()]);
                let product = infer::matmul(&p, &q).unwrap().shape;
                let want = infer::matmul(&numbers(&p, at), &numbers(&q, at)).unwrap().shape;
                count += told(&product, &want, at, &what);
                let gathered = infer::gather(&p, &[a.clone(), a.clone()], -1).unwrap().shape;
                let chosen = numbers(&[a.clone(), a.clone()], at);
                let want = infer::gather(&numbers(&p, at), &chosen, -1).unwrap().shape;
                count += told(&gathered, &want, at, &what);
                let equation = Equation::parse("ij,jk->ki", &[2, 2]).unwrap();
                let summed = equation.shape(&[&p[..], &q]).unwrap();
                let want = equation.shape(&[&numbers(&p, at)[..], &numbers(&q, at)]).unwrap();
                count += told(&summed, &want, at, &what);
            }
        }
    }
    assert!(count > 10_000, "{count} extents were told");
}

#[test]
fn reshapes_agree() {
    let mut count = 0;
    for a in dims() {
        for b in dims() {
            let x = [a.clone(), b.clone(), Dim::Known(4)];
            for to in [&[0, -1][..], &[-1, 2], &[-1], &[0, 0, -1], &[-1, 0, 2], &[0, 4, -1], &[2, -1, 2]] {
                for at in values() {
                    let Ok(want) = resolve_reshape(&numbers(&x, at), to, false) else { continue };
                    // What no value of the symbols allows may be refused for all of them.
                    let Ok(shape) = resolve_reshape(&x, to, false) else { panic!("{x:?} to {to:?}") };
                    count += told(&shape, &want, at, &format!("{x:?} to {to:?}"));
                }
            }
            let to = [Target::Extent(b.clone()), Target::Rest];
            for at in values() {
                let Some(first) = number(&b, at).filter(|n| *n > 0) else { continue };
                let want = resolve_reshape(&numbers(&x, at), &[first as i64, -1], true);
                if let (Ok(shape), Ok(want)) = (infer::reshape_to(&x, &to), want) {
                    count += told(&shape, &want, at, &format!("{x:?} to {b} and the rest"));
                }
            }
        }
    }
    assert!(count > 10_000, "{count} extents were told");
}

#[test]
fn parts_agree() {
    let bounds = [i64::MIN, -4, -1, 0, 1, 3, i64::from(i32::MAX), i64::MAX];
    let mut count = 0;
    for x in dims() {
        for start in bounds {
            for end in bounds {
                for step in [-3, -1, 1, 2] {
                    let [from, to] = [start, end].map(|b| [Some(Bound::of(b))]);
                    let part = slice_by(std::slice::from_ref(&x), &from, &to, &[], &[step]).unwrap();
                    for at in values() {
                        let n = numbers(std::slice::from_ref(&x), at);
                        let want = infer::slice(&n, &[start], &[end], &[], &[step]).unwrap().shape;
                        count += told(&part, &want, at, &format!("{x}[{start}:{end}:{step}]"));
                    }
                }
            }
        }
        for parts in 1..5 {
            let all = split_evenly(&x, parts).unwrap();
            for at in values() {
                let want = split_evenly(&number(&x, at).unwrap(), parts).unwrap();
                count += told(&all, &want, at, &format!("{x} in {parts}"));
            }
        }
    }
    assert!(count > 10_000, "{count} extents were told");
}

#[test]
fn windows_and_scales_agree() {
    let mut count = 0;
    let mut check = |x: &Dim, dim: Option<Dim>, number_of: &dyn Fn(usize) -> Option<usize>, what: &str| {
        for at in values() {
            let want = number_of(number(x, at).unwrap());
            if let (Some(dim), Some(want)) = (&dim, want) {
                count += told(std::slice::from_ref(dim), &[want], at, what);
            }
        }
    };
    for x in dims() {
        for (kernel, stride, dilation, before, after) in
            [(1, 1, 1, 0, 0), (3, 2, 1, 1, 1), (2, 3, 2, 0, 1), (2, 2, 1, -1, 0), (2, 1, 1, 0, 3)]
        {
            let dim = Step { kernel: Dim::Known(kernel), stride, dilation, before, after };
            let step = Step { kernel, stride, dilation, before, after };
            let same = Padding::Same { lower: false };
            for (padding, ceil) in
                [(Padding::Given, false), (Padding::Given, true), (Padding::None, false), (same, false)]
            {
                let what = format!("{step:?} over {x}, {padding:?}, {ceil}");
                check(&x, dim.count(&x, padding, ceil), &|n| step.count(&n, padding, ceil), &what);
                check(&x, dim.grown(&x, padding, 1), &|n| step.grown(&n, padding, 1), &what);
            }
            let pads = dim.same_pads(&x, true);
            check(&x, pads.map(|p| p.0), &|n| Some(step.same_pads(&n, true)?.0).filter(|_| n > 0), "pads");
        }
        for scale in [0.25, 0.5, 1.0, 1.5, 2.0, 0.3] {
            check(&x, rescaled(&x, scale), &|n| rescaled(&n, scale), &format!("{x} times {scale}"));
        }
        let limit = x.formula().unwrap();
        for (start, step) in [(0, 1), (2, 3), (7, -2)] {
            let range = range_count(&DimExpr::from(start), &limit, step).map(Dim::from);
            let number_of =
                |n: usize| range_count(&start, &(n as i64), step).and_then(|n| usize::try_from(n).ok());
            check(&x, range, &number_of, &format!("{start}..{x} by {step}"));
        }
    }
    assert!(count > 3_000, "{count} extents were told");
}
