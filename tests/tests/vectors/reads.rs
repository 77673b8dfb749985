//! Tests that the function of each operator version reads every attribute of the version's schema, with the
//! schema's default if the attribute is absent.
//!
//! The functions run node by node on all vectors, which contain every version of every operator.

use super::{Vector, folder, item, read, stems};
use bb::ir::graph::{Attribute, Graph, Node, ValueId};
use bb::onnx::{
    AttributeReads, Body, Call, Class, ItemResult, OnnxValue, OpOutputs, Operator, lookup, operators,
};
use bb::trace::{TracedTensor, Tracer};
use bb::{Backend, CompileOptions, Module, TensorData};
use bb_ir::opset::{self, AttributeSchema};
use bb_reference::Reference;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An attribute of many operators of opset 1 that tells which operands a kernel may overwrite. No function reads it.
const HINT: &str = "consumed_inputs";

type Item = OnnxValue<TensorData>;
type Values = HashMap<ValueId, Item>;

/// The attributes that the functions read, for each version of an operator, with the default values that the functions
/// use.
#[derive(Default)]
struct Seen(BTreeMap<(String, String, i64), BTreeMap<String, BTreeSet<String>>>);

impl Seen {
    fn add(&mut self, node: &Node, reads: AttributeReads) {
        let since = opset::since(&node.domain, &node.op_type, node.opset).unwrap_or(node.opset);
        let of = self.0.entry((node.domain.clone(), node.op_type.clone(), since)).or_default();
        for (name, defaults) in reads.into_inner() {
            of.entry(name).or_default().extend(defaults.iter().map(written));
        }
    }
}

/// Formats a default value in the way schemas do.
fn written(default: &Attribute) -> String {
    match default {
        Attribute::Int(v) => v.to_string(),
        Attribute::Float(v) => format!("{v:?}"),
        Attribute::Text(v) => String::from_utf8(v.clone()).unwrap(),
        other => format!("{other:?}"),
    }
}

/// Runs a graph's nodes one after another. Nodes that cannot run here are left out, and so are nodes that read their
/// results.
fn run(graph: &Graph, values: &mut Values, seen: &mut Seen) {
    for node in &graph.nodes {
        let mut operands = Vec::new();
        for input in &node.inputs {
            match input.map(|id| values.get(&id).cloned()) {
                Some(None) => break,
                Some(known) => operands.push(known),
                None => operands.push(None),
            }
        }
        if operands.len() < node.inputs.len() {
            continue;
        }
        let reads = AttributeReads::default();
        let results = called(node, &operands, &reads).unwrap_or_default();
        seen.add(node, reads);
        for (id, value) in node.outputs.iter().zip(results) {
            values.extend(id.zip(value));
        }
    }
}

/// Calls a node's function; `None` if there is none, if it fails, or if it does not take these operands.
fn called(node: &Node, operands: &[Option<Item>], reads: &AttributeReads) -> Option<OpOutputs<Item>> {
    let tensors = || -> Option<Vec<Option<TensorData>>> {
        operands.iter().map(|x| x.as_ref().map_or(Some(None), |x| x.tensor().cloned().map(Some))).collect()
    };
    match lookup(&node.domain, &node.op_type, node.opset)?.1 {
        Body::ControlFlow(_) | Body::Rounds(_) => None,
        Body::Host(function) => {
            let results = function(&Call::noting(node, &tensors()?, reads)).ok()?;
            Some(results.into_iter().map(|y| y.map(OnnxValue::Tensor)).collect())
        }
        Body::Tensors(function) => {
            tensors()?;
            traced(operands, |on, operands| {
                let tensor =
                    |x: &Option<OnnxValue<TracedTensor>>| x.as_ref().and_then(|x| x.tensor().cloned());
                let operands: Vec<Option<TracedTensor>> = operands.iter().map(tensor).collect();
                let results = function.call(on, &Call::noting(node, &operands, reads))?;
                Ok(results.into_iter().map(|y| y.map(OnnxValue::Tensor)).collect())
            })
        }
        Body::Items(function, _) => {
            traced(operands, |on, operands| function(on, &Call::noting(node, operands, reads)))
        }
    }
}

