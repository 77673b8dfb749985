//! The first of several backends as a backend.

use super::program::Program;
use super::tensor::PlacedTensor;
use super::{FirstOf, FirstOfError};
use crate::services::{DeviceInfo, Lifecycle, ServiceError};
use crate::{
    Backend, BackendAttrs, CompileOptions, Error, Executable, GraphProto, InnerBackend, Module, Outputs,
    Primitive, TensorData, forward_to_call,
};
use bb_core::__private::{OpSet, kept};
use bb_ir::op::{Family, OpSpec, Param};
use std::collections::HashMap;

type Named = HashMap<String, PlacedTensor>;

impl FirstOf {
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&PlacedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PlacedTensor>, FirstOfError> {
        if let (Primitive::Constant, [Param::Data(data)]) = (op, params) {
            // The constant is stored on the backend of the first operation that reads it.
            return Ok(Outputs::from_buf([PlacedTensor::of_host(data.clone().into_owned())]));
        }
        self.call(op.spec(), inputs, params)
    }
}

#[diagnostic::do_not_recommend]
impl Backend for FirstOf {
    type Tensor = PlacedTensor;
    type Error = FirstOfError;

    forward_to_call!(Self::primitive);

    fn wrapped(error: &FirstOfError) -> Option<&Error> {
        Some(error.cause())
    }

    fn to_host(&self, x: &PlacedTensor) -> Result<TensorData, FirstOfError> {
        Ok(x.to_host()?)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: Named,
        attrs: BackendAttrs<'_>,
    ) -> Result<Named, FirstOfError> {
        match kept(self, graph, inputs, attrs) {
            Ok(ran) => ran,
            Err(inputs) => {
                let options = CompileOptions::default().with_node(attrs.attributes, attrs.metadata);
                let program = Program::new(self, attrs.module(graph)?, &options)?;
                bb_core::plan::run_named(self, &program, inputs)
            }
        }
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<FirstOf>>, FirstOfError> {
        self.check_pins(module.graph())?;
        Ok(Box::new(Program::new(self, module, options)?))
    }

    fn device_info(&self) -> DeviceInfo {
        self.capabilities().first().map(|first| first.device.clone()).unwrap_or_default()
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }
}

impl Lifecycle for FirstOf {
    fn synchronize(&self) -> Result<(), ServiceError> {
        for backend in self.backends().iter().filter(|backend| !backend.runtime().is_lost()) {
            backend.runtime().synchronize().map_err(ServiceError::own)?;
        }
        Ok(())
    }

    /// The backends may be in use elsewhere: they are not shut down.
    fn shut_down(&self) -> Result<(), ServiceError> {
        self.synchronize()
    }

    fn is_asynchronous(&self) -> bool {
        self.backends().iter().any(|backend| backend.runtime().is_asynchronous())
    }
}

#[diagnostic::do_not_recommend]
impl InnerBackend for FirstOf {
    /// An operation is native if one of the backends has it.
    fn natives(&self) -> Vec<(Family, OpSet)> {
        let mut all: Vec<(Family, OpSet)> = Vec::new();
        for &(family, own) in self.capabilities().iter().flat_map(|has| &has.families) {
            match all.iter_mut().find(|(known, _)| *known == family) {
                Some((_, set)) => *set = set.union(own),
                None => all.push((family, own)),
            }
        }
        all
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&PlacedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PlacedTensor>, FirstOfError> {
        self.call(spec, inputs, params)
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
