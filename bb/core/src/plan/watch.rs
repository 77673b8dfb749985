//! Reports the progress of a run to a [`Profile`], or to [`Silent`], which compiles to nothing.

use super::resolve::Resolved;
use crate::cost::{self, Cost, TensorType};
use crate::measure::{Activity, Iteration, Profile, ProfiledNode, Scope};
use crate::trace::Operation;
use crate::{Error, Tensor};
use bb_ir::op::Param;
use bb_ir::{DataType, Shape};
use std::sync::Arc;
use std::time::Instant;

/// Receives the events of a run. Each method is called after its event, and takes the mark of the event's start.
pub(crate) trait Watch {
    /// A point in time.
    type Mark: Copy;
    /// The recorded description of operands.
    type Operands;

    /// Returns the current time.
    fn mark(&self) -> Self::Mark;

    /// Reports the start of a plan. Returns the index of its first instruction among the rows.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] from `sites`.
    fn plan(&mut self, sites: impl FnOnce() -> Result<Arc<Sites>, Error>) -> Result<usize, Error>;

    /// Records the operands of an instruction before it runs, because it may consume them.
    fn operands<'t>(&mut self, operands: impl Iterator<Item = Option<TensorType<'t>>>) -> Self::Operands;

    /// Reports that an instruction ran.
    fn instruction<'t, T: Tensor + 't>(
        &mut self,
        since: Self::Mark,
        number: usize,
        operands: Self::Operands,
        results: impl Iterator<Item = &'t T>,
    );

    /// Reports work outside of instructions, for a node of a graph.
    fn activity(&mut self, since: Self::Mark, activity: Activity, node: Option<(&Arc<Resolved>, usize)>);

    /// Reports the end of a plan whose first node is `node`.
    fn segment(&mut self, since: Self::Mark, resolved: &Arc<Resolved>, node: usize);

    /// Reports the start of an iteration of the loop `node`. `depth` is the number of enclosing loops.
    fn begin_round(&mut self, depth: usize, resolved: &Arc<Resolved>, node: usize);

    /// Reports the end of the last iteration of a loop. `depth` is the number of enclosing loops.
    fn end_rounds(&mut self, depth: usize);

    /// Returns the profile, if there is one, so that the same code works with and without a profile.
    fn profile(&mut self) -> Option<&mut Profile>;
}

/// An optional profile, checked at run time outside the instruction loop.
pub(crate) struct Watcher<'a>(pub(crate) Option<&'a mut Profile>);

impl Watch for Watcher<'_> {
    type Mark = Option<Instant>;
    type Operands = Option<SeenOperands>;

    fn mark(&self) -> Option<Instant> {
        self.0.as_ref().map(|profile| profile.mark())
    }

    fn plan(&mut self, sites: impl FnOnce() -> Result<Arc<Sites>, Error>) -> Result<usize, Error> {
        self.0.as_mut().map_or(Ok(0), |profile| profile.plan(sites))
    }

    fn operands<'t>(
        &mut self,
        operands: impl Iterator<Item = Option<TensorType<'t>>>,
    ) -> Option<SeenOperands> {
        self.0.as_mut().map(|profile| profile.operands(operands))
    }

    fn instruction<'t, T: Tensor + 't>(
        &mut self,
        since: Option<Instant>,
        number: usize,
        operands: Option<SeenOperands>,
        results: impl Iterator<Item = &'t T>,
    ) {
        if let (Some(profile), Some(since), Some(operands)) = (&mut self.0, since, operands) {
            profile.instruction(since, number, operands, results);
        }
    }

    fn activity(
        &mut self,
        since: Option<Instant>,
        activity: Activity,
        node: Option<(&Arc<Resolved>, usize)>,
    ) {
        if let (Some(profile), Some(since)) = (&mut self.0, since) {
            profile.activity(since, activity, node);
        }
    }

    fn segment(&mut self, since: Option<Instant>, resolved: &Arc<Resolved>, node: usize) {
        if let (Some(profile), Some(since)) = (&mut self.0, since) {
            profile.segment(since, resolved, node);
        }
    }

    fn begin_round(&mut self, depth: usize, resolved: &Arc<Resolved>, node: usize) {
        if let Some(profile) = &mut self.0 {
            profile.begin_round(depth, resolved, node);
        }
    }

    fn end_rounds(&mut self, depth: usize) {
        if let Some(profile) = &mut self.0 {
            profile.end_rounds(depth);
        }
    }

    fn profile(&mut self) -> Option<&mut Profile> {
        self.0.as_deref_mut()
    }
}

