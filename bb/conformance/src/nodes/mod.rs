//! Finds the first value of a model that differs between two backends, also inside subgraphs.
//!
//! Each graph runs as a whole and keeps every value. These values do not include those inside a subgraph, so a subgraph
//! runs again on the values that each backend computed for the node: a branch once, a loop body once per iteration.

mod erased;

use super::onnx::{BackendTolerance, Difference};
use bb_core::operator::OnnxValue;
use bb_core::plan::{Code, Item, Repetition, control_flow};
use bb_core::{BackendRuntime, CompileOptions, ErasedExecutable, Error, Module, TensorData, Value};
use bb_ir::graph::{Attribute, Graph, Node, ValueId};
use erased::{Erased, Held};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One result of a node on two backends.
#[derive(Debug)]
pub struct NodeComparison {
    /// The name of the node; if it has none, the name of its first output. Inside a subgraph, it is preceded
    /// by the node with the subgraph and the attribute: `loop_1/body/add_3`.
    pub node: String,
    /// The iteration of each loop around the node, outermost first, counted from 0; empty outside loops.
    pub iterations: Vec<usize>,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The name of the result in the model.
    pub value: String,
    /// The results of the first and of the second backend.
    pub made: [OnnxValue<TensorData>; 2],
    /// The difference; `None` if the results are equal within the tolerance.
    pub difference: Option<Difference>,
}

/// Runs a model on two backends, keeps every value, and compares the results of each node, in order.
///
/// The results inside a subgraph precede the results of its node. The model's functions are inlined in its
/// graph. Each backend continues with its own values, so nodes after the first difference may differ too; the
/// first difference is the place to look. If the backends take different branches or run different numbers of
/// iterations, only the common part is compared.
///
/// # Errors
///
/// The error of a backend that could not compile or run the model.
pub fn compare_nodes(
    module: &Module,
    inputs: &[Option<OnnxValue<TensorData>>],
    backends: [&Arc<dyn BackendRuntime>; 2],
    tolerance: impl Into<BackendTolerance>,
) -> Result<Vec<NodeComparison>, Error> {
    let tolerance = tolerance.into();
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

/// Applies a function to both values.
fn both<A, T>([first, second]: [A; 2], mut make: impl FnMut(A) -> Result<T, Error>) -> Result<[T; 2], Error> {
    Ok([make(first)?, make(second)?])
}

fn zip<A, B>([a0, a1]: [A; 2], [b0, b1]: [B; 2]) -> [(A, B); 2] {
    [(a0, b0), (a1, b1)]
}

/// The place of a graph in the model.
#[derive(Debug, Clone, Default)]
struct Place {
    path: String,
    iterations: Vec<usize>,
}

impl Place {
    fn of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Returns the place of a node's subgraph.
    fn inside(&self, name: &str, attribute: &str, iteration: Option<usize>) -> Place {
        let iterations = self.iterations.iter().copied().chain(iteration).collect();
        Place { path: format!("{}/{attribute}", self.of(name)), iterations }
    }
}

/// The inputs of a graph on one backend.
type Given = Vec<Option<OnnxValue<Value>>>;

/// The values of a graph on one backend.
type Values = HashMap<ValueId, OnnxValue<Value>>;

struct Walk<'a> {
    backends: [&'a Arc<dyn BackendRuntime>; 2],
    tolerance: BackendTolerance,
    /// The graphs compiled for both backends, by their addresses, because a loop body runs in every
    /// iteration.
    compiled: HashMap<*const Graph, [Arc<dyn ErasedExecutable>; 2]>,
    results: Vec<NodeComparison>,
}

impl Walk<'_> {
    /// Runs a graph on both backends and compares the results of its nodes; returns its outputs.
    ///
    /// The inputs of a subgraph are followed by its captures.
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
            let name = bb_core::error::name(graph, node);
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
            difference: self.tolerance.compare(first, second).err(),
            made,
        });
        Ok(())
    }

    /// Runs the subgraphs of a node in the same way as the node does.
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
                let on = self.backends.map(Erased);
                let mut loops = both(zip(on, values.each_ref()), |(on, values)| {
                    let operands = operands(values);
                    let held = operands.iter().map(|x| x.as_ref().map(|x| Item::Parts(x.map(&mut Held::of))));
                    Repetition::begin(&on, repeat, node, held.collect())
                })?;
                for iteration in 0.. {
                    let next = both(zip(loops.each_mut(), on), |(looping, on)| looping.next(&on))?;
                    let [Some(first), Some(second)] = next else { break };
                    let attribute = first.body;
                    let Some(Attribute::Graph(body)) = node.attributes.get(attribute) else { return Ok(()) };
                    let given = zip([first.given, second.given], values.each_ref()).map(|(items, values)| {
                        let own = items.into_iter().map(|x| Some(x.value().map(&mut Held::value)));
                        own.chain(captured(body, values)).collect()
                    });
                    let results = self.graph(body, given, &at.inside(name, attribute, Some(iteration)))?;
                    both(zip(zip(loops.each_mut(), on), results), |((looping, on), results)| {
                        looping
                            .absorb(&on, results.iter().map(|x| Item::Parts(x.map(&mut Held::of))).collect())
                    })?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the condition of a branch.
fn holds(on: &Arc<dyn BackendRuntime>, condition: Option<&Option<OnnxValue<Value>>>) -> Result<bool, Error> {
    let Some(Some(OnnxValue::Tensor(condition))) = condition else { return Ok(false) };
    let host = on.to_host(condition)?;
    Ok(bb_core::ext::integers(&host)?.first().is_some_and(|&n| n != 0))
}

/// Returns the values of a graph to keep: its outputs, the results of its nodes, and the values that nodes
/// with subgraphs read.
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

/// Returns the graph with these outputs, and with its captures as additional inputs.
fn opened(graph: &Graph, kept: &[ValueId]) -> Graph {
    let mut open = Graph { outputs: kept.to_vec(), ..graph.clone() };
    let captures = std::mem::take(&mut open.captures);
    open.inputs.extend(captures.iter().map(|(_, inner)| *inner));
    open
}
