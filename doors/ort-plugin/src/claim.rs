//! Selects the nodes of a graph that the provider claims.

use crate::api::{Api, Elements, Result};
use crate::error::{PluginError, line};
use crate::graph::{Label, Read, Reader};
use crate::lending::Lending;
use crate::raw::{OrtGraph, OrtNode};
use bb::coverage::{ClaimOptions, ClaimedPart, Claims, Declined, How};
use bb::{BackendHandle, DataType, Module};
use bb_core::ir::proto::{NodeProto, OperatorSetIdProto};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// The first minor version of ONNX Runtime that passes a claimed part the outer values that subgraphs of its nodes read.
const HANDS_CAPTURES: u32 = 28;

/// The first minor version of ONNX Runtime that gives different names to parts of different graphs of a model.
pub(crate) const NAMES_PARTS: u32 = 24;

/// An operator that ONNX Runtime replaces by nodes of its subgraph. It does not recognize claimed parts in these nodes.
const REPLACED: &str = "SequenceMap";

/// The reason for not claiming a claimed part again: ONNX Runtime repeats the query after it has replaced nodes by parts.
const CLAIMED_BEFORE: &str = "it is a part that is claimed already";

/// The claimed parts of a graph, and the reasons for declining the other nodes.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// The nodes of each part.
    pub(crate) parts: Vec<Vec<*const OrtNode>>,
    /// A line of JSON for each node.
    nodes: Vec<serde_json::Value>,
    /// Whether the graph is the main graph of the model and is claimed as a whole.
    pub(crate) whole: bool,
}

/// Determines the parts of a graph that a backend claims.
///
/// # Safety
///
/// The graph belongs to the running call.
pub(crate) unsafe fn claim(
    api: &Api,
    graph: *const OrtGraph,
    provider: &str,
    on: &BackendHandle,
    options: ClaimOptions,
) -> Result<Claimed> {
    let lending = Lending::default();
    let reader = Reader { api, elements: Elements::Lent(&lending, 0) };
    // SAFETY: here and below, the caller upholds the safety contract of this function.
    let parent = unsafe { api.parent(graph)? };
    if !parent.is_null() {
        // SAFETY: see above.
        if unsafe { api.operator(parent)? } == REPLACED {
            return Ok(Claimed::default());
        }
        // If the node of a subgraph is claimed, its subgraphs belong to its part and are not claimed separately.
        // SAFETY: see above.
        let opsets = unsafe { reader.opsets(graph)? };
        // SAFETY: see above.
        if unsafe { is_claimed(&reader, parent, &opsets, on, options) } {
            return Ok(Claimed::default());
        }
    }
    // SAFETY: see above.
    if api.minor < NAMES_PARTS && unsafe { is_nested(api, graph)? || may_be_replaced(api, graph)? } {
        return Ok(Claimed::default());
    }
    // SAFETY: see above.
    let (nodes, labels) = unsafe {
        let nodes = api.nodes(graph)?;
        let labels = nodes.iter().map(|&node| reader.label(node)).collect::<Result<Vec<_>>>()?;
        (nodes, labels)
    };
    let mut reasons = HashMap::new();
    for (at, &node) in nodes.iter().enumerate() {
        // SAFETY: see above.
        match unsafe { reader.alone(node, &[]) } {
            Ok(read) if read.proto.node.iter().any(|node| has_part(node, provider)) => {
                reasons.insert(at, "parts of its graphs are claimed".to_owned());
            }
            Ok(_) if labels.get(at).is_some_and(|label| label.domain == provider) => {
                reasons.insert(at, CLAIMED_BEFORE.to_owned());
            }
            Ok(_) => {}
            Err(error) => {
                reasons.insert(at, line(&error));
            }
        }
    }
    // SAFETY: see above.
    let read = unsafe { reader.read(graph, nodes.clone(), |at| !reasons.contains_key(&at))? };
    let found = ClaimResults::of(read, on, options, api.minor);
    let mut claimed = found.report(&nodes, labels, reasons);
    let count: usize = claimed.parts.iter().map(Vec::len).sum();
    claimed.whole = parent.is_null() && claimed.parts.len() == 1 && count == nodes.len();
    Ok(claimed)
}

