//! Graphs that a wrapped backend compiled, as executables of the [`Erased`] that wraps it.

use super::Erased;
use crate::contract::OnnxValue;
use crate::erased::ErasedCompiled;
use crate::ext::{ErasedError, ErasedTensor};
use crate::measure::Profile;
use crate::{Executable, Module, Port, ResultBuffer};
use bb_ir::DataType;

/// A graph that the wrapped backend compiled.
pub(super) struct ErasedGraph(pub(super) Box<dyn ErasedCompiled>);

impl ErasedGraph {
    /// Runs the graph on ONNX values, and measures it if there is a profile.
    fn run_values(
        &self,
        on: &Erased,
        inputs: &[Option<OnnxValue<&ErasedTensor>>],
        profile: Option<&mut Profile>,
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
        let owned = |item: &OnnxValue<&ErasedTensor>| item.map(&mut |x: &&ErasedTensor| (*x).clone());
        let inputs: Vec<_> = inputs.iter().map(|item| item.as_ref().map(owned)).collect();
        self.0.run_items(&*on.kernels, &inputs, profile)
    }
}

impl Executable<Erased> for ErasedGraph {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(&self, on: &Erased, inputs: &[Option<&ErasedTensor>]) -> Result<Vec<ErasedTensor>, ErasedError> {
        let mut results = Vec::with_capacity(self.0.outputs().len());
        self.0.run(&*on.kernels, inputs, &mut |y| results.push(y))?;
        Ok(results)
    }

    fn run_into(
        &self,
        on: &Erased,
        inputs: &[Option<&ErasedTensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), ErasedError> {
        self.0.run_into(&*on.kernels, inputs, outputs)
    }

    fn plan_ahead(&self, on: &Erased, inputs: &[Option<(DataType, &[usize])>]) -> Result<(), ErasedError> {
        self.0.plan_ahead(&*on.kernels, inputs)
    }

    fn compiled_module(&self) -> Result<Option<Module>, ErasedError> {
        self.0.compiled_module()
    }

    fn run_items(
        &self,
        on: &Erased,
        inputs: &[Option<OnnxValue<&ErasedTensor>>],
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
        self.run_values(on, inputs, None)
    }

    fn run_profiled(
        &self,
        on: &Erased,
        inputs: &[Option<OnnxValue<&ErasedTensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<ErasedTensor>>, ErasedError> {
        self.run_values(on, inputs, Some(profile))
    }
}
