//! Writes a trace as a graph: either as primitives of the newest opset in normal form, for backends that run whole
//! graphs, or as nodes of a chosen opset, for other programs.

use super::form::{Call, Operand, check_type};
use super::keep;
use super::liveness::Liveness;
use super::proto::{attribute, known, node, value_info};
use super::steps::{Operation, Step, Trace, TraceValue, ValueSource, WeightId};
use super::table::{Table, TableIndex};
use crate::Error;
use bb_ir::op::{Family, Param, Primitive, RoundMode};
use bb_ir::opset::NEWEST;
use bb_ir::proto::{AttributeProto, GraphProto, NodeProto};
use bb_ir::{DataType, TensorData};
use smallvec::SmallVec;
use std::collections::HashSet;

/// The consumer of a written graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A backend: primitives of the newest opset, with any element types, even if ONNX does not allow them.
    Backend,
    /// Another program: nodes of this opset, with element types that the opset supports.
    Opset(i64),
}

impl Target {
    fn opset(self) -> i64 {
        match self {
            Target::Backend => NEWEST,
            Target::Opset(opset) => opset,
        }
    }
}

/// A weight that a trace reads: its name in the model, if it has one, and its elements.
pub(crate) type Weight = (Option<String>, TensorData);

/// Writes a trace of primitives as a graph.
///
/// # Errors
///
/// [`Error::NotPrimitive`] if a step is not a primitive; the errors of [`TensorData::prepare`] for a weight.
pub(crate) fn to_graph(
    recorded: &Trace,
    inputs: &[String],
    outputs: &[String],
    weight: &dyn Fn(WeightId) -> Option<TensorData>,
) -> Result<GraphProto, Error> {
    let weight = |i| weight(i).map(|data| (None, data));
    write(recorded, inputs, outputs, &weight, Target::Backend)
}

/// Writes a trace as a graph.
///
/// # Errors
///
/// [`Error::NotPrimitive`] if a step is neither a primitive nor an operator of the target opset;
/// [`Error::ElementTypeOfOpset`] if an opset's operator does not support an element type of a step.
pub(crate) fn write(
    recorded: &Trace,
    inputs: &[String],
    outputs: &[String],
    weight: &dyn Fn(WeightId) -> Option<Weight>,
    target: Target,
) -> Result<GraphProto, Error> {
    if recorded.steps.entries().any(|step| step.symbolic.is_some()) {
        return Err(Error::excluded("parameters of a trace that is written to be numbers"));
    }
    let mut writer = Writer::new(target, recorded.values.len());
    writer.graph.name = Some("traced".to_owned());
    writer.taken.extend(inputs.iter().chain(outputs).cloned());
    let liveness = Liveness::of(recorded)?;
    for (no, value) in recorded.values.iter() {
        match value.source {
            ValueSource::Input(index) => {
                let Some(name) = inputs.get(index.position()) else { continue };
                writer.graph.input.push(value_info(name, value.dtype, Some(known(&value.shape))));
                writer.name(no, name.clone())?;
            }
            ValueSource::Constant(index) if liveness.is_read(no)? => {
                let data = recorded.constants.get(index)?;
                writer.initializer(no, data, format!("constant_{index}"))?;
            }
            ValueSource::Weight(id) if liveness.is_read(no)? => {
                let missing = || Error::excluded("the weights of a trace to be there");
                let (name, data) = weight(id).ok_or_else(missing)?;
                writer.initializer(no, &data, name.unwrap_or_else(|| format!("weight_{id}")))?;
            }
            ValueSource::Constant(_) | ValueSource::Weight(_) | ValueSource::Step => {}
        }
    }
    // A result of a step takes its output's name. Inputs, constants and values that already have a name are copied by
    // `Identity`.
    let mut copied = Vec::new();
    for (name, &no) in outputs.iter().zip(&recorded.outputs) {
        let value = recorded.values.get(no)?;
        if value.source == ValueSource::Step && writer.names.get(no)?.is_none() {
            writer.name(no, name.clone())?;
        } else {
            copied.push((name, no));
        }
        writer.graph.output.push(value_info(name, value.dtype, Some(known(&value.shape))));
    }
    for (id, step) in recorded.steps.iter() {
        if liveness.is_live(id)? {
            writer.step(step, recorded)?;
        }
    }
    for (name, no) in copied {
        let from = writer.name_of(no)?;
        writer.copy(from, name.clone(), recorded.values.get(no)?.dtype)?;
    }
    Ok(writer.graph)
}

