//! Wraps the inner backend's prepared kernels as kernels of the layer.

use super::{Layer, LayerError, LayerTensor, call, observes};
use crate::{Kernel, KernelOperands, Outputs};
use bb_ir::op::{OpSpec, Param};

/// A step that the inner backend prepared, as a kernel of the layer.
pub(super) struct PreparedLayer<L: Layer> {
    kernel: Box<dyn Kernel<L::Inner>>,
    spec: &'static OpSpec,
    params: Vec<Param<'static>>,
}

impl<L: Layer> PreparedLayer<L> {
    pub(super) fn boxed(
        kernel: Box<dyn Kernel<L::Inner>>,
        spec: &'static OpSpec,
        params: &[Param<'static>],
    ) -> Box<dyn Kernel<L>> {
        Box::new(PreparedLayer { kernel, spec, params: params.to_vec() })
    }
}

impl<L: Layer> Kernel<L> for PreparedLayer<L> {
    fn run(
        &self,
        on: &L,
        operands: &mut KernelOperands<'_, LayerTensor<L>>,
    ) -> Result<Outputs<LayerTensor<L>>, LayerError<L>> {
        match const { observes::<L>() } {
            true => call::prepared(on, self.spec, &self.params, &*self.kernel, operands),
            false => self.kernel.run(on.inner(), operands),
        }
    }

    fn bytes(&self) -> usize {
        self.kernel.bytes()
    }

    fn reads(&self, operand: usize) -> bool {
        self.kernel.reads(operand)
    }
}
