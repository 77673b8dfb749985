//! A model that is loaded in an engine.

use crate::counts::CountedSession;
use crate::engine::{Engine, Signature};
use crate::error::{EngineError, Refusal, contained};
use crate::host::Host;
use crate::message::{message, signature};
use crate::several::{complete, is_optional, tensors};
use crate::shared::Shared;
use bb::onnx::OnnxValue;
use bb::{Backend, Executable, InputSpec, Module, Port, TensorData};
use bb_ir::graph::{Graph, Node, ValueId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A model that is loaded in an engine as one session.
pub struct Program<E: Engine> {
    shared: Arc<Shared<E>>,
    /// `None` if the model has no nodes.
    session: Option<CountedSession<E::Session>>,
    signature: Signature,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    declared: InputSpec,
    /// The index of the model's input for each input of the session.
    given: Vec<usize>,
    /// The default values of the model's inputs.
    defaults: Vec<Option<TensorData>>,
    results: Vec<OutputSource>,
}

/// The source of an output.
enum OutputSource {
    /// The session's result with this index.
    Session(usize),
    /// The model's input with this index.
    Input(usize),
    Constant(TensorData),
}

impl<E: Engine> Program<E> {
    /// Loads a model.
    pub(crate) fn new(shared: &Arc<Shared<E>>, module: &Module) -> Result<Program<E>, EngineError> {
        let graph = module.graph();
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Some(refusal) = shared.refusal(graph, node) {
                return Err(refused::<E>(graph, Some(at), refusal));
            }
        }
        let reads: HashSet<ValueId> = graph.nodes.iter().flat_map(|node| node.reads()).collect();
        let made: HashSet<ValueId> =
            graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied()).collect();
        let given: Vec<usize> = (0..graph.inputs.len())
            .filter(|&at| graph.inputs.get(at).is_some_and(|v| reads.contains(v)))
            .collect();
        let inputs: Vec<ValueId> = given.iter().filter_map(|&at| graph.inputs.get(at).copied()).collect();
        let mut wanted: Vec<ValueId> = graph.outputs.iter().copied().filter(|v| made.contains(v)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let nodes: Vec<usize> = (0..graph.nodes.len()).collect();
        let part = graph.part(&nodes, &inputs, &wanted);
        let loaded = load(shared, &part).map_err(|refusal| {
            let at = blamed(graph, &refusal);
            refused::<E>(graph, at, refusal)
        })?;
        let constants: HashMap<ValueId, &TensorData> =
            graph.constants.iter().map(|(value, data)| (*value, data)).collect();
        let positions = |of: &[ValueId]| -> HashMap<ValueId, usize> {
            of.iter().enumerate().rev().map(|(at, value)| (*value, at)).collect()
        };
        let (of_session, of_inputs) = (positions(&wanted), positions(&graph.inputs));
        let source = |value: &ValueId| {
            if let Some(at) = of_session.get(value) {
                return Ok(OutputSource::Session(*at));
            }
            if let Some(at) = of_inputs.get(value) {
                return Ok(OutputSource::Input(*at));
            }
            match constants.get(value) {
                Some(data) => Ok(OutputSource::Constant((*data).clone())),
                None => {
                    Err(bb::Error::MissingOutput { name: graph.name_of(*value).to_owned(), made: Vec::new() })
                }
            }
        };
        let (session, signature) = match loaded {
            Some((session, signature)) => (Some(session), signature),
            None => (None, Signature { inputs: Vec::new(), outputs: Vec::new() }),
        };
        Ok(Program {
            shared: shared.clone(),
            session,
            signature,
            inputs: Port::all_of(graph, &graph.inputs),
            outputs: Port::all_of(graph, &graph.outputs),
            declared: InputSpec::new(graph),
            given,
            defaults: graph.inputs.iter().map(|value| constants.get(value).map(|x| (*x).clone())).collect(),
            results: graph.outputs.iter().map(source).collect::<Result<_, _>>()?,
        })
    }

    fn run_all(&self, inputs: &[Option<OnnxValue<&Host>>]) -> Result<Vec<OnnxValue<Host>>, EngineError> {
        self.declared.check_items(inputs)?;
        complete(&self.inputs, inputs)?;
        let item = |at: usize| match inputs.get(at).and_then(Option::as_ref) {
            Some(item) => Some(item.map(&mut |x: &&Host| (*x).clone())),
            None => match self.defaults.get(at).and_then(Option::as_ref) {
                Some(default) => Some(OnnxValue::Tensor(Host::from(default.clone()))),
                None => self.inputs.get(at).filter(|port| is_optional(port)).map(|_| OnnxValue::Absent),
            },
        };
        let mut operands = Vec::with_capacity(self.given.len());
        for (&at, (name, _)) in self.given.iter().zip(&self.signature.inputs) {
            let Some(item) = item(at) else {
                let expected = self.inputs.iter().map(|port| port.name.clone()).collect();
                return Err(bb::Error::MissingInput { name: name.clone(), expected }.into());
            };
            operands.push(item.try_map(&mut |x: &Host| {
                x.data().prepare().map_err(bb::Error::from)?;
                Ok::<_, EngineError>(x.data().clone())
            })?);
        }
        let operands: Vec<OnnxValue<&TensorData>> = operands.iter().map(|x| x.map(&mut |x| x)).collect();
        if operands.iter().zip(&self.signature.inputs).any(|(x, (_, ty))| !ty.fits(x)) {
            // The inferred type of the value was wrong.
            return Err(EngineError::State { expected: "a value of the inferred type" });
        }
        let made = match &self.session {
            Some(session) => self.session_run(session, &operands)?,
            None => Vec::new(),
        };
        let missing = |port: &Port| bb::Error::MissingOutput { name: port.name.clone(), made: Vec::new() };
        let result = |(source, port): (&OutputSource, &Port)| match source {
            OutputSource::Session(at) => {
                let result = made.get(*at).ok_or_else(|| missing(port))?;
                Ok(result.map(&mut |x| Host::from(x.clone())))
            }
            OutputSource::Input(at) => item(*at).ok_or_else(|| missing(port).into()),
            OutputSource::Constant(data) => Ok(OnnxValue::Tensor(Host::from(data.clone()))),
        };
        self.results.iter().zip(&self.outputs).map(result).collect()
    }

    fn session_run(
        &self,
        session: &E::Session,
        inputs: &[OnnxValue<&TensorData>],
    ) -> Result<Vec<OnnxValue<TensorData>>, EngineError> {
        self.shared.counters.ran();
        let run = || self.shared.engine.run(session, &self.signature, inputs);
        let results = contained(run).map_err(|source| EngineError::Run { engine: E::NAME, source })?;
        let (expected, got) = (self.signature.outputs.len(), results.len());
        match expected == got {
            true => Ok(results),
            false => Err(EngineError::Results { engine: E::NAME, expected, got }),
        }
    }
}

