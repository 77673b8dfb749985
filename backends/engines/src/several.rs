//! A model that runs on an engine and on another backend.

use crate::{EngineError, Host};
use bb::onnx::OnnxValue;
use bb::{
    Backend, BackendHandle, CompileOptions, ErasedExecutable, Executable, InputSpec, Module, Port, Value,
};
use bb_ir::graph::ValueType;
use std::sync::Arc;

/// A model that is divided into parts for an engine and parts for another backend.
pub(crate) struct Several {
    on: BackendHandle,
    compiled: Arc<dyn ErasedExecutable>,
    declared: InputSpec,
}

impl Several {
    /// Divides a model between both backends and loads its parts.
    pub(crate) fn new(
        on: &BackendHandle,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Several, EngineError> {
        let declared = InputSpec::new(module.graph());
        let mut options = options.clone();
        options.identity = None;
        let compiled = on.compile(module, &options).map_err(|error| EngineError::of(error, on))?;
        Ok(Several { on: on.clone(), compiled, declared })
    }

    fn run_items(&self, inputs: &[Option<OnnxValue<&Host>>]) -> Result<Vec<OnnxValue<Host>>, EngineError> {
        self.declared.check_items(inputs)?;
        complete(self.compiled.inputs(), inputs)?;
        let on = self.on.runtime();
        let failed = |error| EngineError::of(error, &self.on);
        let upload = |item: &Option<OnnxValue<&Host>>| {
            item.as_ref().map(|item| item.try_map(&mut |x: &&Host| on.constant(x.data()))).transpose()
        };
        let inputs: Vec<Option<OnnxValue<Value>>> =
            inputs.iter().map(upload).collect::<Result<_, _>>().map_err(failed)?;
        let results = self.compiled.run_items(&inputs).map_err(failed)?;
        let fetch = |item: &OnnxValue<Value>| item.try_map(&mut |x: &Value| on.to_host(x).map(Host::from));
        results.iter().map(fetch).collect::<Result<_, _>>().map_err(failed)
    }
}

/// Returns whether a port is of an optional type, so that an omitted input is an absent one.
pub(crate) fn is_optional(port: &Port) -> bool {
    matches!(port.ty, ValueType::Optional(_))
}

/// Returns an error for the first omitted input that has no default and is no optional.
pub(crate) fn complete<T>(ports: &[Port], inputs: &[Option<T>]) -> Result<(), EngineError> {
    let required = |port: &Port| !port.optional && !is_optional(port);
    let lacking = ports.iter().zip(inputs).find(|(port, given)| given.is_none() && required(port));
    let Some((port, _)) = lacking else { return Ok(()) };
    let expected = ports.iter().filter(|port| required(port)).map(|port| port.name.clone());
    Err(bb::Error::MissingInput { name: port.name.clone(), expected: expected.collect() }.into())
}

/// Converts the results of a run to tensors. Returns an error if a result is not a tensor.
pub(crate) fn tensors(ports: &[Port], items: Vec<OnnxValue<Host>>) -> Result<Vec<Host>, EngineError> {
    let tensor = |(item, port): (OnnxValue<Host>, &Port)| match item {
        OnnxValue::Tensor(x) => Ok(x),
        other => Err(bb::Error::NotTensor { name: port.name.clone(), got: other.kind() }.into()),
    };
    items.into_iter().zip(ports).map(tensor).collect()
}

impl<B> Executable<B> for Several
where
    B: Backend<Tensor = Host, Error = EngineError> + ?Sized,
{
    fn inputs(&self) -> &[Port] {
        self.compiled.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.compiled.outputs()
    }

    fn run(&self, _: &B, inputs: &[Option<&Host>]) -> Result<Vec<Host>, EngineError> {
        let items: Vec<_> = inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
        tensors(self.compiled.outputs(), Several::run_items(self, &items)?)
    }

    fn run_items(
        &self,
        _: &B,
        inputs: &[Option<OnnxValue<&Host>>],
    ) -> Result<Vec<OnnxValue<Host>>, EngineError> {
        Several::run_items(self, inputs)
    }
}
