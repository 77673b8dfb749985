//! Small calls of each version of each operator. They show which element types a backend supports for the operator.
//!
//! `tests/cases/samples.py` writes them to `samples.bin`; it documents their origin and their format.

use super::{How, Missing, Refusal, RefusedBy, Why};
use crate::look::look;
use crate::{CompileOptions, DataType, Error, Module, Runtime, TensorData, Value};
use bb_ir::check::{self, CheckOptions};
use bb_ir::convert::{Rounding, cast};
use bb_ir::proto::{ModelProto, TensorProto, type_proto};
use bb_ir::{Limits, opset};
use std::collections::HashMap;
use std::sync::Arc;

static SAMPLES: &[u8] = include_bytes!("samples.bin");

/// The calls by domain, operator, version and name of the element type; `*` matches every type.
pub(super) struct Samples(HashMap<(String, String, i64, String), ModelProto>);

impl Samples {
    pub(super) fn read() -> Samples {
        let mut samples = HashMap::new();
        let mut rest = SAMPLES;
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            let Some((bytes, after)) = after.split_at_checked(length) else { break };
            rest = after;
            let Ok(model) = check::parse_model(bytes.into(), &Limits::default()) else { continue };
            let name = model.graph.as_ref().map_or("", |graph| graph.name()).to_owned();
            if let [domain, op, since, dtype] = name.split(' ').collect::<Vec<_>>().as_slice()
                && let Ok(since) = since.parse()
            {
                let domain = opset::domain_name(domain).to_owned();
                samples.insert((domain, (*op).to_owned(), since, (*dtype).to_owned()), model);
            }
        }
        Samples(samples)
    }

    /// Returns the call of a version for an element type.
    pub(super) fn of(&self, domain: &str, name: &str, since: i64, dtype: DataType) -> Option<Sample> {
        let find = |dtype: &str| self.0.get(&(domain.to_owned(), name.to_owned(), since, dtype.to_owned()));
        let model = find(dtype.name()).or_else(|| find("*"))?;
        Some(Sample { model: model.clone(), dtype })
    }
}

/// A call on operands of one element type.
pub(super) struct Sample {
    model: ModelProto,
    dtype: DataType,
}

/// A call that is ready to run: the graph and its operands.
struct Ready {
    module: Module,
    operands: Vec<TensorData>,
}

impl Sample {
    /// Builds the graph of the call and its operands. Indices that are operands of the call have the type
    /// `indices`.
    fn ready(&self, indices: DataType) -> Result<Ready, Error> {
        let mut model = self.model.clone();
        let mut operands = Vec::new();
        if let Some(graph) = &mut model.graph {
            for input in &mut graph.input {
                if let Some(at) = graph.initializer.iter().position(|t| t.name() == input.name()) {
                    operands.push(converted(&graph.initializer.remove(at), self.dtype)?);
                }
                let ty = input.r#type.as_mut().and_then(|ty| ty.value.as_mut());
                if let Some(type_proto::Value::TensorType(ty)) = ty {
                    ty.elem_type = Some(self.dtype as i32);
                }
            }
            for own in graph.initializer.iter_mut().filter(|own| own.data_type() == DataType::I64 as i32) {
                if indices != DataType::I64 {
                    *own = converted(own, indices)?.to_proto(own.name());
                }
            }
        }
        let options = CheckOptions { operators: bb_core::operator::OPERATORS, ..CheckOptions::default() };
        let module = Module::new(check::check(&model, &options)?.graph);
        Ok(Ready { module, operands })
    }

    /// Runs the call. Returns the number of steps of the lowered operator, if that is known before running.
    ///
    /// # Errors
    ///
    /// The side that refuses the call, with the message.
    pub(super) fn answer(&self, on: &Arc<Runtime>, name: &str) -> Result<Option<usize>, (RefusedBy, String)> {
        match self.tried(DataType::I64, on, name) {
            // If indices may be of either integer type, a backend may support only one of them.
            Err((RefusedBy::Probe { needs: DataType::I64 }, reason)) => self
                .tried(DataType::I32, on, name)
                .map_err(|_| (RefusedBy::Probe { needs: DataType::I64 }, reason)),
            other => other,
        }
    }

