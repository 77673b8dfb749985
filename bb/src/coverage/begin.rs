//! What a stage of a trace begins with, when nothing ran before it.

use crate::onnx::Item;
use crate::plan::{Arriving, StageTrace, Start, Structure};
use bb_ir::graph::ValueId;

/// What a stage begins with.
#[derive(Default)]
pub(super) struct Begin {
    pub(super) start: Start,
    pub(super) arriving: Vec<Arriving>,
    pub(super) items: Vec<Item<()>>,
}

impl Begin {
    /// Adds a value that is built of these tensors.
    pub(super) fn add(
        &mut self,
        value: ValueId,
        item: Item<()>,
        tensors: impl IntoIterator<Item = Arriving>,
    ) {
        self.start.live.push(value);
        self.items.push(item);
        self.arriving.extend(tensors);
    }

    /// Says what the values are built of, where they are not all tensors.
    pub(super) fn structure(&self) -> Structure {
        let tensors = self.items.iter().all(|item| matches!(item, Item::Tensor(())));
        (!tensors).then(|| self.items.clone().into())
    }
}

/// What a stage gives for these values, which are its outputs in order.
pub(super) fn results(values: &[ValueId], traced: &StageTrace) -> Vec<(ValueId, Item<()>, Vec<Arriving>)> {
    let mut tensors = traced.outputs.iter().map(|no| {
        let value = traced.recorded.values.get(*no as usize);
        value.map(|v| Arriving { dtype: v.dtype, shape: v.shape.clone(), varies: false, known: None })
    });
    let mut given = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let item =
            traced.structure.as_ref().and_then(|items| items.get(at)).cloned().unwrap_or(Item::Tensor(()));
        let mut own = Vec::new();
        item.visit(&mut |()| own.extend(tensors.next().flatten()));
        given.push((*value, item, own));
    }
    given
}
