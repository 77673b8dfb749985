//! Describes the configuration and statistics of models for both protocols. The gRPC messages also define the JSON of HTTP.

use crate::messages::inference::{
    DataType as Kind, InferBatchStatistics, InferStatistics, ModelConfig, ModelDynamicBatching, ModelInput,
    ModelInstanceGroup, ModelOutput, ModelStatistics, ModelVersionPolicy, StatisticDuration,
    model_instance_group, model_version_policy,
};
use crate::model::Model;
use crate::port::TensorPort;
use crate::statistics::Total;
use bb::DataType;
use serde_json::{Value, json};

/// Describes how a model is served.
pub(crate) fn config(model: &Model) -> ModelConfig {
    let batching = model.batching.as_ref();
    let dims = |port: &TensorPort| {
        let mut dims = port.extents();
        // Removes the first extent, which is the batch size of every input and output and is not part of the description.
        if batching.is_some() && !dims.is_empty() {
            dims.remove(0);
        }
        dims
    };
    let input = |port: &TensorPort| ModelInput {
        name: port.name.clone(),
        data_type: kind(port.dtype).into(),
        dims: dims(port),
        optional: port.optional,
    };
    let output = |port: &TensorPort| ModelOutput {
        name: port.name.clone(),
        data_type: kind(port.dtype).into(),
        dims: dims(port),
        label_filename: model.labels.as_ref().map(|labels| labels.file.clone()).unwrap_or_default(),
    };
    let latest = model_version_policy::Latest { num_versions: model.versions.try_into().unwrap_or(u32::MAX) };
    ModelConfig {
        name: model.name.clone(),
        platform: model.platform.clone(),
        backend: model.backend.clone(),
        version_policy: Some(ModelVersionPolicy {
            policy_choice: Some(model_version_policy::PolicyChoice::Latest(latest)),
        }),
        max_batch_size: batching.map_or(0, |batching| batching.rows.try_into().unwrap_or(i32::MAX)),
        input: model.inputs.iter().map(input).collect(),
        output: model.outputs.iter().map(output).collect(),
        instance_group: vec![ModelInstanceGroup {
            name: model.name.clone(),
            count: model.workers.try_into().unwrap_or(i32::MAX),
            kind: model_instance_group::Kind::Model.into(),
        }],
        default_model_filename: model.file.clone(),
        dynamic_batching: batching.map(|batching| ModelDynamicBatching {
            max_queue_delay_microseconds: batching.delay.as_micros().try_into().unwrap_or(u64::MAX),
        }),
    }
}

/// Returns the enumerator of a type in the model configuration. Models with other types are not served.
fn kind(dtype: DataType) -> Kind {
    match dtype {
        DataType::Bool => Kind::TypeBool,
        DataType::U8 => Kind::TypeUint8,
        DataType::U16 => Kind::TypeUint16,
        DataType::U32 => Kind::TypeUint32,
        DataType::U64 => Kind::TypeUint64,
        DataType::I8 => Kind::TypeInt8,
        DataType::I16 => Kind::TypeInt16,
        DataType::I32 => Kind::TypeInt32,
        DataType::I64 => Kind::TypeInt64,
        DataType::F16 => Kind::TypeFp16,
        DataType::F32 => Kind::TypeFp32,
        DataType::F64 => Kind::TypeFp64,
        DataType::String => Kind::TypeString,
        DataType::BF16 => Kind::TypeBf16,
        _ => Kind::TypeInvalid,
    }
}

/// Writes the configuration as JSON like Triton: types as names, and numbers as numbers.
pub(crate) fn config_json(model: &Model) -> Value {
    let of = config(model);
    let kind = |number: i32| Kind::try_from(number).unwrap_or(Kind::TypeInvalid).as_str_name();
    let input = |port: &ModelInput| {
        json!({
            "name": port.name, "data_type": kind(port.data_type), "format": "FORMAT_NONE", "dims": port.dims,
            "optional": port.optional,
        })
    };
    let output = |port: &ModelOutput| {
        json!({
            "name": port.name, "data_type": kind(port.data_type), "dims": port.dims,
            "label_filename": port.label_filename,
        })
    };
    let group = |group: &ModelInstanceGroup| json!({ "name": group.name, "kind": "KIND_MODEL", "count": group.count });
    let mut json = json!({
        "name": of.name,
        "platform": of.platform,
        "backend": of.backend,
        "version_policy": { "latest": { "num_versions": model.versions } },
        "max_batch_size": of.max_batch_size,
        "input": of.input.iter().map(input).collect::<Vec<_>>(),
        "output": of.output.iter().map(output).collect::<Vec<_>>(),
        "instance_group": of.instance_group.iter().map(group).collect::<Vec<_>>(),
        "default_model_filename": of.default_model_filename,
    });
    if let (Some(batching), Some(json)) = (of.dynamic_batching, json.as_object_mut()) {
        let delay = batching.max_queue_delay_microseconds;
        json.insert("dynamic_batching".to_owned(), json!({ "max_queue_delay_microseconds": delay }));
    }
    json
}

/// Returns the counts and times of a model.
pub(crate) fn statistics(model: &Model) -> ModelStatistics {
    let of = &model.statistics;
    let spent = |total: Total| Some(StatisticDuration { count: total.count, ns: total.ns });
    let batch = |(rows, batch): (usize, crate::statistics::Batch)| InferBatchStatistics {
        batch_size: rows as u64,
        compute_input: spent(batch.input),
        compute_infer: spent(batch.infer),
        compute_output: spent(batch.output),
    };
    ModelStatistics {
        name: model.name.clone(),
        version: model.version.clone(),
        last_inference: of.last(),
        inference_count: of.rows(),
        execution_count: of.runs(),
        inference_stats: Some(InferStatistics {
            success: spent(of.success.total()),
            fail: spent(of.fail.total()),
            queue: spent(of.queue.total()),
            compute_input: spent(of.input.total()),
            compute_infer: spent(of.infer.total()),
            compute_output: spent(of.output.total()),
            cache_hit: spent(Total::default()),
            cache_miss: spent(Total::default()),
        }),
        batch_stats: of.batches().into_iter().map(batch).collect(),
    }
}

/// Writes the counts and times of a model as JSON.
pub(crate) fn statistics_json(model: &Model) -> Value {
    let of = &model.statistics;
    let none = Total::default();
    let batch = |(rows, batch): (usize, crate::statistics::Batch)| {
        json!({
            "batch_size": rows, "compute_input": batch.input, "compute_infer": batch.infer,
            "compute_output": batch.output,
        })
    };
    json!({
        "name": model.name,
        "version": model.version,
        "last_inference": of.last(),
        "inference_count": of.rows(),
        "execution_count": of.runs(),
        "inference_stats": {
            "success": of.success.total(), "fail": of.fail.total(), "queue": of.queue.total(),
            "compute_input": of.input.total(), "compute_infer": of.infer.total(),
            "compute_output": of.output.total(), "cache_hit": none, "cache_miss": none,
        },
        "batch_stats": of.batches().into_iter().map(batch).collect::<Vec<_>>(),
        "memory_usage": [],
    })
}
