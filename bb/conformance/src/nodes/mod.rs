//! Finds the first value of a model that differs between backends, including values in subgraphs.
//!
//! Each graph runs as a whole and keeps every value. The kept values do not include values inside a subgraph. So a subgraph runs
//! again on the values that each backend computed for the node: a branch once, a loop body once per iteration.

mod erased;

use super::onnx::{BackendTolerance, Difference};
use bb_core::ext::{ErasedBackend, WithFamilies};
use bb_core::operator::OnnxValue;
use bb_core::plan::{Code, Item, control_flow};
use bb_core::{CompileOptions, ErasedExecutable, Error, Module, Runtime, TensorData, Value};
use bb_ir::graph::{Attribute, Graph, Node, ValueId};
use erased::{BackendTensor, Erased, to_error};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One result of a node on several backends.
#[derive(Debug)]
pub struct NodeComparison {
    /// The name of the node; if it has none, the name of its first output. Inside a subgraph, it is preceded
    /// by the node with the subgraph and the attribute: `loop_1/body/add_3`.
    pub node: String,
    /// The iteration of each loop around the node, counted from 0, outermost loop first; empty outside loops.
    pub iterations: Vec<usize>,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The name of the result in the model.
    pub value: String,
    /// The results of the backends, in the order of the backends.
    pub made: Vec<OnnxValue<TensorData>>,
    /// For each backend after the first, the difference from the first backend; `None` if the results are equal within the
    /// tolerance.
    pub differences: Vec<Option<Difference>>,
}

impl NodeComparison {
    /// Iterates over the differences, each with the index of its backend.
    pub fn differing(&self) -> impl Iterator<Item = (usize, &Difference)> {
        self.differences.iter().zip(1..).filter_map(|(difference, at)| Some((at, difference.as_ref()?)))
    }

    /// Returns whether any backend differs from the first one.
    pub fn differs(&self) -> bool {
        self.differing().next().is_some()
    }
}

/// Runs a model on several backends, keeps every value, and compares the results of each node with those on the first backend, in
/// order.
///
/// The results inside a subgraph precede the results of its node. The model's functions are inlined in its graph. Each backend
/// continues with its own values, so nodes after the first difference may differ, too. The first difference shows where to look for
/// the cause. If the backends take different branches or run different numbers of iterations, only the common part is compared.
///
/// # Errors
///
/// The error of a backend that could not compile or run the model.
pub fn compare_nodes(
    module: &Module,
    inputs: &[Option<OnnxValue<TensorData>>],
    backends: &[&Arc<Runtime>],
    tolerance: impl Into<BackendTolerance>,
) -> Result<Vec<NodeComparison>, Error> {
    let tolerance = tolerance.into();
    let given = each(backends, |on| {
        let bring = |x: &Option<OnnxValue<TensorData>>| {
            x.as_ref().map(|x| x.try_map(&mut |x: &TensorData| on.constant(x))).transpose()
        };
        inputs.iter().map(bring).collect::<Result<Vec<_>, Error>>()
    })?;
    let mut walk = Walk { backends, tolerance, compiled: HashMap::new(), results: Vec::new() };
    walk.graph(module.graph(), given, &GraphPath::default())?;
    Ok(walk.results)
}

/// Maps each value, one per backend, until the first error.
fn each<A, T>(
    values: impl IntoIterator<Item = A>,
    make: impl FnMut(A) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    values.into_iter().map(make).collect()
}

/// The path of a graph in the model.
#[derive(Debug, Clone, Default)]
struct GraphPath {
    path: String,
    iterations: Vec<usize>,
}

impl GraphPath {
    fn of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Returns the path of a node's subgraph.
    fn inside(&self, name: &str, attribute: &str, iteration: Option<usize>) -> GraphPath {
        let iterations = self.iterations.iter().copied().chain(iteration).collect();
        GraphPath { path: format!("{}/{attribute}", self.of(name)), iterations }
    }
}

/// The inputs of a graph on one backend.
type Given = Vec<Option<OnnxValue<Value>>>;

/// The values of a graph on one backend.
type Values = HashMap<ValueId, OnnxValue<Value>>;

struct Walk<'a> {
    backends: &'a [&'a Arc<Runtime>],
    tolerance: BackendTolerance,
    /// The graphs compiled for all backends, by the address of the graph. They are cached because a loop body runs in every
    /// iteration.
    compiled: HashMap<*const Graph, Vec<Arc<dyn ErasedExecutable>>>,
    results: Vec<NodeComparison>,
}