/// Traces a function of constants, and computes its results.
fn traced(
    operands: &[Option<Item>],
    function: impl Fn(&Tracer, &[Option<OnnxValue<TracedTensor>>]) -> ItemResult,
) -> Option<OpOutputs<Item>> {
    // The results, each tensor by its number among the outputs of the graph.
    let made = RefCell::new(OpOutputs::new());
    let graph = bb::trace(&[], |on, _| {
        let constant = |x: &Item| x.try_map(&mut |x: &TensorData| on.constant(x));
        let operands: Vec<_> =
            operands.iter().map(|x| x.as_ref().map(constant).transpose()).collect::<Result<_, _>>()?;
        let mut outputs = Vec::new();
        let mut number = |y: &TracedTensor| {
            outputs.push(y.clone());
            outputs.len() - 1
        };
        *made.borrow_mut() =
            function(on, &operands)?.into_iter().map(|y| y.map(|y| y.map(&mut number))).collect();
        outputs.iter().map(|y| on.identity(y)).collect()
    });
    let module = Module::from_graph(&graph.ok()?, &[], &[]).ok()?;
    let program = Reference.compile(module, &CompileOptions::default()).ok()?;
    let outputs = program.run(&Reference, &[]).ok()?;
    let host = |at: &usize| Reference.to_host(&outputs[*at]).unwrap();
    Some(made.take().into_iter().map(|y| y.map(|y| y.map(&mut |at: &usize| host(at)))).collect())
}

fn seen() -> Seen {
    let mut seen = Seen::default();
    for family in stems(&folder(), "pb") {
        for model in read(&family) {
            let Ok(Vector { module: Ok(module), inputs, .. }) = Vector::of(model) else { continue };
            let graph = module.graph();
            let mut values = Values::new();
            for (id, data) in &graph.constants {
                values.insert(*id, OnnxValue::Tensor(data.clone()));
            }
            for &id in &graph.inputs {
                let ty = &graph.values.get(id.index()).unwrap().ty;
                if let Some(given) = item(&inputs, graph.name_of(id), ty) {
                    values.insert(id, given.map(&mut |x: &TensorData| x.clone()));
                }
            }
            run(graph, &mut values, &mut seen);
        }
    }
    seen
}

/// Describes an error in how an attribute is read; `None` if there is none.
fn problem(reads: &BTreeMap<String, BTreeSet<String>>, attribute: &AttributeSchema) -> Option<String> {
    let Some(defaults) = reads.get(attribute.name) else { return Some("is not read".to_owned()) };
    // The schema of `GRU` 1 misspells this default.
    let wanted = attribute.default.map(|default| if default == "foward" { "forward" } else { default })?;
    let same = |found: &String| match (found.parse::<f32>(), wanted.parse::<f32>()) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => found == wanted,
    };
    let other = defaults.iter().find(|found| !same(found))?;
    Some(format!("is {other} where it is left out, expected {wanted}"))
}

#[test]
fn every_attribute_of_every_version_is_read_with_the_default_of_its_schema() {
    let seen = seen();
    let mut wrong = Vec::new();
    // Plans run control flow, and `check` requires its attributes.
    let has_schema = |o: &&Operator| opset::history(o.domain, o.name).any(|v| v.since == o.since);
    for operator in operators().filter(has_schema).filter(|o| o.class != Class::ControlFlow) {
        let &Operator { domain, name, since, ignores, .. } = operator;
        let Some(reads) = seen.0.get(&(domain.to_owned(), name.to_owned(), since)) else {
            wrong.push(format!("{domain} {name} {since} is not run"));
            continue;
        };
        for attribute in opset::attributes(domain, name, since) {
            let reason = ignores.iter().find(|(ignored, _)| *ignored == attribute.name);
            if attribute.name == HINT || reason.is_some() {
                continue;
            }
            if let Some(problem) = problem(reads, &attribute) {
                wrong.push(format!("{domain} {name} {since}: {} {problem}", attribute.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