/// The element types and shapes of operands, `None` for an omitted operand.
pub(crate) type SeenOperands = Vec<Option<(DataType, Shape)>>;

/// A watch that ignores all events.
pub(crate) struct Silent;

impl Watch for Silent {
    type Mark = ();
    type Operands = ();

    #[inline(always)]
    fn mark(&self) {}

    #[inline(always)]
    fn plan(&mut self, _sites: impl FnOnce() -> Result<Arc<Sites>, Error>) -> Result<usize, Error> {
        Ok(0)
    }

    #[inline(always)]
    fn operands<'t>(&mut self, _operands: impl Iterator<Item = Option<TensorType<'t>>>) {}

    #[inline(always)]
    fn instruction<'t, T: Tensor + 't>(
        &mut self,
        _since: (),
        _number: usize,
        _operands: (),
        _results: impl Iterator<Item = &'t T>,
    ) {
    }

    #[inline(always)]
    fn activity(&mut self, _since: (), _activity: Activity, _node: Option<(&Arc<Resolved>, usize)>) {}

    #[inline(always)]
    fn segment(&mut self, _since: (), _resolved: &Arc<Resolved>, _node: usize) {}

    #[inline(always)]
    fn begin_round(&mut self, _depth: usize, _resolved: &Arc<Resolved>, _node: usize) {}

    #[inline(always)]
    fn end_rounds(&mut self, _depth: usize) {}

    #[inline(always)]
    fn profile(&mut self) -> Option<&mut Profile> {
        None
    }
}

/// The descriptions of a plan's instructions for a profile.
#[derive(Debug)]
pub(crate) struct Sites(pub(crate) Vec<Site>);

/// The description of an instruction of a plan.
#[derive(Debug)]
pub(crate) struct Site {
    /// The first node that it comes from, and the last if there are several.
    pub(crate) nodes: [Option<ProfiledNode>; 2],
    pub(crate) called: Called,
}

/// The target of an instruction's call.
#[derive(Debug)]
pub(crate) enum Called {
    Operation(Operation, Box<[Param<'static>]>),
    Graph {
        /// The element types and shapes that the cost was computed for.
        inputs: Vec<(DataType, Shape)>,
        cost: Cost,
    },
}

impl Called {
    fn activity(&self) -> Activity {
        match self {
            Called::Operation(Operation::Row(_), _) => Activity::Operation,
            Called::Operation(Operation::Host(_), _) => Activity::Host,
            Called::Graph { .. } => Activity::Graph,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Called::Operation(operation, _) => operation.name(),
            Called::Graph { .. } => Activity::Graph.name(),
        }
    }

    fn cost(&self, inputs: &[Option<(DataType, Shape)>], outputs: &[(DataType, Shape)]) -> Cost {
        let operands: Vec<Option<TensorType<'_>>> = inputs.iter().map(|x| x.as_ref().map(borrowed)).collect();
        let results: Vec<TensorType<'_>> = outputs.iter().map(borrowed).collect();
        match self {
            Called::Operation(Operation::Row(op), params) => cost::of(op, params, &operands, &results),
            Called::Operation(Operation::Host(_), _) => cost::of_host(&operands, &results),
            Called::Graph { inputs: planned, cost, .. } => {
                let same = operands.iter().flatten().copied().eq(planned.iter().map(borrowed));
                if same { *cost } else { Cost { flops: None, ..cost::of_host(&operands, &results) } }
            }
        }
    }
}

fn borrowed((dtype, shape): &(DataType, Shape)) -> TensorType<'_> {
    (*dtype, shape)
}

impl Watch for Profile {
    type Mark = Instant;
    type Operands = SeenOperands;

    fn mark(&self) -> Instant {
        Instant::now()
    }

    fn plan(&mut self, sites: impl FnOnce() -> Result<Arc<Sites>, Error>) -> Result<usize, Error> {
        let begun = Instant::now();
        let sites = sites()?;
        let address = Arc::as_ptr(&sites).addr();
        let first = match self.recorder.plans.get(&address) {
            Some((_, first)) => *first,
            None => {
                let first = self.rows.len();
                for (at, site) in sites.0.iter().enumerate() {
                    let row = self.push(site.called.activity(), site.nodes.clone(), site.called.name());
                    if let Some(place) = self.recorder.sites.get_mut(row) {
                        *place = Some((sites.clone(), at, Cost::UNKNOWN));
                    }
                }
                self.recorder.plans.insert(address, (sites, first));
                first
            }
        };
        self.own += begun.elapsed();
        Ok(first)
    }

