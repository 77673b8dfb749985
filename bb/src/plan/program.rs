//! A compiled graph: stages, and for each the plans made so far.
//!
//! A plan holds for all inputs of the element types and ranks that it was traced with; for one extent only where
//! the trace consulted that, and for one value only where it read that. So a graph whose functions consult
//! nothing keeps one plan, and a decoder whose cache grows makes one per step, of which the latest are kept.

use super::constants::{Pool, fold};
use super::interpreter::{Failure, Prepared};
use super::stage::{Arriving, Outcome, Resolved, Settings, Start, in_node, trace};
use super::{CompileOptions, Module};
use crate::ext::FamilyTable;
use crate::{Backend, Error, Executable, Port, Tensor};
use bb_ir::graph::{Dim, ValueId, ValueType};
use bb_ir::{DataType, Shape, TensorData};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The most plans that a stage keeps.
const KEPT: usize = 64;

/// A compiled graph.
pub(crate) struct Program<B: Backend + ?Sized> {
    resolved: Resolved,
    tables: Vec<FamilyTable<B>>,
    settings: Settings,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    first: Stage<B::Tensor>,
    pool: Mutex<Pool<B::Tensor>>,
}

/// A stage and its plans.
struct Stage<T> {
    start: Start,
    /// The live values, by position, that some plan had to read.
    read: RwLock<Vec<usize>>,
    variants: RwLock<Vec<Arc<Variant<T>>>>,
}

/// A plan of a stage, and for which inputs it holds.
struct Variant<T> {
    guards: Vec<Guard>,
    prepared: Prepared<T>,
    next: Option<Stage<T>>,
}

/// What a plan assumes of one live value.
struct Guard {
    dtype: DataType,
    rank: usize,
    extents: Option<Shape>,
    value: Option<TensorData>,
}

impl Guard {
    fn holds<T: Tensor>(&self, x: &T, value: Option<&TensorData>) -> bool {
        self.dtype == x.dtype()
            && self.rank == x.shape().len()
            && self.extents.as_ref().is_none_or(|e| e.as_slice() == x.shape())
            && self.value.as_ref().is_none_or(|v| Some(v) == value)
    }
}

impl<T> Stage<T> {
    fn new(start: Start, read: Vec<usize>) -> Stage<T> {
        Stage { start, read: RwLock::new(read), variants: RwLock::default() }
    }
}

/// Compiles a module to the planned interpreter, with the families that the backend adopted.
///
/// # Errors
///
/// [`Error::Unsupported`] with every node that nothing runs.
pub(crate) fn compile<B: Backend + ?Sized>(
    module: &Module,
    options: &CompileOptions,
    tables: &[FamilyTable<B>],
) -> Result<Program<B>, Error> {
    let graph = module.graph();
    let port = |value: &ValueId| Port {
        name: graph.name_of(*value).to_owned(),
        ty: graph.values.get(value.index()).map_or(ValueType::Unknown, |v| v.ty.clone()),
        optional: graph.constants.iter().any(|(v, _)| v == value),
    };
    let inputs: Vec<Port> = graph.inputs.iter().map(port).collect();
    let outputs = graph.outputs.iter().map(port).collect();
    let resolved = Resolved::new(graph.clone())?;
    let start = Start { live: graph.inputs.clone(), ..Start::default() };
    Ok(Program {
        pool: Mutex::new(Pool::new(graph.constants.len())),
        tables: tables.to_vec(),
        settings: Settings {
            natives: tables.iter().map(|t| (t.family(), t.native())).collect(),
            value_bytes: options.value_bytes,
        },
        first: Stage::new(start, Vec::new()),
        inputs,
        outputs,
        resolved,
    })
}

impl<B: Backend + ?Sized> Program<B> {
    fn run_variant(&self, on: &B, variant: &Variant<B::Tensor>, live: &[&B::Tensor]) -> Result<Vec<B::Tensor>, B::Error> {
        variant.prepared.run(on, &self.tables, live).map_err(|failure| self.name(failure))
    }

    /// Says in which node of the graph a kernel failed.
    fn name(&self, failure: Failure<B::Error>) -> B::Error {
        match failure.node {
            Some(node) => in_node(&self.resolved.graph, node, failure.error).into(),
            None => failure.error,
        }
    }