/// The parameters of a primitive in the form of an ONNX node.
struct PrimitiveForm {
    attributes: Vec<AttributeProto>,
    /// The inputs after the operands; an omitted input is `None`.
    inputs: SmallVec<[Option<Vec<i64>>; 4]>,
}

/// A graph under construction.
pub(crate) struct Writer {
    target: Target,
    /// For each value, the name that was assigned to it so far.
    names: Table<TraceValue, Option<String>>,
    /// All names in use, which must be unique.
    taken: HashSet<String>,
    pub(crate) graph: GraphProto,
}

impl Writer {
    pub(crate) fn new(target: Target, values: usize) -> Writer {
        Writer {
            target,
            names: Table::with(values, || None),
            taken: HashSet::new(),
            graph: GraphProto::default(),
        }
    }

    fn name(&mut self, no: TraceValue, name: String) -> Result<(), Error> {
        self.names.set(no, Some(name))
    }

    /// Returns the value's name, and assigns one if it has none.
    fn name_of(&mut self, no: TraceValue) -> Result<String, Error> {
        if let Some(name) = self.names.get(no)? {
            return Ok(name.clone());
        }
        let name = self.fresh(format!("value_{no}"));
        self.name(no, name.clone())?;
        Ok(name)
    }

    /// Returns an unused name: `wish` if it is free, otherwise `wish` with underscores appended.
    fn fresh(&mut self, wish: String) -> String {
        let mut name = wish;
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Returns a name for a value between two nodes of one step.
    fn between(&mut self) -> String {
        self.fresh(format!("bytes_{}", self.graph.node.len()))
    }

    fn initializer(&mut self, no: TraceValue, data: &TensorData, wish: String) -> Result<(), Error> {
        let name = self.fresh(wish);
        self.graph.initializer.push(data.try_to_proto(&name)?);
        self.name(no, name)
    }

    /// Adds an initializer for a parameter that ONNX passes as an input. Returns its name.
    fn literal(&mut self, shape: &[usize], values: &[i64]) -> Result<String, Error> {
        let name = self.fresh(format!("parameter_{}", self.graph.initializer.len()));
        self.graph.initializer.push(TensorData::new(shape, values)?.to_proto(&name));
        Ok(name)
    }

    /// Adds a node.
    fn push(
        &mut self,
        op: &str,
        mut inputs: Vec<String>,
        outputs: Vec<String>,
        attributes: Vec<AttributeProto>,
    ) {
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        let name = Some(self.node_name(op));
        self.graph.node.push(NodeProto { name, ..node(op, inputs, outputs, attributes) });
    }

    /// Returns the name for the next node.
    fn node_name(&self, op: &str) -> String {
        format!("{op}_{}", self.graph.node.len())
    }

    /// Adds an `Identity` node that copies a value to another name.
    fn copy(&mut self, from: String, to: String, dtype: DataType) -> Result<(), Error> {
        self.check("Identity", dtype)?;
        self.push("Identity", vec![from], vec![to], Vec::new());
        Ok(())
    }

    /// Checks that the opset's operator supports an element type. For backends this is not checked.
    fn check(&self, op: &'static str, dtype: DataType) -> Result<(), Error> {
        match self.target {
            Target::Backend => Ok(()),
            Target::Opset(opset) => check_type(&self.node_name(op), op, opset, dtype),
        }
    }

    fn step(&mut self, step: &Step, recorded: &Trace) -> Result<(), Error> {
        let not_primitive = || Error::NotPrimitive { op: step.operation.name() };
        let Operation::Row(spec) = step.operation else { return Err(not_primitive()) };
        let mut given: Vec<String> = Vec::with_capacity(step.inputs.len());
        let mut operands: SmallVec<[Option<(DataType, usize)>; 4]> = SmallVec::new();
        for input in &step.inputs {
            let value = input.map(|no| recorded.values.get(no)).transpose()?;
            operands.push(value.map(|v| (v.dtype, v.shape.len())));
            given.push(input.map_or(Ok(String::new()), |no| self.name_of(no))?);
        }
        let outputs = step.outputs.iter().map(|v| self.name_of(*v)).collect::<Result<Vec<String>, _>>()?;
        if let (Family::Primitive, Some(op)) = (spec.family, Primitive::from_index(spec.index)) {
            let dtypes: SmallVec<[Option<DataType>; 4]> =
                operands.iter().map(|operand| operand.map(|(dtype, _)| dtype)).collect();
            if self.moves_as_bytes(op, &dtypes) {
                return self.as_bytes(op, &step.params, given, outputs);
            }
            self.check_primitive(op, &dtypes, &step.params)?;
            return self.primitive(op, step, given, outputs, recorded);
        }
        let Target::Opset(opset) = self.target else { return Err(not_primitive()) };
        let call = Call { opset, operands: &operands, params: &step.params };
        let form = keep::form(spec, &call).ok_or_else(not_primitive)?;
        let mut inputs = Vec::with_capacity(form.inputs.len());
        for input in &form.inputs {
            inputs.push(match input {
                Operand::Given(i) => given.get(*i).cloned().unwrap_or_default(),
                Operand::Absent => String::new(),
                Operand::Ints(values) => self.literal(&[values.len()], values)?,
                Operand::Scalar(value) => self.literal(&[], &[*value])?,
            });
        }
        self.push(form.op, inputs, outputs, form.attributes);
        Ok(())
    }

    /// Returns whether a primitive on booleans is written on bytes instead. ONNX Runtime does not support `Where` on
    /// boolean operands, and before opset 20 the maximum and minimum of booleans are not defined.
    fn moves_as_bytes(&self, op: Primitive, dtypes: &[Option<DataType>]) -> bool {
        let Target::Opset(opset) = self.target else { return false };
        match (op, dtypes) {
            (Primitive::Where, [_, Some(DataType::Bool), _]) => true,
            (Primitive::ReduceMax | Primitive::ReduceMin, [Some(DataType::Bool)]) => opset < 20,
            _ => false,
        }
    }

    /// Adds a primitive on booleans. The operands are cast to bytes (0 or 1), and the result is cast back.
    fn as_bytes(
        &mut self,
        op: Primitive,
        params: &[Param<'_>],
        mut inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> Result<(), Error> {
        let first = usize::from(op == Primitive::Where);
        for input in inputs.iter_mut().skip(first) {
            *input = self.cast(input.clone(), None, DataType::U8)?;
        }
        let result = self.between();
        self.operator(op, params, inputs, vec![result.clone()])?;
        self.cast(result, outputs.into_iter().next(), DataType::Bool)?;
        Ok(())
    }

    /// Adds a cast to a value with this name, or with a new name. Returns the name.
    fn cast(&mut self, from: String, to: Option<String>, dtype: DataType) -> Result<String, Error> {
        let to = to.unwrap_or_else(|| self.between());
        let params = [Param::Type(dtype), Param::Bool(true), Param::Round(RoundMode::default())];
        self.operator(Primitive::Cast, &params, vec![from], vec![to.clone()])?;
        Ok(to)
    }

    /// Checks that the opset's primitive supports the element types of its operands and of its result.
    fn check_primitive(
        &self,
        op: Primitive,
        dtypes: &[Option<DataType>],
        params: &[Param<'_>],
    ) -> Result<(), Error> {
        let name = op.spec().name;
        // The condition of `Where` is boolean in every version, so it is not checked.
        let first = if op == Primitive::Where { 1 } else { 0 };
        let named = params.iter().find_map(|p| if let Param::Type(dtype) = p { Some(*dtype) } else { None });
        let subject = dtypes.get(first).copied().flatten();
        for dtype in subject.into_iter().chain(named) {
            self.check(name, dtype)?;
        }
        // Before opset 15, `Pow` supports exponents of all numeric types except `bf16`.
        if let (Primitive::Pow, [_, Some(DataType::BF16)], Target::Opset(opset @ ..15)) =
            (op, dtypes, self.target)
        {
            let node = self.node_name(name);
            return Err(Error::ElementTypeOfOpset {
                node,
                op: name,
                dtype: DataType::BF16,
                opset,
                since: Some(15),
            });
        }
        Ok(())
    }

    fn primitive(
        &mut self,
        op: Primitive,
        step: &Step,
        inputs: Vec<String>,
        outputs: Vec<String>,
        recorded: &Trace,
    ) -> Result<(), Error> {
        let output = step.outputs.first().map(|no| recorded.values.get(*no)).transpose()?;
        if let (Primitive::Reshape, Target::Opset(..14), Some(output)) = (op, self.target, output)
            && output.shape.contains(&0)
        {
            // Before opset 14 an extent of 0 means the operand's extent, so a tensor without elements is written as a
            // constant.
            let empty = TensorData::zeros(output.dtype, &output.shape, usize::MAX)?;
            let name = self.fresh(format!("empty_{}", self.graph.initializer.len()));
            self.graph.initializer.push(empty.to_proto(&name));
            self.push("Identity", vec![name], outputs, Vec::new());
            return Ok(());
        }
        self.operator(op, &step.params, inputs, outputs)
    }

    /// Adds a primitive on these operands.
    pub(crate) fn operator(
        &mut self,
        op: Primitive,
        params: &[Param<'_>],
        mut inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> Result<(), Error> {
        let form = primitive_form(op, params, self.target)?;
        for values in form.inputs {
            inputs.push(match values {
                Some(values) => self.literal(&[values.len()], &values)?,
                None => String::new(),
            });
        }
        self.push(op.spec().name, inputs, outputs, form.attributes);
        Ok(())
    }
}

/// Writes parameters as in the target's schema: as attributes, or as inputs after the operands.
fn primitive_form(op: Primitive, params: &[Param<'_>], target: Target) -> Result<PrimitiveForm, Error> {
    let opset = target.opset();
    let mut form = PrimitiveForm { attributes: Vec::new(), inputs: SmallVec::new() };
    for (spec, param) in op.spec().params.iter().zip(params) {
        if is_input(op, spec.name, opset) {
            let values: Vec<i64> = match param {
                Param::Ints(v) => v.to_vec(),
                Param::Extents(v) => {
                    let values: Result<_, _> = v.iter().map(|&d| i64::try_from(d)).collect();
                    // A value that wrapped to -1 would mean an inferred extent.
                    values.map_err(|_| bb_ir::Error::Overflow {
                        op: op.spec().method,
                        shape: v.as_ref().into(),
                    })?
                }
                _ => continue,
            };
            // Empty axes and steps mean the same as absent ones. Only `Unsqueeze` requires the input.
            let absent =
                values.is_empty() && matches!(spec.name, "axes" | "steps") && op != Primitive::Unsqueeze;
            form.inputs.push((!absent).then_some(values));
        } else if has_attribute(op, spec.name, opset) {
            form.attributes.extend(attribute(spec.name, param));
        }
    }
    if op == Primitive::Reshape && opset >= 14 {
        // In the primitive's `shape`, 0 means an extent of 0, not the operand's extent.
        form.attributes.extend(attribute("allowzero", &Param::Int(1)));
    }
    if let (Primitive::Slice, Target::Opset(_), [Some(starts), _, axes @ None, ..]) =
        (op, target, form.inputs.as_mut_slice())
    {
        // If there are fewer starts than dimensions, runtimes interpret absent `axes` differently, so `axes` is written
        // explicitly.
        *axes = Some((0..starts.len() as i64).collect());
    }
    Ok(form)
}

/// Returns true if an opset's schema passes a parameter as an input.
pub(super) fn is_input(op: Primitive, param: &str, opset: i64) -> bool {
    use Primitive::*;
    match op {
        ReduceSum => param == "axes",
        ReduceMean | ReduceMax | ReduceMin => param == "axes" && opset >= 18,
        Reshape | Squeeze | Unsqueeze | Slice => true,
        Split => param == "sizes",
        Add | Sub | Mul | Div | Neg | Abs | Sqrt | Pow | Exp | Log | MatMul | Transpose | Concat
        | Identity | Cast | Equal | Greater | Less | Where | Constant | Gather => false,
    }
}

/// Returns whether an opset's schema has an attribute. If it lacks the attribute, it also lacks the element types that
/// need it.
fn has_attribute(op: Primitive, param: &str, opset: i64) -> bool {
    match (op, param) {
        (Primitive::Cast, "saturate") => opset >= 19,
        (Primitive::Cast, "round_mode") => opset >= 24,
        _ => true,
    }
}