    fn operands<'t>(&mut self, operands: impl Iterator<Item = Option<TensorType<'t>>>) -> SeenOperands {
        let begun = Instant::now();
        let seen = operands.map(|x| x.map(|(dtype, shape)| (dtype, Shape::from_slice(shape)))).collect();
        self.own += begun.elapsed();
        seen
    }

    fn instruction<'t, T: Tensor + 't>(
        &mut self,
        since: Instant,
        number: usize,
        inputs: SeenOperands,
        results: impl Iterator<Item = &'t T>,
    ) {
        let ended = Instant::now();
        let outputs: Vec<_> = results.map(seen).collect();
        let site = self.recorder.sites.get_mut(number).and_then(Option::as_mut);
        let (Some((sites, at, cost)), Some(row)) = (site, self.rows.get_mut(number)) else { return };
        if row.calls == 0 || row.inputs != inputs || row.outputs != outputs {
            let site = sites.downcast_ref().and_then(|Sites(sites)| sites.get(*at));
            *cost = site.map_or(Cost::UNKNOWN, |site| site.called.cost(&inputs, &outputs));
            (row.inputs, row.outputs) = (inputs, outputs);
        }
        let cost = *cost;
        self.add(number, since, ended, cost);
        self.own += ended.elapsed();
    }

    fn activity(&mut self, since: Instant, activity: Activity, node: Option<(&Arc<Resolved>, usize)>) {
        let ended = Instant::now();
        let key = match node {
            Some((resolved, at)) => (address(resolved), at, activity),
            None => (0, 0, activity),
        };
        if let Some((resolved, _)) = node {
            self.recorder.graphs.entry(key.0).or_insert_with(|| resolved.clone());
        }
        let name = || node.and_then(|(resolved, at)| ProfiledNode::of(&resolved.graph, at));
        let row = self.other(key, name, activity.name());
        self.add(row, since, ended, Cost::UNKNOWN);
        self.own += ended.elapsed();
    }

    fn segment(&mut self, since: Instant, resolved: &Arc<Resolved>, node: usize) {
        if self.limit > 0 {
            let from = ProfiledNode::of(&resolved.graph, node).map(|name| self.within(name).path);
            self.span(Scope::Segment { from: from.unwrap_or_default() }, since, Instant::now());
        }
    }

    fn begin_round(&mut self, depth: usize, resolved: &Arc<Resolved>, node: usize) {
        let since = Instant::now();
        let graph = address(resolved);
        let iteration = match self.recorder.iterations.get(depth) {
            Some(last) if (last.graph, last.node) == (graph, node) => last.iteration + 1,
            _ => 0,
        };
        self.end_rounds(depth);
        self.recorder.graphs.entry(graph).or_insert_with(|| resolved.clone());
        let name = ProfiledNode::of(&resolved.graph, node);
        let path = name.map_or_else(String::new, |name| self.within(name).path);
        // The start time is taken last, so that the iteration does not begin before the previous one has ended.
        self.recorder.iterations.push(Iteration { graph, node, path, iteration, begun: Instant::now() });
        self.own += since.elapsed();
    }

    fn end_rounds(&mut self, depth: usize) {
        let ended = Instant::now();
        while self.recorder.iterations.len() > depth {
            if let Some(Iteration { path, iteration, begun, .. }) = self.recorder.iterations.pop() {
                self.span(Scope::Iteration { node: path, iteration }, begun, ended);
            }
        }
    }

    fn profile(&mut self) -> Option<&mut Profile> {
        Some(self)
    }
}

/// Returns the element type and the shape of a tensor, in the form that [`Watch::operands`] takes.
pub(super) fn type_of<T: Tensor>(x: &T) -> TensorType<'_> {
    (x.dtype(), x.shape())
}

fn seen<T: Tensor>(x: &T) -> (DataType, Shape) {
    (x.dtype(), Shape::from_slice(x.shape()))
}

fn address(resolved: &Arc<Resolved>) -> usize {
    Arc::as_ptr(resolved).addr()
}
