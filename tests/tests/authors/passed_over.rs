//! Tests that reports say why a node does not run on a preferred backend of several.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::first_of::{Mine, ReferenceTensor, causes, chain, cpu, handle, names, products, without};
use bb::coverage::{Coverage, How, WhyNot};
use bb::{Backend, BackendHandle, CompileOptions, Error, FirstOf, Module, Outputs, Primitive, first_of};
use bb_reference::Reference;
use bb_tests::model::{model, node};

/// Returns the lines about nodes that the first backend does not run.
fn said(several: FirstOf, module: &Module) -> Vec<String> {
    let coverage = Coverage::of(module, handle(several).runtime());
    assert!(coverage.missing().0.is_empty());
    coverage.passed_over().iter().map(ToString::to_string).collect()
}

#[test]
fn nodes_that_stay_with_their_neighbours_name_the_cost_of_transfers() {
    let several = first_of([without(Primitive::Exp).0, cpu()]).unwrap();
    let transfers = "`Neg_v1`, `Abs_v3`, `Sqrt_v4` run on `cpu`: copying values to and from `first` is estimated to cost more than \
                     it saves; `place=order` runs on `first` all that it can run";
    let refused = "`Exp_v2` runs on `cpu`: `first` refuses `exp` of f32: backend `first` failed in `exp`: `exp` does not take \
                   element type f32";
    assert_eq!(said(several.clone(), &chain()), [transfers, refused]);
    assert_eq!(said(several.clone().with_order(), &chain()), [refused]);
    let placed = several.placement(&chain());
    let why: Vec<&str> = placed.nodes.iter().map(|node| node.passed_over[0].why.name()).collect();
    assert_eq!(why, ["transfers", "refused", "transfers", "transfers"]);
    // Nothing is said of nodes on the first backend.
    assert!(said(first_of([without(Primitive::Concat).0, cpu()]).unwrap(), &chain()).is_empty());
}

#[test]
fn long_lists_of_nodes_are_counted() {
    let nodes = (0..20).map(|at| node("Neg", &[&format!("v{at}")], &[&format!("v{}", at + 1)]));
    let long = Module::from_bytes(model(&[("v0", &[4])], nodes.collect(), &[("v20", &[4])])).unwrap();
    let said = said(first_of([without(Primitive::Neg).0, cpu()]).unwrap(), &long);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("`Neg_v7`, `Neg_v8` and 12 more run on `cpu`: `first` refuses `neg`"),
        "{}",
        said[0]
    );
}

#[test]
fn a_method_that_fails_in_its_trial_is_reported_with_its_error() {
    let broken = Mine::start("broken", |op, _| (op == Primitive::Exp).then(|| Err(Error::Abandoned.into())));
    let several = first_of([broken, cpu()]).unwrap();
    assert_eq!(names(&several.placement(&products())), ["broken", "cpu", "broken"]);
    assert_eq!(
        said(several, &products()),
        [
            "`middle` runs on `cpu`: `broken` refuses `exp` of f32: backend `broken` failed in `exp`: the backend dropped its \
          completion handle without a result"
        ]
    );
}

#[test]
fn pins_and_slower_ways_are_named() {
    let several = first_of([without(Primitive::Exp).0, cpu()]).unwrap();
    let pinned = several.clone().with_pin("before", "cpu").unwrap();
    assert_eq!(said(pinned, &products())[0], "`before` runs on `cpu`: a pin chooses it instead of `first`");
    // The CPU backend has softmax natively, the first one only its body.
    let nodes = vec![node("Softmax", &["x"], &["y"])];
    let softmax = Module::from_bytes(model(&[("x", &[4, 4])], nodes, &[("y", &[4, 4])])).unwrap();
    let lowered = first_of([without(Primitive::Concat).0, cpu()]).unwrap();
    let coverage = Coverage::of(&softmax, handle(lowered).runtime());
    let why = &coverage.nodes[0].passed_over[0].why;
    assert!(matches!(why, WhyNot::Slower(How::Lowered(Some(_)))), "{why:?}");
    let text = coverage.passed_over()[0].to_string();
    assert!(text.starts_with("`Softmax_y` runs on `cpu`: `first` (lowered to "), "{text}");
    assert!(text.ends_with(" operations) is estimated to take longer"), "{text}");
}

/// A wrong result is no lack of the backend: under `check`, the run fails, and the node does not move to another backend silently.
#[test]
fn a_result_that_check_refuses_is_an_error_and_not_a_lack() {
    let hook = |op: Primitive, inputs: &[Option<&ReferenceTensor>]| {
        let x = inputs.first().copied().flatten().filter(|_| op == Primitive::Exp)?;
        Some(Reference.unsqueeze(x, &[0]).map(|y| Outputs::from_iter([y])))
    };
    let mine = bb::Erased::new(Mine { hook: Box::new(hook) });
    let checked = bb_layers::Check::new(mine, true);
    let several = first_of([BackendHandle::start("checked", checked), cpu()]).unwrap();
    assert_eq!(names(&several.placement(&products())), ["checked"; 3]);
    let on = handle(several);
    let compiled = on.compile(products(), &CompileOptions::default()).unwrap();
    let x = on.tensor(&[128, 128], &[0f32; 128 * 128]).unwrap();
    let text = causes(&compiled.run(&[Some(&x)]).unwrap_err());
    assert!(text.contains("middle") && text.contains("layer `check` failed in `exp`"), "{text}");
    assert!(text.contains("result 0: expected f32[128, 128], got f32[1, 128, 128]"), "{text}");
}