impl Walk<'_> {
    /// Runs a graph on all backends, and compares the results of its nodes. Returns its outputs.
    ///
    /// The inputs of a subgraph are followed by its captures.
    fn graph(
        &mut self,
        graph: &Graph,
        given: Vec<Given>,
        at: &GraphPath,
    ) -> Result<Vec<Vec<OnnxValue<Value>>>, Error> {
        let kept = kept(graph);
        let executables = match self.compiled.get(&std::ptr::from_ref(graph)) {
            Some(compiled) => compiled.clone(),
            None => {
                let module = Module::new(opened(graph, &kept));
                let options = CompileOptions::default();
                let made = each(self.backends, |on| (*on).clone().compile(module.clone(), &options))?;
                self.compiled.insert(graph, made.clone());
                made
            }
        };
        let values: Vec<Values> = each(executables.iter().zip(given), |(executable, given)| {
            let made = executable.run_items(&given)?;
            Ok(kept.iter().copied().zip(made).collect())
        })?;
        for node in &graph.nodes {
            let name = bb_core::error::name(graph, node);
            self.subgraphs(node, &name, &values, at)?;
            for value in node.outputs.iter().flatten() {
                let made: Vec<_> = values.iter().map(|values| values.get(value)).collect();
                if made.iter().all(Option::is_none) {
                    continue;
                }
                self.compare(node, at, &name, graph.name_of(*value), &made)?;
            }
        }
        let outputs = |values: &Values| {
            graph.outputs.iter().map(|v| values.get(v).cloned().unwrap_or(OnnxValue::Absent)).collect()
        };
        Ok(values.iter().map(outputs).collect())
    }

    fn compare(
        &mut self,
        node: &Node,
        at: &GraphPath,
        name: &str,
        value: &str,
        made: &[Option<&OnnxValue<Value>>],
    ) -> Result<(), Error> {
        let made = each(self.backends.iter().zip(made), |(on, made)| {
            made.unwrap_or(&OnnxValue::Absent).try_map(&mut |x: &Value| on.to_host(x))
        })?;
        let Some((first, others)) = made.split_first() else { return Ok(()) };
        let differences = others.iter().map(|other| self.tolerance.compare(first, other).err()).collect();
        self.results.push(NodeComparison {
            node: at.of(name),
            iterations: at.iterations.clone(),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            value: value.to_owned(),
            differences,
            made,
        });
        Ok(())
    }

    /// Runs the subgraphs of a node as the node does.
    fn subgraphs(&mut self, node: &Node, name: &str, values: &[Values], at: &GraphPath) -> Result<(), Error> {
        let operands = |values: &Values| -> Given {
            node.inputs.iter().map(|v| v.and_then(|v| values.get(&v).cloned())).collect()
        };
        let captured = |inner: &Graph, values: &Values| -> Given {
            inner.captures.iter().map(|(outer, _)| values.get(outer).cloned()).collect()
        };
        match control_flow(node) {
            Some(Code::If) => {
                let condition = |(on, values)| holds(on, operands(values).first());
                let held = each(self.backends.iter().copied().zip(values), condition)?;
                let attribute = if held.first() == Some(&true) { "then_branch" } else { "else_branch" };
                let Some(Attribute::Graph(branch)) = node.attributes.get(attribute) else { return Ok(()) };
                if held.windows(2).all(|pair| matches!(pair, [a, b] if a == b)) {
                    let given = values.iter().map(|values| captured(branch, values)).collect();
                    self.graph(branch, given, &at.inside(name, attribute, None))?;
                }
                Ok(())
            }
            Some(Code::Repeat(repeat)) => {
                let on: Vec<Erased<'_>> = self.backends.iter().map(|on| Erased(on)).collect();
                let on: Vec<_> = on.iter().map(|on| WithFamilies::new(on, &[])).collect();
                let on: Vec<_> = on.iter().map(|on| ErasedBackend(on)).collect();
                let mut rounds = each(on.iter().zip(values), |(on, values)| {
                    let operands = operands(values);
                    let held = operands
                        .iter()
                        .map(|x| x.as_ref().map(|x| Item::Parts(x.map(&mut BackendTensor::erased))));
                    repeat.begin(on, node, held.collect()).map_err(to_error)
                })?;
                for iteration in 0.. {
                    let next =
                        each(rounds.iter_mut().zip(&on), |(rounds, on)| rounds.next(on).map_err(to_error))?;
                    // If some backends have already ended the loop, the remaining iterations are not compared.
                    let Some(next) = next.into_iter().collect::<Option<Vec<_>>>() else { break };
                    let Some(attribute) = next.first().map(|round| round.body) else { break };
                    let Some(Attribute::Graph(body)) = node.attributes.get(attribute) else { return Ok(()) };
                    let given = each(next.into_iter().zip(values), |(round, values)| {
                        let own = each(round.given, |x| x.value().try_map(&mut BackendTensor::value))?;
                        Ok(own.into_iter().map(Some).chain(captured(body, values)).collect())
                    })?;
                    let inside = at.inside(name, attribute, Some(iteration));
                    let results = self.graph(body, given, &inside)?;
                    each(rounds.iter_mut().zip(&on).zip(results), |((rounds, on), results)| {
                        let results = results.iter().map(|x| Item::Parts(x.map(&mut BackendTensor::erased)));
                        rounds.absorb(on, results.collect()).map_err(to_error)
                    })?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the condition of a branch as a bool.
fn holds(on: &Arc<Runtime>, condition: Option<&Option<OnnxValue<Value>>>) -> Result<bool, Error> {
    let Some(Some(OnnxValue::Tensor(condition))) = condition else { return Ok(false) };
    let host = on.to_host(condition)?;
    Ok(bb_core::ext::integers(&host)?.first().is_some_and(|&n| n != 0))
}

/// Returns the values of a graph to keep: its outputs, the results of its nodes, and the values that nodes with subgraphs read.
/// After the first result of a node, results that nothing reads are left out, because an operator may not compute them.
fn kept(graph: &Graph) -> Vec<ValueId> {
    let mut kept: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let read: BTreeSet<ValueId> = graph.nodes.iter().flat_map(Node::reads).collect();
    for node in &graph.nodes {
        let results = node.outputs.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        kept.extend(results.filter(|(at, value)| *at == 0 || read.contains(value)).map(|(_, value)| value));
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

/// Returns the graph with `kept` as outputs, and with its captures as additional inputs.
fn opened(graph: &Graph, kept: &[ValueId]) -> Graph {
    let mut open = Graph { outputs: kept.to_vec(), ..graph.clone() };
    let captures = std::mem::take(&mut open.captures);
    open.inputs.extend(captures.iter().map(|(_, inner)| *inner));
    open
}
