//! The items of the crate `bb-ir` that backends, components and tools use, by name.
//!
//! Kernels use [`infer`] for shapes, [`memory`] for results, and [`convert`] for casts. Backends for whole graphs read
//! [`proto`]. Code that inspects a model reads [`graph`] and [`opset`]. The types that every user needs are at the root
//! of `bb`.

pub use bb_ir::{
    ALIGNMENT, Axis, Error, Identity, LimitInfo, LimitPhase, Problems, Strings, StringsBuilder, Summary,
    element_count, for_each_primitive, nearest, parse_bytes, unpack_into,
};

/// Conversions between element types, as ONNX's `Cast` defines them.
pub mod convert {
    pub use bb_ir::convert::{
        Rounding, bf16_from_f64, cast, cast_into, decode_table, encode_small_float, f16_from_f64, f64_to_odd,
        format_elements, format_tensor, parse_elements, unpacked_size,
    };
}

/// Checked graphs: numbered values, decoded attributes, types.
pub mod graph {
    pub use bb_ir::graph::{
        Attribute, Attributes, Dim, DimExpr, Graph, Node, ValueId, ValueInfo, ValueType, Warning,
    };
}

/// The shape and element type rules of each primitive, which all backends share. [`Step`](infer::Step) resolves the
/// options of windows, [`windows`](infer::windows) counts windows, and [`Padding`](infer::Padding) reads ONNX's
/// `auto_pad`.
pub mod infer {
    pub use bb_ir::infer::{
        Extent, Extents, Joined, MatMul, Outputs, Padding, Reduction, SliceDim, Sliced, Step, Transposed,
        accepts, broadcast, check_operand, concat, dtype, gather, matmul, primitive, reduce, reshape,
        resolve_reshape, slice, split, split_evenly, squeeze, transpose, unsqueeze, windows,
    };
}

/// Allocates memory for results. If memory runs out, these functions return an error and the process continues.
pub mod memory {
    pub use bb_ir::memory::{
        append, collected, copied, filled, probe, probe_strings, push, reserve, room, try_collected,
    };
}

/// Cancellation checks in loops. Kernels run their loops within [`RunOptions::paced`](crate::RunOptions::paced).
pub mod pace {
    pub use bb_ir::pace::{Pace, STRETCH, ask, asked};
}

/// Operations as data: their table rows and their parameters.
pub mod op {
    pub use bb_ir::op::{
        Arity, AtomicOpDecl, AtomicOpsetDecl, Class, Family, OpSpec, Param, ParamKind, ParamSpec,
    };
}

/// ONNX's schemas of operators and their versions.
pub mod opset {
    pub use bb_ir::opset::{
        NEWEST, OperatorVersion, Presence, domain_name, history, names, presence, since, supported_opsets,
        versions,
    };
}

/// ONNX's protobuf messages.
pub mod proto {
    pub use bb_ir::proto::{
        AttributeProto, ElementKind, FunctionProto, GraphProto, MapProto, ModelProto, NodeProto,
        OperatorSetIdProto, OptionalProto, SequenceProto, SparseTensorProto, StringStringEntryProto,
        TensorAnnotation, TensorProto, TensorShapeProto, TrainingInfoProto, TypeProto, ValueInfoProto,
        attribute_proto, tensor_proto, tensor_shape_proto, type_proto,
    };
}

/// The frame format of tensors that are sent and received.
pub mod wire {
    pub use bb_ir::wire::{
        Checksum, Frame, MAGIC, VERSION, decode, decode_as, element_type, encode, encode_into, hash_name,
        read, read_frame, refuse_collisions, type_hash, type_name, write,
    };
}

/// Formats untrusted text for people: errors, tables and logs show names escaped and truncated. Also parses options that are true or
/// false.
pub mod text {
    pub use bb_ir::text::{BOOL_FORM, is_hidden, listed, parse_bool, printable, sentence, shown, within};
}