/// Guesses whether a graph is a subgraph, for versions of ONNX Runtime that do not report it: a subgraph has no inputs, or reads outer
/// values.
unsafe fn is_nested(api: &Api, graph: *const OrtGraph) -> Result<bool> {
    // SAFETY: here and below, the caller upholds the safety contract of this function.
    if unsafe { api.graph_inputs(graph)? }.is_empty() {
        return Ok(true);
    }
    // SAFETY: see above.
    for node in unsafe { api.nodes(graph)? } {
        // SAFETY: see above.
        let values = unsafe { [api.inputs(node)?, api.implicit_inputs(node)?] };
        for &value in values.iter().flatten().filter(|value| !value.is_null()) {
            // SAFETY: see above.
            if unsafe { api.is_outer(value)? } {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns whether a graph may belong to a [`REPLACED`] operator, for versions of ONNX Runtime that do not report the node of a subgraph.
/// This is so if the model file contains the operator's name or cannot be read. A model loaded from bytes has no file, and is assumed not
/// to contain the operator.
unsafe fn may_be_replaced(api: &Api, graph: *const OrtGraph) -> Result<bool> {
    // SAFETY: the caller upholds the safety contract of this function.
    let path = unsafe { api.model_path(graph)? };
    Ok(path.is_some_and(|path| {
        let found = File::open(path).and_then(|file| contains(BufReader::new(file), REPLACED.as_bytes()));
        found.unwrap_or(true)
    }))
}

/// Returns whether a byte stream contains `sought`, whose first byte must not occur again in it.
fn contains(mut bytes: impl BufRead, sought: &[u8]) -> std::io::Result<bool> {
    let Some((first, rest)) = sought.split_first() else { return Ok(true) };
    let mut window = Vec::new();
    loop {
        let chunk = bytes.fill_buf()?;
        let length = chunk.len();
        if length == 0 {
            return Ok(false);
        }
        window.extend_from_slice(chunk);
        bytes.consume(length);
        if window.split(|byte| byte == first).skip(1).any(|after| after.starts_with(rest)) {
            return Ok(true);
        }
        window.drain(..window.len().saturating_sub(rest.len()));
    }
}

/// Returns whether a subgraph of a node has a claimed part. ONNX Runtime shows a part as a node in the domain of the provider.
fn has_part(node: &NodeProto, provider: &str) -> bool {
    let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
    graphs.flat_map(|graph| &graph.node).any(|node| node.domain() == provider || has_part(node, provider))
}

/// Returns whether a node is claimed with all its subgraphs. Returns `false` if one of them cannot be read.
unsafe fn is_claimed(
    reader: &Reader<'_>,
    node: *const OrtNode,
    opsets: &[OperatorSetIdProto],
    on: &BackendHandle,
    options: ClaimOptions,
) -> bool {
    // SAFETY: the caller upholds the safety contract of this function.
    let Ok(read) = (unsafe { reader.alone(node, opsets) }) else { return false };
    !ClaimResults::of(read, on, options, reader.api.minor).parts.is_empty()
}

/// The results for the nodes that could be read.
#[derive(Default)]
struct ClaimResults {
    /// For each node, how it runs, or why it is not claimed.
    nodes: HashMap<*const OrtNode, std::result::Result<&'static str, String>>,
    parts: Vec<Vec<*const OrtNode>>,
}

impl ClaimResults {
    fn of(mut read: Read, on: &BackendHandle, options: ClaimOptions, minor: u32) -> ClaimResults {
        let mut found = ClaimResults::default();
        let module = match module(&read) {
            Ok(module) => module,
            Err(_) => {
                found.leave_out(&mut read);
                match module(&read) {
                    Ok(module) => module,
                    Err(error) => {
                        for (at, &node) in read.nodes.iter().enumerate() {
                            if !read.is_outside(at) {
                                found.nodes.insert(node, Err(line(&error)));
                            }
                        }
                        return found;
                    }
                }
            }
        };
        let mut claims = Claims::of(&module, on, options);
        let names = Names::of(&read, &module);
        let types = on.runtime().capabilities().types;
        while let Some((nodes, reason)) = claims.parts.iter().find_map(|part| names.refused(part, minor)) {
            claims.give_up(&module, &nodes, reason);
        }
        let node = |at: &usize| names.nodes.get(*at).copied().flatten();
        found.parts = claims.parts.iter().map(|part| part.nodes.iter().filter_map(node).collect()).collect();
        for (at, claim) in claims.nodes.iter().enumerate() {
            let stands = names.positions.get(at).copied().flatten().is_some_and(|at| read.is_outside(at));
            if let Some(pointer) = node(&at).filter(|_| !stands) {
                let how = claim.as_ref().map(|how| told(how, names.types(at).all(|dtype| types.has(dtype))));
                found.nodes.insert(pointer, how.map_err(reason));
            }
        }
        found
    }

    /// Replaces the nodes that `bb` refuses on their own by placeholders.
    fn leave_out(&mut self, read: &mut Read) {
        let mut invalid = Vec::new();
        for (at, &node) in read.nodes.iter().enumerate().filter(|(at, _)| !read.is_outside(*at)) {
            let mut alone = read.clone();
            alone.keep(|other| other == at);
            if let Err(error) = module(&alone) {
                self.nodes.insert(node, Err(line(&error)));
                invalid.push(at);
            }
        }
        invalid.into_iter().for_each(|at| read.set_outside(at));
    }

    fn report(
        self,
        nodes: &[*const OrtNode],
        labels: Vec<Label>,
        mut reasons: HashMap<usize, String>,
    ) -> Claimed {
        let is_new = |at| reasons.get(&at).is_none_or(|reason| reason != CLAIMED_BEFORE);
        let new: Vec<bool> = (0..nodes.len()).map(is_new).collect();
        let one = |(at, (node, label)): (usize, (&*const OrtNode, Label))| {
            let Label { name, results, operator, domain } = label;
            let found = match self.nodes.get(node) {
                Some(found) => found.clone(),
                None => Err(reasons.remove(&at).unwrap_or_else(|| "`bb` leaves it out".to_owned())),
            };
            let (claimed, key, value) = match found {
                Ok(how) => (true, "how", how.to_owned()),
                Err(reason) => (false, "reason", reason),
            };
            json!({
                "node": name,
                "outputs": results,
                "operator": operator,
                "domain": domain,
                "claimed": claimed,
                (key): value,
            })
        };
        let all = nodes.iter().zip(labels).enumerate();
        let nodes = all.filter(|(at, _)| new.get(*at) == Some(&true)).map(one).collect();
        Claimed { parts: self.parts, nodes, whole: false }
    }
}

fn module(read: &Read) -> std::result::Result<Module, bb::Error> {
    Module::from_graph(&read.proto, &read.opsets, &[])
}

/// Returns the word of the report for how a node runs. `has_types` is true if the backend has the element types of the node; `bb`
/// emulates the others.
fn told(how: &How, has_types: bool) -> &'static str {
    match how {
        How::Native if !has_types => "emulated",
        How::Native => "native",
        How::Lowered(_) => "lowered",
        How::Host => "host",
        How::Unsupported => "unsupported",
    }
}

/// Returns the reason why a node is not claimed.
fn reason(declined: &Declined) -> String {
    match declined {
        Declined::Unsupported(missing) => match missing.first() {
            Some(missing) => missing.to_string(),
            None => "the backend does not support it".to_owned(),
        },
        Declined::Host => "it would run on the host; the option `host` claims such nodes".to_owned(),
        Declined::Lowered => "it is not native to the backend".to_owned(),
        Declined::Unchecked(unknown) => unknown.to_string(),
        Declined::GivenUp(reason) => (*reason).to_owned(),
        other => format!("{other:?}"),
    }
}

/// Maps the values and nodes of a checked graph to objects of ONNX Runtime.
struct Names<'a> {
    module: &'a Module,
    read: &'a Read,
    /// For each node of the checked graph, the ONNX Runtime node.
    nodes: Vec<Option<*const OrtNode>>,
    /// For each node of the checked graph, its index among the nodes that were read.
    positions: Vec<Option<usize>>,
}

impl<'a> Names<'a> {
    fn of(read: &'a Read, module: &'a Module) -> Names<'a> {
        let first = |node: &NodeProto| node.output.iter().find(|name| !name.is_empty()).cloned();
        let numbered = read.proto.node.iter().enumerate();
        let by_result: HashMap<String, usize> =
            numbered.filter_map(|(at, node)| Some((first(node)?, at))).collect();
        let graph = module.graph();
        let position = |node: &bb_core::ir::graph::Node| {
            let results = node.outputs.iter().flatten();
            results.map(|value| graph.name_of(*value)).find_map(|name| by_result.get(name)).copied()
        };
        let positions: Vec<Option<usize>> = graph.nodes.iter().map(position).collect();
        let nodes = positions.iter().map(|at| read.nodes.get((*at)?).copied()).collect();
        Names { module, read, nodes, positions }
    }

    /// Returns the known element types of the results and operands of a node of the checked graph, without constants, because many of
    /// these are parameters that the backend gets as numbers, for example the axes of a sum.
    fn types(&self, at: usize) -> impl Iterator<Item = DataType> {
        let graph = self.module.graph();
        let node = graph.nodes.get(at).into_iter();
        let values = node.flat_map(|node| node.reads().chain(node.outputs.iter().flatten().copied()));
        let names =
            values.map(|value| graph.name_of(value)).filter(|name| !self.read.constants.contains(*name));
        names.filter_map(|name| self.read.tensors.get(name).copied())
    }

    /// Returns nodes that the part must not contain, and the reason. Returns `None` if ONNX Runtime can run the part.
    fn refused(&self, part: &ClaimedPart, minor: u32) -> Option<(Vec<usize>, &'static str)> {
        let graph = self.module.graph();
        let is_tensor = |value| self.read.tensors.contains_key(graph.name_of(value));
        let crossing: HashSet<_> =
            part.inputs.iter().chain(&part.outputs).copied().filter(|value| !is_tensor(*value)).collect();
        let touches = |at: &usize| {
            graph.nodes.get(*at).is_some_and(|node| {
                node.reads()
                    .chain(node.outputs.iter().flatten().copied())
                    .any(|value| crossing.contains(&value))
            })
        };
        if !crossing.is_empty() {
            let nodes = part.nodes.iter().copied().filter(touches).collect();
            return Some((
                nodes,
                "a sequence, a map, or a type that the interface does not pass on goes in or out",
            ));
        }
        if minor >= HANDS_CAPTURES {
            return None;
        }
        let unseen = self.captured_alone(part);
        (!unseen.is_empty()).then_some((
            unseen,
            "this version of ONNX Runtime does not hand over what its graphs read from outside",
        ))
    }

    /// Returns the nodes of a part with an outer value that ONNX Runtime would not pass: a subgraph reads it, but it is neither a result of
    /// the part nor an operand of one of its nodes.
    fn captured_alone(&self, part: &ClaimedPart) -> Vec<usize> {
        let at = |node: &usize| self.positions.get(*node).copied().flatten();
        let protos = || part.nodes.iter().filter_map(at).filter_map(|at| self.read.proto.node.get(at));
        let seen: HashSet<&str> =
            protos().flat_map(|node| node.input.iter().chain(&node.output)).map(String::as_str).collect();
        let is_unseen = |name: &String| !seen.contains(name.as_str()) && !self.read.constants.contains(name);
        let needs = |node: &&usize| {
            let captured = at(node).and_then(|at| self.read.captured.get(at));
            captured.is_some_and(|names| names.iter().any(is_unseen))
        };
        part.nodes.iter().filter(needs).copied().collect()
    }
}

impl Claimed {
    /// Appends the lines of JSON to a file.
    pub(crate) fn append_to(&self, path: &Path) -> Result<()> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        append(path, &format!("{}\n", json!({ "parts": self.parts.len(), "nodes": self.nodes })))
    }
}

/// Appends a string to a file.
pub(crate) fn append(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| PluginError::Report { path: path.to_owned(), source })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_across_the_pieces_that_a_file_is_read_in() {
        let found = |text: &str, room: usize| {
            contains(BufReader::with_capacity(room, text.as_bytes()), REPLACED.as_bytes()).unwrap()
        };
        for room in 1..30 {
            assert!(found("x: SequenceMap", room) && found("SSequenceMap, and more", room), "{room}");
            assert!(!found("SequenceAt, Sequence, Map", room) && !found("", room), "{room}");
        }
    }
}
