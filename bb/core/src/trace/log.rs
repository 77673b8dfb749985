//! The dependencies of a trace on the extents of the inputs: tied symbols and guards.
//!
//! A *symbol* represents an extent of an input that may differ in other runs. Tracing knows each extent both as a
//! number (the extent of the traced input) and as a [`DimExpr`] of symbols. If tracing uses a comparison of extents,
//! the trace is valid only for inputs that give the same comparison result: this condition is a *guard*. If
//! tracing uses the number itself, it *ties* the trace to the symbols of the expression.

use super::steps::InputIndex;
use super::table::TableIndex;
use crate::{Error, RunOptions};
use bb_ir::graph::DimExpr;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The index of a symbol in its trace.
pub(crate) type SymbolNo = u32;

/// The input and the axis of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) input: InputIndex,
    pub(crate) axis: u32,
}

/// A symbol: its name, and the extents of inputs that it represents.
#[derive(Debug, Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// The extent of the traced input.
    pub(crate) number: i64,
    /// The extents that the symbol represents. There is at least one, and all are equal.
    pub(crate) places: SmallVec<[Place; 1]>,
}

/// A relation between an expression and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Relation {
    Zero,
    NotZero,
    AtLeastZero,
}

impl Relation {
    pub(crate) fn holds(self, number: i64) -> bool {
        match self {
            Relation::Zero => number == 0,
            Relation::NotZero => number != 0,
            Relation::AtLeastZero => number >= 0,
        }
    }
}

/// A condition on extents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    pub(crate) expr: DimExpr,
    pub(crate) relation: Relation,
}

impl Guard {
    /// Returns the guard that an expression is at least 0.
    pub(crate) fn at_least_zero(expr: &DimExpr) -> Guard {
        Guard { expr: expr.tightened(), relation: Relation::AtLeastZero }
    }

    /// Returns whether this guard holds whenever the other guard does.
    pub(crate) fn follows_from(&self, other: &Guard) -> bool {
        let beyond = |expr: &DimExpr, least| expr.exceeds(&other.expr, least);
        match (self.relation, other.relation) {
            (Relation::AtLeastZero, Relation::AtLeastZero) => beyond(&self.expr, 0),
            (Relation::NotZero, Relation::AtLeastZero) => {
                beyond(&self.expr, 1) || self.expr.scaled(-1).is_some_and(|opposite| beyond(&opposite, 1))
            }
            _ => false,
        }
    }
}

/// Formats the guard as a comparison, with added terms on one side and subtracted terms on the other.
impl std::fmt::Display for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [added, subtracted] = self.expr.sides();
        let swapped = added.constant().is_some();
        let (left, right) = if swapped { (subtracted, added) } else { (added, subtracted) };
        let relation = match self.relation {
            Relation::Zero => "is",
            Relation::NotZero => "is not",
            Relation::AtLeastZero if swapped => "is at most",
            Relation::AtLeastZero => "is at least",
        };
        write!(f, "{left} {relation} {right}")
    }
}

/// A dependency of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The trace is valid only for this symbol's number.
    Tied(SymbolNo),
    /// The trace is valid only if the guard holds.
    Guarded(Guard),
}

/// The maximum number of preceding guards, and of following guards, that a guard is compared with. Expressions have a bounded number of
/// terms, so comparing all guards of a trace takes linear time.
pub(crate) const MOST_COMPARED: usize = 128;

/// Returns the guards that do not follow from other guards, with the indices of their events. A guard may also be
/// returned if it follows only from a distant guard, because only nearby guards are compared.
///
/// # Errors
///
/// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
pub(crate) fn needed(events: &[Event]) -> Result<Vec<(usize, &Guard)>, Error> {
    let mut guards: Vec<(usize, &Guard)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        if let Event::Guarded(guard) = event {
            guards.push((at, guard));
        }
    }
    let mut needed = Vec::new();
    for (i, &(at, guard)) in guards.iter().enumerate() {
        RunOptions::check_current()?;
        let first = i.saturating_sub(MOST_COMPARED);
        let mut near = guards.iter().enumerate().skip(first).take(i - first + 1 + MOST_COMPARED);
        // If two guards are equivalent, only the first is kept.
        let follows = |(j, &(_, other)): (usize, &(usize, &Guard))| {
            i != j && guard.follows_from(other) && (j < i || !other.follows_from(guard))
        };
        if !near.any(follows) {
            needed.push((at, guard));
        }
    }
    Ok(needed)
}

