//! A small call of each version of each operator, which a backend runs to show on which element types it can.
//!
//! `samples.bin` holds them, written by `tests/cases/samples.py`, which says where they come from and how they are stored.

use crate::ext::OpSet;
use crate::{BackendRuntime, CompileOptions, DataType, Error, Module, TensorData, Value, plan};
use bb_ir::check::{self, CheckOptions};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::Family;
use bb_ir::proto::{ModelProto, TensorProto, type_proto};
use bb_ir::{Limits, opset};
use std::collections::HashMap;
use std::sync::Arc;

static SAMPLES: &[u8] = include_bytes!("samples.bin");

/// The calls by domain, operator, version and name of the element type; `*` is for any type.
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

    /// Finds the call of a version for an element type.
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

impl Sample {
    /// Makes the call's graph, and the operands that it is given.
    fn checked(mut self) -> Result<(Module, Vec<TensorData>), Error> {
        let mut operands = Vec::new();
        if let Some(graph) = &mut self.model.graph {
            for input in &mut graph.input {
                if let Some(at) = graph.initializer.iter().position(|t| t.name() == input.name()) {
                    operands.push(converted(&graph.initializer.remove(at), self.dtype)?);
                }
                let ty = input.r#type.as_mut().and_then(|ty| ty.value.as_mut());
                if let Some(type_proto::Value::TensorType(ty)) = ty {
                    ty.elem_type = Some(self.dtype as i32);
                }
            }
        }
        Ok((Module::new(check::check(&self.model, &CheckOptions::default())?.graph), operands))
    }

    /// Runs the call; returns how many steps the operator is lowered to, where that is known beforehand.
    ///
    /// # Errors
    ///
    /// Why it did not run, for instance because the backend does not take the element type in an operation that the
    /// operator is lowered to.
    pub(super) fn run(
        self,
        on: &Arc<dyn BackendRuntime>,
        natives: &[(Family, OpSet)],
        name: &str,
    ) -> Result<Option<usize>, Error> {
        let (module, operands) = self.checked()?;
        let executable = on.clone().compile(module.clone(), &CompileOptions::default())?;
        let given = operands.iter().map(|x| Ok(Some(crate::onnx::Item::Tensor(on.constant(x)?))));
        let results = executable.run_items(&given.collect::<Result<Vec<_>, Error>>()?)?;
        for result in results {
            // A device may find out late.
            result.try_map(&mut |x: &Value| on.to_host(x))?;
        }
        let counts = plan::count_steps(&module, natives).unwrap_or_default();
        let nodes = module.graph().nodes.iter().enumerate().filter(|(_, node)| node.op_type == name);
        let steps = nodes.filter_map(|(at, _)| counts.iter().find(|(node, _)| *node == at));
        Ok(steps.map(|(_, steps)| *steps).max())
    }
}

/// The elements, as the type has them; zeros where it has no numbers.
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
        // They take maps, which no constant can be.
        assert_eq!(lacking, ["CastMap", "DictVectorizer"]);
    }
}
