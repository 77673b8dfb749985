//! The inputs of a run, which are read from files or random.

mod demands;
mod extents;
mod files;
mod picture;
mod random;
mod search;
mod solve;
mod uses;

use crate::error::{Error, Result};
use crate::session::Session;
use crate::{args, out, render};
use bb::onnx::OnnxValue;
use bb::{Module, Port, RunOptions, TensorData};
use bb_ir::graph::{Dim, Graph, ValueId, ValueType};
use bb_ir::text::{sentence, shown};
use extents::{Declared, Extents, Open};
use solve::Solution;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// The treatment of inputs that the options do not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// The inputs are an error, unless `--random` is set.
    Refuse,
    /// The inputs get random elements.
    Random,
}

/// The inputs of a model.
pub(crate) struct ModelInputs {
    /// The inputs in the order of the ports. `None` omits an input that has a default.
    pub(crate) items: Vec<Option<OnnxValue<TensorData>>>,
    /// The extents that were chosen because nothing determined them, with the names `NAME` or `INPUT[AXIS]`.
    pub(crate) chosen: Vec<(String, usize)>,
    /// The outputs, if the model already ran to test the chosen extents.
    pub(crate) outputs: Option<Vec<OnnxValue<TensorData>>>,
}

impl ModelInputs {
    /// Lists the chosen extents, as in `batch = 8, n = 3`.
    pub(crate) fn chosen_text(&self) -> String {
        self.chosen.iter().map(|(name, extent)| format!("{name} = {extent}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the chosen extents as JSON.
    pub(crate) fn chosen_json(&self) -> serde_json::Value {
        let entries = self.chosen.iter().map(|(name, extent)| (name.clone(), (*extent).into()));
        entries.collect::<serde_json::Map<_, _>>().into()
    }
}

/// Reads or generates the inputs of a session's model. Prints the chosen extents to standard error.
pub(crate) fn given(session: &Session, options: &args::Inputs, otherwise: Otherwise) -> Result<ModelInputs> {
    let ports = session.executable.inputs();
    let declared = ports.iter().map(|port| Declared { name: port.name.clone(), ty: port.ty.clone() });
    let mut extents = Extents::new(declared.collect(), &options.extents, session.strict)?;
    let ranges = random::Ranges::new(&options.ranges, ports)?;
    let items = files::read(ports, options, &mut extents, session.value_bytes)?;
    let missing: Vec<&Port> = ports
        .iter()
        .zip(&items)
        .filter(|(port, item)| item.is_none() && !port.optional)
        .map(|(port, _)| port)
        .collect();
    for range in &options.ranges {
        let concerns = |name: &String| missing.iter().any(|port| port.name == *name);
        if !range.input.as_ref().map_or(!missing.is_empty(), concerns) {
            let what = range.input.as_deref().unwrap_or("any input");
            out::note(format_args!("warning: --range has no effect on {}, which is not random", shown(what)));
        }
    }
    if missing.is_empty() {
        return Ok(ModelInputs { items, chosen: Vec::new(), outputs: None });
    }
    if otherwise == Otherwise::Refuse && options.random.is_none() {
        let needed =
            missing.iter().map(|port| format!("`{}`: {}", shown(&port.name), sentence(render::ty(&port.ty))));
        return Err(Error::InputsNeeded { needed: needed.collect::<Vec<_>>().join(", ") });
    }
    missing.iter().try_for_each(|port| random::check(port, &ranges))?;
    let maker = Maker { session, ports, items, ranges, seed: options.random.unwrap_or(1) };
    maker.complete(&extents).map_err(|error| session.failed(error))
}

/// The parameters for generating random inputs.
struct Maker<'a> {
    session: &'a Session,
    ports: &'a [Port],
    /// The inputs from files.
    items: Vec<Option<OnnxValue<TensorData>>>,
    ranges: random::Ranges<'a>,
    seed: u64,
}

impl Maker<'_> {
    /// Generates the missing inputs, with extents that let the model run.
    fn complete(self, extents: &Extents) -> Result<ModelInputs> {
        if !extents.misses_rank() && extents.open().is_empty() {
            let items = self.items(extents, &|_| 1)?;
            return Ok(ModelInputs { items, chosen: Vec::new(), outputs: None });
        }
        // The order of the tried ranks: an input of unknown rank is usually a matrix or a batch of pictures.
        let is_final = |error: &Error| matches!(error, Error::Upload { .. });
        let ranks: &[usize] = if extents.misses_rank() { &[2, 4, 3, 1, 0] } else { &[0] };
        let mut tried = 0;
        let mut first = None;
        let until = Instant::now() + search::LONGEST;
        for rank in ranks {
            let extents = extents.with_rank(*rank);
            let infers = |choose: &dyn Fn(&Open) -> usize| self.inferred(&extents, choose).map(drop);
            let works = |choose: &dyn Fn(&Open) -> usize| {
                let items = self.items(&extents, choose)?;
                let outputs = self.session.run(&items)?;
                Ok((items, outputs))
            };
            let elements = |choose: &dyn Fn(&Open) -> usize| {
                let of_one = |port: &Port| {
                    let shape = extents.shape(&port.name, choose);
                    shape.iter().fold(1, |all: usize, extent| all.saturating_mul(*extent))
                };
                self.ports.iter().map(of_one).fold(0, usize::saturating_add)
            };
            let solution = Solution::new(&self.session.module, &extents);
            // The demands of a node that never runs would exclude valid extents, so the search is repeated without demands.
            for solution in [solution, Solution::default()] {
                match search::search(&extents, &solution, infers, works, elements, is_final, until) {
                    Ok((choice, (items, outputs))) => {
                        let chosen = named(choice, &solution);
                        return Ok(ModelInputs { items, chosen, outputs: Some(outputs) });
                    }
                    Err(failed) => match failed.first {
                        // An unsupported element type remains an error with other extents, so the search ends.
                        Some(error) if is_final(&error) => return Err(*error),
                        other => {
                            tried += failed.tried;
                            first = first.or(other);
                        }
                    },
                }
            }
        }
        Err(Error::NoExtents { open: open_names(extents), tried, source: first })
    }

    /// Infers the model's graph with these extents. Returns an error if the extents do not fit.
    fn inferred(&self, extents: &Extents, choose: &dyn Fn(&Open) -> usize) -> Result<Graph> {
        inferred(&self.session.module, extents, choose)
    }

    /// Generates the missing inputs.
    fn items(
        &self,
        extents: &Extents,
        choose: &dyn Fn(&Open) -> usize,
    ) -> Result<Vec<Option<OnnxValue<TensorData>>>> {
        // If inference fails, the uninferred graph is used, which may give no rules for the elements. Running the model then reports the
        // error.
        let graph = self.inferred(extents, choose).ok();
        let graph = graph.as_ref().unwrap_or(self.session.module.graph());
        let mut items = self.items.clone();
        let uses = uses::Uses::new(graph);
        let values: HashMap<&str, ValueId> =
            graph.inputs.iter().map(|value| (graph.name_of(*value), *value)).collect();
        for (i, (port, place)) in self.ports.iter().zip(&mut items).enumerate() {
            if place.is_some() || port.optional {
                continue;
            }
            RunOptions::check_current()?;
            let value = values.get(port.name.as_str());
            let fits = value.and_then(|value| uses.elements(*value));
            let shape = extents.shape(&port.name, choose);
            let seed = self.seed.wrapping_add(i as u64);
            *place = Some(random::item(&port.name, &port.ty, &shape, seed, &self.ranges, fits.as_ref())?);
        }
        Ok(items)
    }
}

/// Infers a module's graph with these extents. Returns an error if the extents do not fit.
fn inferred(module: &Module, extents: &Extents, choose: &dyn Fn(&Open) -> usize) -> Result<Graph> {
    let graph = module.graph();
    let shapes = graph.inputs.iter().map(|value| (*value, extents.shape(graph.name_of(*value), choose)));
    let shapes: Vec<_> = shapes.collect();
    let shapes: Vec<_> = shapes.iter().map(|(value, shape)| (*value, shape.as_slice())).collect();
    let infer = || bb_ir::infer::with_shapes(graph, &shapes, bb::onnx::OPERATORS, &bb_ir::Limits::default());
    Ok(RunOptions::paced(infer)??)
}

/// Prints the chosen extents, and returns them with their names.
fn named(choice: search::Choice, solution: &Solution) -> Vec<(String, usize)> {
    let list = |determined: bool| {
        let all = choice.iter().filter(|(open, _)| solution.determines(open) == determined);
        all.map(|(open, extent)| format!("{}={extent}", shown(open))).collect::<Vec<_>>().join(", ")
    };
    for (determined, said) in
        [(true, "extents that the model demands"), (false, "chosen for extents that nothing says")]
    {
        let list = list(determined);
        if !list.is_empty() {
            out::note(format_args!("{said}: {list}"));
        }
    }
    choice.into_iter().map(|(open, extent)| (open.to_string(), extent)).collect()
}

fn open_names(extents: &Extents) -> Vec<String> {
    extents.open().iter().map(Open::to_string).collect()
}

/// Returns the shapes of a model's inputs by name, for tracing without running. Chooses open extents so that inference succeeds, and prints
/// the choice to standard error.
pub(crate) fn shapes(module: &Module, options: &args::ExtentArgs) -> Result<HashMap<String, Vec<usize>>> {
    let graph = module.graph();
    let extents = Extents::new(declared(module), options, false)?.with_rank(2);
    let infers = |choose: &dyn Fn(&Open) -> usize| inferred(module, &extents, choose).map(drop);
    let solved = Solution::new(module, &extents);
    let until = Instant::now() + search::LONGEST;
    let search = |solution| search::search(&extents, solution, infers, |_| Ok(()), |_| 0, |_| false, until);
    let (choice, solution) = match search(&solved) {
        Ok((choice, ())) => (choice, solved),
        Err(first) => match search(&Solution::default()) {
            Ok((choice, ())) => (choice, Solution::default()),
            Err(failed) => {
                let source = first.first.or(failed.first);
                let tried = first.tried + failed.tried;
                return Err(Error::NoExtents { open: open_names(&extents), tried, source });
            }
        },
    };
    let chosen: HashMap<&Open, usize> = choice.iter().map(|(open, extent)| (open, *extent)).collect();
    let choose = |wanted: &Open| chosen.get(wanted).copied().unwrap_or(1);
    let names = graph.inputs.iter().map(|value| graph.name_of(*value));
    let shapes = names.map(|name| (name.to_owned(), extents.shape(name, &choose))).collect();
    if !choice.is_empty() {
        named(choice, &solution);
    }
    Ok(shapes)
}

/// Lists the extents of a model's inputs that the options leave open, with the names `NAME` or `INPUT[AXIS]`.
pub(crate) fn open(module: &Module, options: &args::ExtentArgs) -> Result<Vec<String>> {
    Ok(open_names(&Extents::new(declared(module), options, false)?))
}

/// The extents of inputs, by the input's name.
type Dims = HashMap<String, Vec<Dim>>;

/// Returns the extents of the inputs without defaults by name, and the names of open extents. Does not choose values for open extents.
pub(crate) fn dims(module: &Module, options: &args::ExtentArgs) -> Result<(Dims, Vec<String>)> {
    let graph = module.graph();
    let defaults: HashSet<&str> = graph.constants.iter().map(|(value, _)| graph.name_of(*value)).collect();
    let has_default = |name: &str| defaults.contains(name);
    let needed: Vec<Declared> =
        declared(module).into_iter().filter(|input| !has_default(&input.name)).collect();
    let names: Vec<String> = needed.iter().map(|input| input.name.clone()).collect();
    let extents = Extents::new(needed, options, false)?;
    let open = open_names(&extents);
    let dims = names.into_iter().filter_map(|name| extents.dims(&name).map(|dims| (name, dims))).collect();
    Ok((dims, open))
}

fn declared(module: &Module) -> Vec<Declared> {
    let graph = module.graph();
    let declared = |value: &ValueId| Declared {
        name: graph.name_of(*value).to_owned(),
        ty: graph.values.get(value.index()).map_or(ValueType::Unknown, |v| v.ty.clone()),
    };
    graph.inputs.iter().map(declared).collect()
}

/// Returns the error for a name that no input has.
fn unknown<'a>(name: &str, inputs: impl Iterator<Item = &'a str> + Clone) -> Error {
    let nearest = bb_ir::nearest(name, inputs.clone()).map(str::to_owned);
    Error::UnknownInput { name: name.to_owned(), nearest, expected: inputs.map(str::to_owned).collect() }
}
