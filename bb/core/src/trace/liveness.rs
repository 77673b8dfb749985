//! Liveness analysis: finds the steps whose results are needed, and the last step that reads each value.
//!
//! The same implementation is used for the steps of traces and for the nodes of graphs.

use super::steps::{Phase, Step, StepId, Trace, TraceValue};
use super::table::{Table, TableIndex};
use crate::Error;
use smallvec::SmallVec;

/// The last reader of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastRead<S> {
    /// No step reads the value.
    Never,
    /// This step reads the value last.
    At(S),
    /// The caller that runs the steps reads it, because the value is returned.
    Returned,
}

/// The live steps, and the last reader of each value.
#[derive(Debug, Clone)]
pub struct Liveness<V, S> {
    last: Table<V, LastRead<S>>,
    live: Table<S, bool>,
}

impl<V: TableIndex, S: TableIndex + Ord> Liveness<V, S> {
    /// Analyses steps from the last to the first. A step is live if the caller or another live step reads one of its
    /// results.
    ///
    /// `steps` yields the steps that may be live, the last step first, each with the values that it writes and the
    /// values that it reads. `values` and `count` are the numbers of values and steps.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn backwards<W, R>(
        values: usize,
        count: usize,
        returned: impl IntoIterator<Item = V>,
        steps: impl IntoIterator<Item = (S, W, R)>,
    ) -> Result<Self, Error>
    where
        W: IntoIterator<Item = V>,
        R: IntoIterator<Item = V>,
    {
        let mut liveness =
            Liveness { last: Table::with(values, || LastRead::Never), live: Table::with(count, || false) };
        for value in returned {
            liveness.last.set(value, LastRead::Returned)?;
        }
        for (step, writes, reads) in steps {
            let mut matters = false;
            for value in writes {
                matters |= liveness.is_read(value)?;
            }
            if !matters {
                continue;
            }
            liveness.live.set(step, true)?;
            for value in reads {
                let last = liveness.last.get_mut(value)?;
                if *last == LastRead::Never {
                    *last = LastRead::At(step);
                }
            }
        }
        Ok(liveness)
    }

    /// Returns whether a live step or the caller reads a value.
    pub(crate) fn is_read(&self, value: V) -> Result<bool, Error> {
        Ok(self.last(value)? != LastRead::Never)
    }

    /// Returns whether the step `from`, a later step or the caller reads a value.
    pub(crate) fn is_read_from(&self, value: V, from: S) -> Result<bool, Error> {
        Ok(match self.last(value)? {
            LastRead::Never => false,
            LastRead::At(step) => step >= from,
            LastRead::Returned => true,
        })
    }

    /// Returns the last reader of a value.
    pub(crate) fn last(&self, value: V) -> Result<LastRead<S>, Error> {
        self.last.get(value).copied()
    }

    /// Returns whether a step is live.
    pub fn is_live(&self, step: S) -> Result<bool, Error> {
        self.live.get(step).copied()
    }
}

impl Liveness<TraceValue, StepId> {
    /// Computes the liveness of a trace.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub fn of(trace: &Trace) -> Result<Self, Error> {
        Liveness::among(trace, |_| true)
    }

    /// Computes the liveness of the steps that run in each run.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn of_runs(trace: &Trace) -> Result<Self, Error> {
        Liveness::among(trace, |step| step.phase == Phase::EachRun)
    }

    fn among(trace: &Trace, counts: impl Fn(&Step) -> bool) -> Result<Self, Error> {
        let steps = trace.steps.iter().rev().filter(|(_, step)| counts(step));
        let steps = steps.map(|(id, step)| (id, step.outputs.iter().copied(), step.reads()));
        Liveness::backwards(trace.values.len(), trace.steps.len(), trace.outputs.iter().copied(), steps)
    }
}

/// A step whose results are needed.
#[derive(Debug, Clone)]
pub(crate) struct LiveStep {
    pub(crate) id: StepId,
    /// The values that no later step reads.
    pub(crate) frees: SmallVec<[TraceValue; 2]>,
}

impl Trace {
    /// Returns the live steps, in order.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(crate) fn live_steps(&self) -> Result<Vec<LiveStep>, Error> {
        let liveness = Liveness::of(self)?;
        let mut steps = Vec::with_capacity(self.steps.len());
        for (id, step) in self.steps.iter() {
            if !liveness.is_live(id)? {
                continue;
            }
            let mut frees = SmallVec::new();
            for value in step.reads() {
                if liveness.last(value)? == LastRead::At(id) {
                    frees.push(value);
                }
            }
            for &value in &step.outputs {
                if !liveness.is_read(value)? {
                    frees.push(value);
                }
            }
            steps.push(LiveStep { id, frees });
        }
        Ok(steps)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::trace::table::indices;

    indices! {
        /// A value of these tests.
        pub(crate) Value = "value";
        /// A step of these tests.
        pub(crate) At = "step";
    }

    /// Computes the liveness of steps, each passed as the values that it writes and reads. The caller reads value 0.
    fn liveness(values: usize, steps: &[(&[usize], &[usize])]) -> Result<Liveness<Value, At>, Error> {
        let of = |list: &&[usize]| list.iter().map(|v| Value::at(*v)).collect::<Vec<_>>();
        let steps: Vec<_> = steps.iter().enumerate().map(|(at, (w, r))| (At::at(at), of(w), of(r))).collect();
        Liveness::backwards(values, steps.len(), [Value::at(0)], steps.into_iter().rev())
    }

    #[test]
    fn a_step_whose_results_only_a_dead_step_reads_is_dead() {
        // Value 1 leads to 2 and 3, and no step reads 3. Value 1 also leads to 0, which is returned.
        let found = liveness(4, &[(&[2], &[1]), (&[3], &[2]), (&[0], &[1])]).unwrap();
        let live: Vec<bool> = (0..3).map(|at| found.is_live(At::at(at)).unwrap()).collect();
        assert_eq!(live, [false, false, true]);
        assert_eq!(found.last(Value::at(1)).unwrap(), LastRead::At(At::at(2)));
        assert_eq!(found.last(Value::at(2)).unwrap(), LastRead::Never);
        assert_eq!(found.last(Value::at(0)).unwrap(), LastRead::Returned);
    }

    #[test]
    fn the_last_reader_is_the_last_step_that_matters() {
        let found = liveness(3, &[(&[2], &[1]), (&[0], &[1, 2])]).unwrap();
        assert_eq!(found.last(Value::at(1)).unwrap(), LastRead::At(At::at(1)));
        assert!(found.is_read_from(Value::at(1), At::at(1)).unwrap());
        assert!(!found.is_read_from(Value::at(1), At::at(2)).unwrap());
        assert!(found.is_read_from(Value::at(0), At::at(2)).unwrap());
    }

    #[test]
    fn a_value_that_does_not_exist_is_an_internal_error() {
        assert!(matches!(liveness(1, &[(&[0], &[5])]), Err(Error::Internal(_))));
    }
}
