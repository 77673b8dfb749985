//! Where the values of a model part on two backends, inside subgraphs too.
//!
//! A graph runs as a whole with every value kept. What a subgraph computes is not among its values, so the subgraph runs
//! again, on what each backend gave to the node that holds it: a branch once, a body iteration by iteration.

mod erased;

use super::onnx::{Difference, Tolerance, compare_items};
use crate::onnx::OnnxValue;
use crate::plan::{Code, Repetition, control_flow};
use crate::{BackendRuntime, CompileOptions, ErasedExecutable, Error, Module, TensorData, Value, coverage};
use bb_ir::graph::{Attribute, Graph, Node, ValueId};
use erased::{Erased, Held};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One result of a node on two backends.
#[derive(Debug)]
pub struct NodeComparison {
    /// The node's name, or its first output's where it has none. Inside a subgraph it follows the node that holds the
    /// subgraph, and the attribute: `loop_1/body/add_3`.
    pub node: String,
    /// The iteration of each loop around the node, outermost first, from 0 on; empty outside loops.
    pub iterations: Vec<usize>,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The result's name in the model.
    pub value: String,
    /// What the first backend made, and the second.
    pub made: [OnnxValue<TensorData>; 2],
    /// How the second differs from the first; none if it does not.
    pub difference: Option<Difference>,
}

/// Runs a model on two backends with every value kept, and compares the results of each node, in order.
///
/// What a subgraph computes comes before the results of the node that holds it. Functions of the model are part of its
/// graph. Each backend goes on with its own values, so whoever follows a node that differs may differ too; the first is
/// where to look. Where the backends decide for different branches, or for different numbers of iterations, what they do not
/// share is not compared.
///
/// # Errors
///
/// Why a backend could not compile or run the model.
pub fn compare_nodes(
    module: &Module,
    inputs: &[Option<OnnxValue<TensorData>>],
    backends: [&Arc<dyn BackendRuntime>; 2],
    tolerance: Tolerance,
) -> Result<Vec<NodeComparison>, Error> {
    let given = both(backends, |on| {
        let bring = |x: &Option<OnnxValue<TensorData>>| {
            x.as_ref().map(|x| x.try_map(&mut |x: &TensorData| on.constant(x))).transpose()
        };
        inputs.iter().map(bring).collect::<Result<Vec<_>, Error>>()
    })?;
    let mut walk = Walk { backends, tolerance, compiled: HashMap::new(), results: Vec::new() };
    walk.graph(module.graph(), given, &Place::default())?;
    Ok(walk.results)
}

/// Makes something of each of two.
fn both<A, T>([first, second]: [A; 2], mut make: impl FnMut(A) -> Result<T, Error>) -> Result<[T; 2], Error> {
    Ok([make(first)?, make(second)?])
}

fn zip<A, B>([a0, a1]: [A; 2], [b0, b1]: [B; 2]) -> [(A, B); 2] {
    [(a0, b0), (a1, b1)]
}

/// Where a graph is in the model.
#[derive(Debug, Clone, Default)]
struct Place {
    path: String,
    iterations: Vec<usize>,
}

impl Place {
    fn of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// The place of a node's subgraph.
    fn inside(&self, name: &str, attribute: &str, iteration: Option<usize>) -> Place {
        let iterations = self.iterations.iter().copied().chain(iteration).collect();
        Place { path: format!("{}/{attribute}", self.of(name)), iterations }
    }
}

/// What a graph is given on one backend.
type Given = Vec<Option<OnnxValue<Value>>>;

/// The values of a graph on one backend.
type Values = HashMap<ValueId, OnnxValue<Value>>;

struct Walk<'a> {
    backends: [&'a Arc<dyn BackendRuntime>; 2],
    tolerance: Tolerance,
    /// Graphs compiled for both backends, by where they are in memory: a body is entered in every iteration.
    compiled: HashMap<*const Graph, [Arc<dyn ErasedExecutable>; 2]>,
    results: Vec<NodeComparison>,
}

