//! The state at the start of a segment that is traced without running the nodes before it.

use bb_core::contract::OnnxValue;
use bb_core::plan::{Form, SegmentInput, SegmentTrace, Start, Structure};
use bb_core::trace::Varies;
use bb_ir::graph::ValueId;

/// The start of a segment, with its live values and the tensors that they consist of.
#[derive(Default)]
pub(super) struct Begin {
    pub(super) start: Start,
    pub(super) inputs_known: Vec<SegmentInput>,
    pub(super) items: Vec<OnnxValue<()>>,
}

impl Begin {
    /// Adds a live value that consists of these tensors.
    pub(super) fn add(
        &mut self,
        value: ValueId,
        item: OnnxValue<()>,
        tensors: impl IntoIterator<Item = SegmentInput>,
    ) {
        self.start.live.push(value);
        self.items.push(item);
        self.inputs_known.extend(tensors);
    }

    /// Returns the structure of the values; `None` if all of them are tensors.
    pub(super) fn structure(&self) -> Structure {
        let tensors = self.items.iter().all(|item| matches!(item, OnnxValue::Tensor(())));
        (!tensors).then(|| self.items.iter().cloned().map(Form::Parts).collect())
    }
}

/// Returns the values that a segment outputs, with their structure and their tensors.
pub(super) fn results(
    values: &[ValueId],
    traced: &SegmentTrace,
) -> Vec<(ValueId, OnnxValue<()>, Vec<SegmentInput>)> {
    let mut tensors = traced.recorded.outputs.iter().map(|value| {
        let value = traced.recorded.values.get(*value).ok();
        value.map(|v| SegmentInput {
            dtype: v.dtype,
            shape: v.shape.clone(),
            varies: Varies::Nothing,
            known: None,
        })
    });
    let mut given = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let item = match traced.structure.as_ref().and_then(|items| items.get(at)) {
            Some(Form::Parts(item)) => item.clone(),
            // This analysis never passes a whole sequence from one segment to another, so a value without a structure
            // is a tensor.
            Some(Form::Held) | None => OnnxValue::Tensor(()),
        };
        let mut own = Vec::new();
        item.visit(&mut |()| own.extend(tensors.next().flatten()));
        given.push((*value, item, own));
    }
    given
}
