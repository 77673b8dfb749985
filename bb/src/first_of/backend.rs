//! Implements `Backend` for `FirstOf`. A single operation runs on one of its backends.

use super::error::FirstOfError;
use super::program::Program;
use super::several::FirstOf;
use crate::placement::PlacedTensor;
use crate::services::{DeviceInfo, Lifecycle, ServiceError};
use crate::{
    Backend, BackendAttrs, BackendHandle, CompileOptions, Error, Executable, GraphProto, InnerBackend,
    Module, Outputs, Primitive, Tensor, TensorData, Value, forward_to_call,
};
use bb_core::__private::{OpSet, kept};
use bb_core::runtime::Question;
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

    /// Calls an operation of any family on a backend that supports it. Prefers backends that have it natively, then backends that
    /// store more bytes of its operands.
    fn call(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&PlacedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<PlacedTensor>, FirstOfError> {
        let on = self.chosen(op, inputs, params).ok_or(Error::Abandoned)?;
        let here =
            |x: &Option<&PlacedTensor>| x.map(|x| x.on(on, |bytes| self.counters().moved(bytes))).transpose();
        let values = inputs.iter().map(here).collect::<Result<Outputs<_>, Error>>()?;
        let operands: Outputs<Option<&Value>> = values.iter().map(Option::as_ref).collect();
        let results = on.call(op, &operands, params).map_err(|error| FirstOfError::of(on, error))?;
        Ok(results.into_iter().map(PlacedTensor::of_value).collect())
    }

    fn chosen(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&PlacedTensor>],
        params: &[Param<'_>],
    ) -> Option<&BackendHandle> {
        let question = Question::call(op, inputs.iter().map(|x| x.map(Tensor::dtype)), params);
        let supports = |on: &&BackendHandle| question.refused(on.runtime(), Question::sample).is_none();
        let bytes = |on: &BackendHandle| -> usize {
            inputs.iter().flatten().filter(|x| x.lies_on(on)).map(|x| x.byte_len()).sum()
        };
        let of_each = self.backends().iter().zip(self.capabilities());
        let mut ordered: Outputs<_> = of_each
            .filter(|(on, _)| !on.runtime().is_lost())
            .map(|(on, has)| (has.is_native(op.family, op.index), bytes(on), on))
            .collect();
        // The sort is stable: if backends store equally many bytes, the earlier one stays first.
        ordered.sort_by_key(|&(native, bytes, _)| std::cmp::Reverse((native, bytes)));
        ordered.iter().map(|(.., on)| *on).find(supports).or_else(|| self.backends().last())
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

    /// Only synchronizes. The backends may be in use elsewhere, so they are not shut down.
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