    fn tried(
        &self,
        indices: DataType,
        on: &Arc<Runtime>,
        name: &str,
    ) -> Result<Option<usize>, (RefusedBy, String)> {
        let invalid = |error: Error| (RefusedBy::Operator, bb_core::error::causes(&error));
        let call = self.ready(indices).map_err(invalid)?;
        let graph = call.module.graph();
        let looked = look(&call.module, on);
        if let Err(error) = call.run(on) {
            let missing: Vec<&Missing> = looked.iter().flat_map(|looked| &looked.missing).collect();
            return Err(self.blame(&call, &missing, &error));
        }
        let nodes = graph.nodes.iter().zip(&looked).filter(|(node, _)| node.op_type == name);
        let steps = nodes.filter_map(|(_, looked)| match looked.how {
            How::Lowered(steps) => steps,
            _ => None,
        });
        Ok(steps.max())
    }

    /// Determines the side that refuses a failed call.
    fn blame(&self, call: &Ready, missing: &[&Missing], error: &Error) -> (RefusedBy, String) {
        let refusals: Vec<&Refusal> = missing
            .iter()
            .flat_map(|missing| match &missing.why {
                Why::ElementTypes(refusals) => refusals.as_slice(),
                _ => &[],
            })
            .collect();
        let said = |refusal: &Refusal| format!("{refusal}: {}", refusal.reason);
        if let Some(own) = refusals.iter().find(|refusal| refusal.is_of(self.dtype)) {
            return (RefusedBy::Backend { op: own.op.to_owned() }, said(own));
        }
        let beside =
            |dtype: &DataType| call.module.graph().constants.iter().any(|(_, data)| data.dtype() == *dtype);
        for refusal in &refusals {
            let mut types = refusal.operands.iter().chain(&refusal.params);
            if let Some(needs) = types.find(|dtype| beside(dtype)) {
                return (RefusedBy::Probe { needs: *needs }, said(refusal));
            }
        }
        if let Some(refusal) = refusals.first() {
            return (RefusedBy::Backend { op: refusal.op.to_owned() }, said(refusal));
        }
        let fails = missing.iter().find_map(|missing| match &missing.why {
            Why::Fails { reason } => Some(reason),
            _ => None,
        });
        match fails {
            Some(reason) => (RefusedBy::Operator, reason.clone()),
            None => (RefusedBy::Backend { op: String::new() }, bb_core::error::causes(error)),
        }
    }
}

impl Ready {
    /// Runs the call, from the operands to the results on the host.
    fn run(&self, on: &Arc<Runtime>) -> Result<(), Error> {
        let executable = on.clone().compile(self.module.clone(), &CompileOptions::default())?;
        let given =
            self.operands.iter().map(|x| Ok(Some(bb_core::contract::OnnxValue::Tensor(on.constant(x)?))));
        let results = executable.run_items(&given.collect::<Result<Vec<_>, Error>>()?)?;
        for result in results {
            // A device may report an error only when its results are read.
            result.try_map(&mut |x: &Value| on.to_host(x))?;
        }
        Ok(())
    }
}

/// Converts the elements to the type. Returns zeros if the type is not numeric.
fn converted(elements: &TensorProto, dtype: DataType) -> Result<TensorData, Error> {
    let data = TensorData::from_proto(elements)?;
    if data.dtype() == dtype {
        return Ok(data);
    }
    match cast(&data, dtype, Rounding::default()) {
        Ok(converted) => Ok(converted),
        Err(_) => Ok(TensorData::zeros(dtype, data.shape(), Limits::default().model_bytes)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_every_version_has_a_call_for_each_type() {
        let samples = Samples::read();
        let versions = opset::versions();
        let lacking: Vec<String> = versions
            .filter(|v| {
                let types = v.types.iter().flatten();
                types.into_iter().any(|t| samples.of(v.domain, v.name, v.since, *t).is_none())
            })
            .map(|v| v.name.to_owned())
            .collect();
        // These operators have maps as operands, and no constant is a map.
        assert_eq!(lacking, ["CastMap", "DictVectorizer"]);
    }
}