    /// Finds the plan for these inputs, or makes it.
    fn variant(&self, on: &B, stage: &Stage<B::Tensor>, live: &[&B::Tensor]) -> Result<Arc<Variant<B::Tensor>>, B::Error> {
        let mut values: Vec<Option<TensorData>> = Vec::new();
        loop {
            let read = stage.read.read().unwrap_or_else(PoisonError::into_inner).clone();
            if !read.is_empty() {
                values.resize(live.len(), None);
            }
            for &position in &read {
                if let (Some(place @ None), Some(x)) = (values.get_mut(position), live.get(position)) {
                    *place = Some(on.to_host(x)?);
                }
            }
            let value = |i: usize| values.get(i).and_then(Option::as_ref);
            let known = stage.variants.read().unwrap_or_else(PoisonError::into_inner);
            let found = known
                .iter()
                .rev()
                .find(|v| v.guards.iter().zip(live).enumerate().all(|(i, (g, x))| g.holds(*x, value(i))));
            if let Some(found) = found {
                return Ok(found.clone());
            }
            drop(known);
            let arriving: Vec<Arriving> = live
                .iter()
                .enumerate()
                .map(|(i, x)| Arriving {
                    dtype: x.dtype(),
                    shape: Shape::from_slice(x.shape()),
                    varies: self.varies(stage, i),
                    known: value(i).cloned(),
                })
                .collect();
            match trace(&self.resolved, &stage.start, &arriving, &self.settings)? {
                Outcome::Needs(position) => {
                    let mut read = stage.read.write().unwrap_or_else(PoisonError::into_inner);
                    if !read.contains(&position) {
                        read.push(position);
                    }
                }
                Outcome::Done(traced) => {
                    let guards = arriving
                        .into_iter()
                        .enumerate()
                        .map(|(i, a)| Guard {
                            dtype: a.dtype,
                            rank: a.shape.len(),
                            extents: (!a.varies || traced.consulted & (1 << i.min(63)) != 0).then_some(a.shape),
                            value: a.known,
                        })
                        .collect();
                    let weights = &self.resolved.graph.constants;
                    let constants = {
                        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
                        fold(on, &self.tables, &mut pool, &traced.recorded, &traced.outputs, weights)?
                    };
                    let prepared = Prepared::new(&traced, constants);
                    let next = traced.next.map(|start| {
                        let read = traced.wanted.and_then(|w| start.live.iter().position(|v| *v == w));
                        Stage::new(start, read.into_iter().collect())
                    });
                    let variant = Arc::new(Variant { guards, prepared, next });
                    let mut variants = stage.variants.write().unwrap_or_else(PoisonError::into_inner);
                    if variants.len() >= KEPT {
                        variants.remove(0);
                    }
                    variants.push(variant.clone());
                    return Ok(variant);
                }
            }
        }
    }

    /// Tells whether other runs may bring other extents of a live value.
    fn varies(&self, stage: &Stage<B::Tensor>, position: usize) -> bool {
        let ty = stage.start.live.get(position).and_then(|v| self.resolved.graph.values.get(v.index())).map(|v| &v.ty);
        match ty {
            Some(ValueType::Tensor { shape: Some(dims), .. }) if stage.start.node == 0 => {
                dims.iter().any(|d| !matches!(d, Dim::Known(_)))
            }
            _ => true,
        }
    }
}

impl<B: Backend + ?Sized> Executable<B> for Program<B> {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error> {
        // The common case, one stage and every input given, clones no tensor.
        let given: Option<Vec<&B::Tensor>> = (inputs.len() == self.inputs.len()).then(|| inputs.iter().copied().collect()).flatten();
        if let Some(given) = given {
            let variant = self.variant(on, &self.first, &given)?;
            let results = self.run_variant(on, &variant, &given)?;
            return match &variant.next {
                None => Ok(results),
                Some(_) => self.run_rest(on, variant, results),
            };
        }
        let mut live = Vec::with_capacity(self.inputs.len());
        for (position, (port, value)) in self.inputs.iter().zip(&self.resolved.graph.inputs).enumerate() {
            let default = || {
                let index = self.resolved.weight(*value)? as usize;
                self.resolved.graph.constants.get(index).map(|(_, data)| data)
            };
            live.push(match (inputs.get(position).copied().flatten(), default()) {
                (Some(x), _) => x.clone(),
                (None, Some(data)) => on.constant(data)?,
                (None, None) => {
                    let expected = self.inputs.iter().filter(|p| !p.optional).map(|p| p.name.clone()).collect();
                    return Err(Error::MissingInput { name: port.name.clone(), expected }.into());
                }
            });
        }
        let refs: Vec<&B::Tensor> = live.iter().collect();
        let variant = self.variant(on, &self.first, &refs)?;
        let results = self.run_variant(on, &variant, &refs)?;
        self.run_rest(on, variant, results)
    }
}

impl<B: Backend + ?Sized> Program<B> {
    /// Runs the stages after the first.
    fn run_rest(&self, on: &B, first: Arc<Variant<B::Tensor>>, results: Vec<B::Tensor>) -> Result<Vec<B::Tensor>, B::Error> {
        let (mut variant, mut live) = (first, results);
        loop {
            let next = match &variant.next {
                None => return Ok(live),
                Some(stage) => self.variant(on, stage, &live.iter().collect::<Vec<_>>())?,
            };
            live = self.run_variant(on, &next, &live.iter().collect::<Vec<_>>())?;
            variant = next;
        }
    }
}