impl Walk<'_> {
    /// Runs a graph on both backends and compares what its nodes give; returns its outputs.
    ///
    /// A subgraph is given what it captures after its own inputs.
    fn graph(
        &mut self,
        graph: &Graph,
        given: [Given; 2],
        at: &Place,
    ) -> Result<[Vec<OnnxValue<Value>>; 2], Error> {
        let kept = kept(graph);
        let executables = match self.compiled.get(&std::ptr::from_ref(graph)) {
            Some(compiled) => compiled.clone(),
            None => {
                let module = Module::new(opened(graph, &kept));
                let options = CompileOptions::default();
                let made = both(self.backends, |on| on.clone().compile(module.clone(), &options))?;
                self.compiled.insert(graph, made.clone());
                made
            }
        };
        let values: [Values; 2] = both(zip(executables, given), |(executable, given)| {
            let made = executable.run_items(&given)?;
            Ok(kept.iter().copied().zip(made).collect())
        })?;
        for node in &graph.nodes {
            let name = coverage::name(graph, node);
            self.subgraphs(node, &name, &values, at)?;
            for value in node.outputs.iter().flatten() {
                self.compare(
                    node,
                    at,
                    &name,
                    graph.name_of(*value),
                    values.each_ref().map(|v| v.get(value)),
                )?;
            }
        }
        Ok(values.map(|values| {
            graph.outputs.iter().map(|v| values.get(v).cloned().unwrap_or(OnnxValue::Absent)).collect()
        }))
    }

    fn compare(
        &mut self,
        node: &Node,
        at: &Place,
        name: &str,
        value: &str,
        made: [Option<&OnnxValue<Value>>; 2],
    ) -> Result<(), Error> {
        let made = both(zip(self.backends, made), |(on, made)| {
            made.unwrap_or(&OnnxValue::Absent).try_map(&mut |x: &Value| on.to_host(x))
        })?;
        let [first, second] = &made;
        self.results.push(NodeComparison {
            node: at.of(name),
            iterations: at.iterations.clone(),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            value: value.to_owned(),
            difference: compare_items(first, second, self.tolerance).err(),
            made,
        });
        Ok(())
    }

    /// Runs the subgraphs of a node, as the node does.
    fn subgraphs(&mut self, node: &Node, name: &str, values: &[Values; 2], at: &Place) -> Result<(), Error> {
        let operands = |values: &Values| -> Given {
            node.inputs.iter().map(|v| v.and_then(|v| values.get(&v).cloned())).collect()
        };
        let captured = |inner: &Graph, values: &Values| -> Given {
            inner.captures.iter().map(|(outer, _)| values.get(outer).cloned()).collect()
        };
        match control_flow(node) {
            Some(Code::If) => {
                let condition = |(on, values)| holds(on, operands(values).first());
                let [first, second] = both(zip(self.backends, values.each_ref()), condition)?;
                let attribute = if first { "then_branch" } else { "else_branch" };
                let Some(Attribute::Graph(branch)) = node.attributes.get(attribute) else { return Ok(()) };
                if first == second {
                    let given = values.each_ref().map(|values| captured(branch, values));
                    self.graph(branch, given, &at.inside(name, attribute, None))?;
                }
                Ok(())
            }
            Some(Code::Repeat(repeat)) => {
                let Some(Attribute::Graph(body)) = node.attributes.get("body") else { return Ok(()) };
                let on = self.backends.map(Erased);
                let mut loops = both(zip(on, values.each_ref()), |(on, values)| {
                    let operands = operands(values);
                    let held = operands.iter().map(|x| x.as_ref().map(|x| x.map(&mut Held::of)));
                    Repetition::begin(&on, repeat, node, body, held.collect())
                })?;
                for iteration in 0.. {
                    let next = both(zip(loops.each_mut(), on), |(looping, on)| looping.next(&on))?;
                    let [Some(first), Some(second)] = next else { break };
                    let given = zip([first, second], values.each_ref()).map(|(items, values)| {
                        let own = items.iter().map(|x| Some(x.map(&mut Held::value)));
                        own.chain(captured(body, values)).collect()
                    });
                    let results = self.graph(body, given, &at.inside(name, "body", Some(iteration)))?;
                    both(zip(zip(loops.each_mut(), on), results), |((looping, on), results)| {
                        looping.absorb(&on, results.iter().map(|x| x.map(&mut Held::of)).collect())
                    })?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Reads the condition of a branch.
fn holds(on: &Arc<dyn BackendRuntime>, condition: Option<&Option<OnnxValue<Value>>>) -> Result<bool, Error> {
    let Some(Some(OnnxValue::Tensor(condition))) = condition else { return Ok(false) };
    let host = on.to_host(condition)?;
    Ok(crate::ext::integers(&host)?.first().is_some_and(|&n| n != 0))
}

/// The values that are kept of a graph: its outputs, the results of its nodes, and what nodes with subgraphs read.
fn kept(graph: &Graph) -> Vec<ValueId> {
    let mut kept: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    for node in &graph.nodes {
        kept.extend(node.outputs.iter().flatten());
        if control_flow(node).is_some() {
            kept.extend(node.inputs.iter().flatten());
            kept.extend(node.attributes.iter().flat_map(|(_, attribute)| match attribute {
                Attribute::Graph(inner) => inner.captures.iter().map(|(outer, _)| *outer).collect(),
                _ => Vec::new(),
            }));
        }
    }
    kept.into_iter().collect()
}

/// The graph with these outputs, and what it captures as inputs after its own.
fn opened(graph: &Graph, kept: &[ValueId]) -> Graph {
    let mut open = Graph { outputs: kept.to_vec(), ..graph.clone() };
    let captures = std::mem::take(&mut open.captures);
    open.inputs.extend(captures.iter().map(|(_, inner)| *inner));
    open
}
