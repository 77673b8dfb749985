//! Lets functions that are generic over their backend run on a running backend of any type.
//!
//! Every call is forwarded to the backend itself, so that its native kernels run.

use super::methods::CallsRows;
use super::{BackendHandle, ErasedExecutable, Value};
use crate::contract::OnnxValue;
use crate::ext::Ops;
use crate::measure::Profile;
use crate::service::DeviceInfo;
use crate::{
    Backend, BackendAttrs, CompileOptions, CompletionHandle, ContractResponse, Error, Executable, Module,
    Outputs, Port, ResultBuffer, Tensor,
};
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, DataTypes, TensorData};
use std::collections::HashMap;
use std::sync::Arc;

/// The inputs or outputs of a graph, by name.
type Named = HashMap<String, Value>;

#[diagnostic::do_not_recommend]
impl Tensor for Value {
    fn dtype(&self) -> DataType {
        Value::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        Value::shape(self)
    }
}

impl BackendHandle {
    /// Calls a primitive.
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Value>, Error> {
        self.call(op.spec(), inputs, params)
    }
}

/// A running backend implements [`Backend`], so that functions that are generic over their backend and
/// [`bb::gradient`](crate::gradient()) accept it. A tensor of another instance is an error.
///
/// # Examples
///
/// ```no_run
/// use bb::ext::Ops;
///
/// /// The sum of the squares.
/// fn squares<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
///     on.reduce_sum(&on.mul(x, x)?, &[], false)
/// }
///
/// # fn main() -> Result<(), bb::Error> {
/// let cpu = bb::backend("cpu")?;
/// let x = cpu.tensor(&[2], &[1f32, 2.0])?;
/// assert_eq!(squares(&cpu, &x)?.to_host(4)?.as_slice::<f32>()?, [5.0]);
/// let slope = bb::gradient(&cpu, &[&x], &[0], |on, inputs| match inputs {
///     [x] => squares(on, x),
///     _ => unreachable!("one input"),
/// })?;
/// assert_eq!(slope.gradients[0].to_host(8)?.as_slice::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[diagnostic::do_not_recommend]
impl Backend for BackendHandle {
    type Tensor = Value;
    type Error = Error;

    crate::forward_to_call!(Self::primitive);

    fn types(&self) -> DataTypes {
        self.runtime().capabilities().types
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.runtime().runs_primitive(op)
    }

    fn declines(&self, graph: &Graph, node: &Node) -> Option<String> {
        self.runtime().declines(graph, node)
    }

    fn to_host(&self, x: &Value) -> Result<TensorData, Error> {
        self.runtime().to_host(x)
    }

    fn execute(&self, graph: &GraphProto, inputs: Named, attrs: BackendAttrs<'_>) -> Result<Named, Error> {
        self.runtime().clone().dispatch(Arc::new(graph.clone()), inputs, attrs).wait()
    }

    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: Named,
        attrs: BackendAttrs<'_>,
        _completion: CompletionHandle<Named, Error>,
    ) -> ContractResponse<Named, Error> {
        self.runtime().clone().dispatch(graph, inputs, attrs)
    }

    fn compile(
        &self,
        module: Module,
        options: &CompileOptions,
    ) -> Result<Box<dyn Executable<BackendHandle>>, Error> {
        Ok(Box::new(HandleExecutable(BackendHandle::compile(self, module, options)?)))
    }

    fn materialize_from_wire(&self, type_hash: u64, bytes: Vec<u8>) -> Result<Value, Error> {
        self.runtime().materialize_from_wire(type_hash, bytes)
    }

    fn device_info(&self) -> DeviceInfo {
        self.runtime().capabilities().device
    }
}

#[diagnostic::do_not_recommend]
impl Ops for BackendHandle {
    fn vendor(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Value>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Value>, Error> {
        self.call_row(op, inputs, params)
    }
}

/// A graph that was compiled by a running backend.
struct HandleExecutable(Arc<dyn ErasedExecutable>);

impl HandleExecutable {
    fn items(inputs: &[Option<OnnxValue<&Value>>]) -> Vec<Option<OnnxValue<Value>>> {
        inputs.iter().map(|item| item.as_ref().map(|item| item.map(&mut |value| (*value).clone()))).collect()
    }
}

impl Executable<BackendHandle> for HandleExecutable {
    fn inputs(&self) -> &[Port] {
        self.0.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.0.outputs()
    }

    fn run(&self, _on: &BackendHandle, inputs: &[Option<&Value>]) -> Result<Vec<Value>, Error> {
        self.0.run(inputs)
    }

    fn run_into(
        &self,
        _on: &BackendHandle,
        inputs: &[Option<&Value>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), Error> {
        self.0.run_into(inputs, outputs)
    }

    fn run_items(
        &self,
        _on: &BackendHandle,
        inputs: &[Option<OnnxValue<&Value>>],
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        self.0.run_items(&HandleExecutable::items(inputs))
    }

    fn run_profiled(
        &self,
        _on: &BackendHandle,
        inputs: &[Option<OnnxValue<&Value>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<Value>>, Error> {
        self.0.run_profiled(&HandleExecutable::items(inputs), profile)
    }
}
