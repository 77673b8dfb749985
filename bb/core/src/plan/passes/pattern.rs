//! Patterns: functions whose steps are recorded, so that the same steps can be found in a trace (`matching.rs`).

use crate::ext::{Ops, every_operation};
use crate::trace::{
    InputIndex, TableIndex, Trace, TraceStop, TraceValue, TracedTensor, Tracer, Uses, Varies,
};
use crate::{DataType, Error, Tensor};
use std::cell::RefCell;
use std::collections::HashMap;

/// The shape of all operands while a pattern is recorded. Matches do not compare it.
const SHAPE: [usize; 4] = [2; 4];

/// A recorded function.
pub(super) struct Pattern {
    pub(super) recorded: Trace,
    pub(super) result: TraceValue,
    pub(super) uses: Uses,
    pub(super) choices: HashMap<TraceValue, Choice>,
}

/// The ways to match a value that no step of the pattern computes.
pub(super) enum Choice {
    /// Matches if one of these values matches.
    Either(Vec<TraceValue>),
    /// Matches this value, possibly multiplied or divided by numbers. Their product is stored for the slot.
    Scaled(usize, TraceValue),
}

/// Records the steps of a pattern. Every operation becomes one step, and none is lowered.
pub(super) struct Recorder {
    on: Tracer,
    choices: RefCell<HashMap<TraceValue, Choice>>,
}

impl std::ops::Deref for Recorder {
    type Target = Tracer;

    fn deref(&self) -> &Tracer {
        &self.on
    }
}

impl Recorder {
    /// Returns a value that matches if one of these values matches. They are tried in order.
    pub(super) fn either(&self, [first, second]: [&TracedTensor; 2]) -> TracedTensor {
        self.chosen(first, Choice::Either(vec![first.value(), second.value()]))
    }

    /// Returns a value that matches with or without steps that multiply or divide `x` by numbers. All factors of a slot are
    /// multiplied together. Matches with more factors are tried first.
    pub(super) fn scaled(&self, slot: usize, x: &TracedTensor) -> TracedTensor {
        self.chosen(x, Choice::Scaled(slot, x.value()))
    }

    fn chosen(&self, like: &TracedTensor, choice: Choice) -> TracedTensor {
        let made = self.on.stand_in(like.dtype(), &self.on.extents(like));
        self.choices.borrow_mut().insert(made.value(), choice);
        made
    }
}

impl Pattern {
    /// Records a function of operands of these types. The pattern matches values of other types and shapes too.
    ///
    /// # Errors
    ///
    /// The errors of the function.
    pub(super) fn of<const N: usize>(
        types: [DataType; N],
        function: impl FnOnce(&Recorder, [TracedTensor; N]) -> Result<TracedTensor, TraceStop>,
    ) -> Result<Pattern, Error> {
        let on = Tracer::new(every_operation(), usize::MAX);
        let mut index = 0..;
        let operands = types.map(|dtype| {
            let index = InputIndex::at(index.next().unwrap_or_default());
            on.input(index, "", dtype, &SHAPE, &Varies::Nothing, None)
        });
        let on = Recorder { on, choices: RefCell::default() };
        let result = function(&on, operands)?.read();
        let Recorder { on, choices } = on;
        let pattern = Pattern::recorded(on.finish(vec![result]), result)?;
        Ok(Pattern { choices: choices.into_inner(), ..pattern })
    }

    /// Creates a pattern from a recorded trace.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if a step refers to a value that does not exist.
    pub(super) fn recorded(recorded: Trace, result: TraceValue) -> Result<Pattern, Error> {
        Ok(Pattern { uses: recorded.uses()?, recorded, result, choices: HashMap::new() })
    }

    /// Returns whether a step computes the result.
    pub(super) fn has_steps(&self) -> bool {
        self.uses.maker(self.result).is_ok_and(|maker| maker.is_some())
    }
}