/// A session with its inputs and outputs.
type Loaded<E> = (CountedSession<<E as Engine>::Session>, Signature);

/// Loads a graph. Returns `None` if it has no nodes.
fn load<E: Engine>(shared: &Shared<E>, graph: &Graph) -> Result<Option<Loaded<E>>, Refusal> {
    if graph.nodes.is_empty() {
        return Ok(None);
    }
    let signature = signature(graph, |ty| shared.engine.passes(ty))?;
    let message = message(graph, shared.engine.newest_opset())?;
    let session = contained(|| shared.engine.load(message, &signature)).map_err(Refusal::Load)?;
    Ok(Some((CountedSession::new(session, &shared.counters), signature)))
}

/// Returns the error for a model that the engine does not run, because of the node at index `at`, if that is known.
fn refused<E: Engine>(graph: &Graph, at: Option<usize>, source: Refusal) -> EngineError {
    let unsupported = |node: Option<&Node>| {
        let Node { op_type, domain, opset, .. } = node.cloned().unwrap_or_default();
        Box::new(bb::Error::UnsupportedOperator { op: op_type, domain, opset })
    };
    match at.and_then(|at| graph.nodes.get(at)) {
        Some(node) => EngineError::Refused {
            engine: E::NAME,
            node: graph.label_of(node).into(),
            unsupported: unsupported(Some(node)),
            source,
        },
        None => {
            let unsupported = unsupported(graph.nodes.first());
            EngineError::RefusedModel { engine: E::NAME, unsupported, source }
        }
    }
}

/// Returns the index of the node that the engine refuses, if the graph has only one node or the refusal names it.
fn blamed(graph: &Graph, refusal: &Refusal) -> Option<usize> {
    let find = |is: &dyn Fn(&Node) -> bool| graph.nodes.iter().position(is);
    match refusal {
        _ if graph.nodes.len() == 1 => Some(0),
        Refusal::Type { value, .. } | Refusal::NotTensor { value } => find(&|node| {
            let values = node.inputs.iter().chain(&node.outputs).flatten();
            values.into_iter().any(|id| graph.name_of(*id) == value)
        }),
        Refusal::Opset { op, .. } => find(&|node| node.op_type == *op),
        Refusal::Load(error) => {
            let causes =
                std::iter::successors(Some(&**error as &dyn std::error::Error), |error| error.source());
            let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
            let quoted =
                |name: &str| ["'", "\""].iter().any(|mark| text.contains(&format!("{mark}{name}{mark}")));
            find(&|node| !node.name.is_empty() && quoted(&node.name))
                .or_else(|| find(&|node| mentions(&text, &node.op_type)))
        }
        Refusal::Gap { .. } | Refusal::Weight(_) => None,
    }
}

/// Returns whether an engine's message names an operator, as in `for Mul(6) node` or `("name", Mul, "", -1)`.
fn mentions(text: &str, op: &str) -> bool {
    text.match_indices(op).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + op.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && matches!(after, Some('(' | ','))
    })
}

impl<E, B> Executable<B> for Program<E>
where
    E: Engine,
    B: Backend<Tensor = Host, Error = EngineError> + ?Sized,
{
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, _: &B, inputs: &[Option<&Host>]) -> Result<Vec<Host>, EngineError> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        tensors(&self.outputs, self.run_all(&items)?)
    }

    fn run_items(
        &self,
        _: &B,
        inputs: &[Option<OnnxValue<&Host>>],
    ) -> Result<Vec<OnnxValue<Host>>, EngineError> {
        self.run_all(inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_an_operator_as_a_word_before_its_version() {
        let text = "Could not find an implementation for Mul(6) node with name ''";
        assert!(
            mentions(text, "Mul")
                && !mentions(text, "Mu")
                && !mentions(text, "ul")
                && !mentions(text, "Constant")
        );
        let text = "ai.onnx.preview:FlexAttention(-1) is not a registered function/op";
        assert!(mentions(text, "FlexAttention") && !mentions(text, "Attention"));
        assert!(mentions("In Node, (\"n\", Gradient, \"\", -1)", "Gradient"));
    }
}
