//! Graphs that the inner backend compiles for a layer that overrides no operation.

use super::{Layer, LayerError, LayerTensor};
use crate::contract::OnnxValue;
use crate::contract::{CompileOptions, Module};
use crate::measure::Profile;
use crate::{Executable, Port, ResultBuffer, RunOptions};
use bb_ir::DataType;
use std::collections::HashMap;

/// A graph that the inner backend compiled, as an executable of the layer.
struct Passed<L: Layer>(Box<dyn Executable<L::Inner>>);

/// Compiles a graph with the inner backend and its native operations.
pub(super) fn compile<L: Layer>(
    on: &L,
    module: Module,
    options: &CompileOptions,
) -> Result<Box<dyn Executable<L>>, LayerError<L>> {
    let inner = on.inner();
    let options = super::with_natives(inner, options);
    Ok(Box::new(Passed::<L>(crate::Backend::compile(inner, module, &options)?)))
}

type Items<T> = Vec<OnnxValue<T>>;

impl<L: Layer> Executable<L> for Passed<L> {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(&self, on: &L, inputs: &[Option<&LayerTensor<L>>]) -> Result<Vec<LayerTensor<L>>, LayerError<L>> {
        self.0.run(on.inner(), inputs)
    }

    fn run_with(
        &self,
        on: &L,
        inputs: &[Option<&LayerTensor<L>>],
        options: &RunOptions,
    ) -> Result<Vec<LayerTensor<L>>, LayerError<L>> {
        self.0.run_with(on.inner(), inputs, options)
    }

    fn run_named(
        &self,
        on: &L,
        inputs: &[(&str, &LayerTensor<L>)],
    ) -> Result<HashMap<String, LayerTensor<L>>, LayerError<L>> {
        self.0.run_named(on.inner(), inputs)
    }

    fn run_into(
        &self,
        on: &L,
        inputs: &[Option<&LayerTensor<L>>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), LayerError<L>> {
        self.0.run_into(on.inner(), inputs, outputs)
    }

    fn run_named_into(
        &self,
        on: &L,
        inputs: &[(&str, &LayerTensor<L>)],
        outputs: &mut [(&str, &mut ResultBuffer<'_>)],
    ) -> Result<(), LayerError<L>> {
        self.0.run_named_into(on.inner(), inputs, outputs)
    }

    fn plan_ahead(&self, on: &L, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), LayerError<L>> {
        self.0.plan_ahead(on.inner(), inputs)
    }

    fn compiled_module(&self) -> Result<Option<Module>, LayerError<L>> {
        self.0.compiled_module()
    }

    fn run_items(
        &self,
        on: &L,
        inputs: &[Option<OnnxValue<&LayerTensor<L>>>],
    ) -> Result<Items<LayerTensor<L>>, LayerError<L>> {
        self.0.run_items(on.inner(), inputs)
    }

    fn run_profiled(
        &self,
        on: &L,
        inputs: &[Option<OnnxValue<&LayerTensor<L>>>],
        profile: &mut Profile,
    ) -> Result<Items<LayerTensor<L>>, LayerError<L>> {
        self.0.run_profiled(on.inner(), inputs, profile)
    }
}
