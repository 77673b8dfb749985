//! Prepares the parts of a model to run.

use super::builder::DeploymentBuilder;
use super::parts::{BackendSubgraph, Loaded, Target};
use super::run::{Program, Runs, Step};
use crate::placement::PlacedTensor;
use crate::{BackendHandle, CheckedGraph, Error, Module};
use bb_core::contract::PartedGraph;
use bb_core::cut;
use bb_core::plan::{carriers, initializer};
use bb_ir::graph::{Attributes, Graph, Node, ValueId, entry};
use bb_ir::proto::{AttributeProto, StringStringEntryProto};
use std::collections::HashSet;
use std::sync::Arc;

/// Values of the model, with their names in a graph.
type NamedValues = Vec<(String, ValueId)>;

impl DeploymentBuilder {
    /// Prepares the parts of a model.
    pub(super) fn program(&self, model: Loaded) -> Result<Program, Error> {
        let Loaded { module, parts, placement, .. } = model;
        let graph = module.graph();
        let named = |values: &[ValueId]| {
            values.iter().map(|v| (graph.name_of(*v).to_owned(), *v)).collect::<Vec<_>>()
        };
        let mut steps = Vec::with_capacity(parts.len());
        // The constants that components and carriers read, or that are outputs of the model. The graphs of other parts contain their
        // own constants.
        let mut read: HashSet<ValueId> = graph.outputs.iter().copied().collect();
        for (part, dead) in parts.iter().zip(cut::last_reads(graph, &parts)) {
            let first = part.nodes.first().and_then(|&at| Some((at, graph.nodes.get(at)?)));
            let mut outputs = named(&part.outputs);
            let runs = match (part.target, self.backend_of(part.target), first) {
                (Target::Backend(_), Some(on), _) => {
                    let subgraph = self.subgraph(on, part.graph(graph), Vec::new(), Vec::new())?;
                    Runs::Subgraph { subgraph, inputs: named(&part.inputs) }
                }
                (Target::Carrier(_), Some(on), Some((_, node))) => {
                    let (subgraph, inputs, made) = self.carrier(graph, node, on)?;
                    outputs = made;
                    read.extend(inputs.iter().map(|(_, value)| *value));
                    Runs::Subgraph { subgraph, inputs }
                }
                (Target::Component(bound), _, Some((at, node))) => {
                    read.extend(node.reads());
                    let bound = self.components.get(bound);
                    let bound = bound.ok_or_else(|| Error::excluded("a component that is bound"))?;
                    Runs::Component { component: bound.component.clone(), node: at }
                }
                _ => return Err(Error::excluded("a part with nodes, on a backend that is bound")),
            };
            steps.push(Step { runs, outputs, dead });
        }
        let default = self.backends.default_backend()?;
        let constants = graph.constants.iter().filter(|(value, _)| read.contains(value));
        let constants = constants.map(|(value, data)| {
            let made = default.constant(data).map_err(|e| initializer(graph, *value, data.dtype(), e))?;
            Ok((*value, PlacedTensor::of_value(made)))
        });
        let whole = PartedGraph::new(graph, false, constants.collect::<Result<_, Error>>()?);
        Ok(Program { module, placement, whole, steps })
    }

    /// Prepares the body of a carrier. The backend receives the body with the attributes and metadata of the node, and with those
    /// that accompany every part.
    fn carrier(
        &self,
        graph: &Graph,
        node: &Node,
        on: &BackendHandle,
    ) -> Result<(BackendSubgraph, NamedValues, NamedValues), Error> {
        let body = carriers::body(node).ok_or_else(|| Error::excluded("a part of one carrier"))?;
        carriers::check(node, body)?;
        let kept = node.attributes.iter().filter(|(name, _)| *name != carriers::BODY);
        let kept = Attributes::new(kept.map(|(name, value)| (name.to_owned(), value.clone())).collect());
        let attributes = kept.to_proto(&|value| graph.name_of(value).to_owned())?;
        let metadata = node.metadata.iter().map(|(key, value)| entry(key, value)).collect();
        let named =
            |(inner, outer): (&ValueId, &Option<ValueId>)| Some((body.name_of(*inner).to_owned(), (*outer)?));
        let captured = body.captures.iter().map(|(outer, inner)| (body.name_of(*inner).to_owned(), *outer));
        let inputs = body.inputs.iter().zip(&node.inputs).filter_map(named).chain(captured).collect();
        let outputs = body.outputs.iter().zip(&node.outputs).filter_map(named).collect();
        Ok((self.subgraph(on, carriers::standalone(body), attributes, metadata)?, inputs, outputs))
    }

    /// Prepares a graph for a backend, with the attributes and metadata that accompany every part.
    fn subgraph(
        &self,
        on: &BackendHandle,
        graph: Graph,
        mut attributes: Vec<AttributeProto>,
        mut metadata: Vec<StringStringEntryProto>,
    ) -> Result<BackendSubgraph, Error> {
        if let Some(given) = self.accompanying.get(on.name()) {
            attributes.extend(given.attributes.iter().cloned());
            metadata.extend(given.metadata.iter().cloned());
        }
        let checked = Arc::new(CheckedGraph::new(Module::of_part(graph))?);
        Ok(BackendSubgraph { backend: on.clone(), checked, attributes, metadata })
    }
}