/// The conditions under which a known fact about a value holds. They become conditions of the trace when the fact is
/// used.
#[derive(Debug, Clone, Default)]
pub(crate) struct When(Option<Arc<Conditions>>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Conditions {
    /// The symbols that must equal the traced numbers, in order.
    tied: SmallVec<[SymbolNo; 4]>,
    guards: Vec<Guard>,
}

/// The maximum number of guards in conditions. If there are more, they become conditions of the trace immediately.
const MOST_GUARDS: usize = 16;

/// The maximum number of symbols that conditions tie. If there are more, all conditions become conditions of the trace
/// immediately.
const MOST_TIED: usize = 64;

impl When {
    /// No condition: the fact always holds.
    pub(crate) const ALWAYS: When = When(None);

    /// Returns whether there is no condition.
    pub(crate) fn is_always(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the conjunction of both conditions.
    pub(crate) fn and(&self, other: &When) -> When {
        match (&self.0, &other.0) {
            (_, None) => self.clone(),
            (None, _) => other.clone(),
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => self.clone(),
            (Some(a), Some(b)) => {
                let mut both = Conditions::clone(a);
                b.tied.iter().for_each(|no| both.tie(*no));
                for guard in &b.guards {
                    if !both.guards.contains(guard) {
                        both.guards.push(guard.clone());
                    }
                }
                When(Some(Arc::new(both)))
            }
        }
    }

    /// Returns the condition that the symbols of an expression equal the traced numbers.
    pub(crate) fn tied(log: &Log, expr: &DimExpr) -> When {
        let state = log.lock();
        let mut conditions = Conditions::default();
        expr.names(&mut |name| {
            if let Some(&no) = state.numbers.get(name) {
                conditions.tie(no);
            }
        });
        if conditions == Conditions::default() { When(None) } else { When(Some(Arc::new(conditions))) }
    }

    /// Returns the condition that the guard holds.
    pub(crate) fn guarded(guard: Guard) -> When {
        When(Some(Arc::new(Conditions { tied: SmallVec::new(), guards: vec![guard] })))
    }

    /// Returns the conditions that the trace recorded after its first `events` events.
    pub(crate) fn since(log: &Log, events: usize) -> When {
        let state = log.lock();
        let mut conditions = Conditions::default();
        for event in state.events.get(events..).unwrap_or_default() {
            match event {
                Event::Tied(no) => conditions.tie(*no),
                Event::Guarded(guard) => conditions.guards.push(guard.clone()),
            }
        }
        if conditions == Conditions::default() { When(None) } else { When(Some(Arc::new(conditions))) }
    }

    /// Returns these conditions, or none if there are too many or the log is strict. In those cases they become
    /// conditions of the trace.
    pub(crate) fn bounded(self, log: &Log) -> When {
        match &self.0 {
            Some(conditions) if conditions.tied.len() > MOST_TIED || log.lock().strict => {
                log.require(&self);
                When(None)
            }
            Some(conditions) if conditions.guards.len() > MOST_GUARDS => {
                let mut state = log.lock();
                conditions.guards.iter().for_each(|guard| state.guard(guard));
                let tied = conditions.tied.clone();
                let guards = Vec::new();
                if tied.is_empty() { When(None) } else { When(Some(Arc::new(Conditions { tied, guards }))) }
            }
            _ => self,
        }
    }
}

impl Conditions {
    fn tie(&mut self, no: SymbolNo) {
        if let Err(place) = self.tied.binary_search(&no) {
            self.tied.insert(place, no);
        }
    }
}

/// The symbols of a trace, and the dependencies that were recorded so far.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<LogState>);

#[derive(Debug, Default)]
struct LogState {
    symbols: Vec<Symbol>,
    /// The indices of the symbols, by name.
    numbers: HashMap<String, SymbolNo>,
    /// For each name, the number of symbols that were renamed because the name existed already.
    repeated: HashMap<String, u32>,
    /// Whether extents that have the same name in the model differ.
    contradicted: bool,
    /// Whether the trace is tied to each symbol.
    tied: Vec<bool>,
    guards: HashSet<Guard>,
    events: Vec<Event>,
    /// Whether conditions on extents become conditions of the trace immediately.
    strict: bool,
}

impl LogState {
    fn tie(&mut self, no: SymbolNo) {
        if let Some(tied @ false) = self.tied.get_mut(no as usize) {
            *tied = true;
            self.events.push(Event::Tied(no));
        }
    }

    fn tie_name(&mut self, name: &str) {
        if let Some(&no) = self.numbers.get(name) {
            self.tie(no);
        }
    }

    fn guard(&mut self, guard: &Guard) {
        if !self.is_tied(&guard.expr) && self.guards.insert(guard.clone()) {
            self.events.push(Event::Guarded(guard.clone()));
        }
    }

    fn is_tied(&self, expr: &DimExpr) -> bool {
        let mut all = true;
        expr.names(&mut |name| {
            let no = self.numbers.get(name);
            all &= no.is_some_and(|no| self.tied.get(*no as usize) == Some(&true));
        });
        all
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the expression of an extent that varies. `number` is the extent of the traced input.
    ///
    /// Extents of inputs that the model declares with the same name share one symbol, which has the name `shared`. An extent without a
    /// declared name gets a separate symbol.
    pub(crate) fn symbol(
        &self,
        place: Place,
        number: usize,
        shared: Option<&str>,
        own: &str,
    ) -> Option<DimExpr> {
        let number = i64::try_from(number).ok()?;
        let state = &mut *self.lock();
        if let Some(name) = shared
            && let Some(symbol) = state.numbers.get(name).and_then(|no| state.symbols.get_mut(*no as usize))
            && symbol.number == number
        {
            symbol.places.push(place);
            return Some(DimExpr::name(name));
        }
        let wanted = shared.unwrap_or(own);
        state.contradicted |= shared.is_some_and(|name| state.numbers.contains_key(name));
        let mut name = wanted.to_owned();
        while state.numbers.contains_key(&name) {
            // A counter is kept per name, because all items of a sequence have the same name, and there may be
            // thousands of items.
            let times = state.repeated.entry(wanted.to_owned()).or_default();
            *times += 1;
            name = format!("{wanted}'{times}");
        }
        let no = state.symbols.len() as SymbolNo;
        let expr = DimExpr::name(&name);
        state.numbers.insert(name.clone(), no);
        state.symbols.push(Symbol { name, number, places: SmallVec::from_elem(place, 1) });
        state.tied.push(false);
        Some(expr)
    }

    /// Returns whether two extents differ although the model gives them one name.
    pub(crate) fn contradicts_names(&self) -> bool {
        self.lock().contradicted
    }

    /// Sets whether conditions on extents become conditions of the trace immediately.
    pub(crate) fn set_strict(&self, strict: bool) {
        self.lock().strict = strict;
    }

    /// Ties the trace to the symbols of an expression.
    pub(crate) fn tie(&self, expr: &DimExpr) {
        let mut state = self.lock();
        expr.names(&mut |name| state.tie_name(name));
    }

    /// Adds conditions to the trace.
    pub(crate) fn require(&self, when: &When) {
        if let Some(conditions) = &when.0 {
            let mut state = self.lock();
            conditions.tied.iter().for_each(|no| state.tie(*no));
            conditions.guards.iter().for_each(|guard| state.guard(guard));
        }
    }

    /// Returns whether the trace is tied to all symbols of an expression.
    pub(crate) fn is_tied(&self, expr: &DimExpr) -> bool {
        self.lock().is_tied(expr)
    }

    /// Runs a computation. Returns its result and the conditions that it recorded, and removes these conditions from the trace.
    pub(crate) fn asked<T>(&self, compute: impl FnOnce() -> T) -> (T, When) {
        let before = self.len();
        let result = compute();
        let when = When::since(self, before);
        self.truncate(before);
        (result, when)
    }

    /// Returns the number of dependencies of the trace.
    pub(crate) fn len(&self) -> usize {
        self.lock().events.len()
    }

    /// Removes all dependencies of the trace except the first `events`.
    pub(crate) fn truncate(&self, events: usize) {
        let mut state = self.lock();
        while state.events.len() > events {
            match state.events.pop() {
                Some(Event::Tied(no)) => {
                    if let Some(tied) = state.tied.get_mut(no as usize) {
                        *tied = false;
                    }
                }
                Some(Event::Guarded(guard)) => {
                    state.guards.remove(&guard);
                }
                None => {}
            }
        }
    }

    /// Removes the symbols and the events from the log, and returns them.
    pub(crate) fn take(&self) -> (Vec<Symbol>, Vec<Event>) {
        let mut state = self.lock();
        (std::mem::take(&mut state.symbols), std::mem::take(&mut state.events))
    }

    /// Returns a bit mask of the inputs whose extents the trace depends on. All inputs with an index of at least 63 share one bit.
    pub(crate) fn consulted(&self) -> u64 {
        let state = self.lock();
        let mut bits = 0;
        let mut add = |no: SymbolNo| {
            let places = state.symbols.get(no as usize).map(|symbol| symbol.places.as_slice());
            for place in places.unwrap_or_default() {
                bits |= 1u64 << place.input.position().min(63);
            }
        };
        for event in &state.events {
            match event {
                Event::Tied(no) => add(*no),
                Event::Guarded(guard) => {
                    guard
                        .expr
                        .names(&mut |name| state.numbers.get(name).copied().into_iter().for_each(&mut add));
                }
            }
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_many_symbols_alike_differ_and_stay_short() {
        let log = Log::default();
        let place = Place { input: InputIndex::at(0), axis: 0 };
        let mut names = HashSet::new();
        for number in 0..1000 {
            let symbol = log.symbol(place, number, None, "item.0");
            symbol.expect("a symbol").names(&mut |name| {
                assert!(name.len() < 12, "{name}");
                assert!(names.insert(name.to_owned()), "{name} is there twice");
            });
        }
        assert_eq!(names.len(), 1000);
    }
}
