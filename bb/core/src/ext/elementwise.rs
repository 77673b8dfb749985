//! Which operations are element-wise: the one place that says so.

use super::{BitsOp, ImageOp, LlmOp, NnOp, QuantOp};
use bb_ir::op::{Family, OpSpec, Primitive};

/// Tells whether an operation is element-wise: all its operands broadcast to the extents of its only result, and each element
/// of the result is a function of the elements that come to lie in its place, and of parameters that name no dimension.
///
/// So it has the same bits, whether dimensions are permuted before it, those of all operands, or behind it.
pub fn is_elementwise(spec: &OpSpec) -> bool {
    match spec.family {
        Family::Primitive => Primitive::from_index(spec.index).is_some_and(primitive),
        // All of the family, programs of such functions included.
        Family::Scalar => true,
        Family::Nn => NnOp::from_index(spec.index).is_some_and(nn),
        Family::Bits => BitsOp::from_index(spec.index).is_some_and(bits),
        Family::Quant => QuantOp::from_index(spec.index).is_some_and(quant),
        Family::Llm => LlmOp::from_index(spec.index).is_some_and(llm),
        Family::Image => ImageOp::from_index(spec.index).is_some_and(image),
        // Operations of other families, and of a family that is not known.
        _ => false,
    }
}

fn primitive(op: Primitive) -> bool {
    match op {
        Primitive::Add
        | Primitive::Sub
        | Primitive::Mul
        | Primitive::Div
        | Primitive::Neg
        | Primitive::Abs
        | Primitive::Sqrt
        | Primitive::Pow
        | Primitive::Exp
        | Primitive::Log
        | Primitive::Identity
        | Primitive::Cast
        | Primitive::Equal
        | Primitive::Greater
        | Primitive::Less
        | Primitive::Where => true,
        Primitive::MatMul
        | Primitive::ReduceSum
        | Primitive::ReduceMean
        | Primitive::ReduceMax
        | Primitive::ReduceMin
        | Primitive::Reshape
        | Primitive::Transpose
        | Primitive::Concat
        | Primitive::Slice
        | Primitive::Split
        | Primitive::Squeeze
        | Primitive::Unsqueeze
        | Primitive::Constant
        | Primitive::Gather => false,
    }
}

fn nn(op: NnOp) -> bool {
    match op {
        NnOp::Relu
        | NnOp::LeakyRelu
        | NnOp::Elu
        | NnOp::Gelu
        | NnOp::Swish
        | NnOp::HardSigmoid
        | NnOp::ThresholdedRelu
        | NnOp::Clip => true,
        NnOp::ReduceProd
        | NnOp::Softmax
        | NnOp::LogSoftmax
        | NnOp::LayerNormalization
        | NnOp::BatchNormalization
        | NnOp::Conv
        | NnOp::FusedConv
        | NnOp::ConvTranspose
        | NnOp::Rnn
        | NnOp::Gru
        | NnOp::Lstm
        | NnOp::MaxPool
        | NnOp::AveragePool
        | NnOp::Pad
        | NnOp::GatherElements
        | NnOp::GatherNd
        | NnOp::CumSum => false,
    }
}

fn bits(op: BitsOp) -> bool {
    match op {
        BitsOp::BitwiseAnd
        | BitsOp::BitwiseOr
        | BitsOp::BitwiseXor
        | BitsOp::BitwiseNot
        | BitsOp::BitShift
        | BitsOp::BitCast => true,
    }
}

fn quant(op: QuantOp) -> bool {
    match op {
        QuantOp::QuantizeLinear
        | QuantOp::DequantizeLinear
        | QuantOp::Requantize
        | QuantOp::QLinearAdd
        | QuantOp::QLinearMul => true,
        // The table of a lookup does not broadcast.
        QuantOp::Lookup
        // Their scales belong to a dimension.
        | QuantOp::Quantize
        | QuantOp::Dequantize
        | QuantOp::ScaledMatMul
        | QuantOp::DynamicQuantizeLinear
        | QuantOp::MatMulInteger
        | QuantOp::DynamicMatMul
        | QuantOp::MatMulNBits
        | QuantOp::ConvInteger
        | QuantOp::QLinearConv => false,
    }
}

fn llm(op: LlmOp) -> bool {
    match op {
        LlmOp::SiluMul => true,
        LlmOp::RmsNormalization
        | LlmOp::Rotate
        | LlmOp::Attention
        | LlmOp::SkipRmsNorm
        | LlmOp::Linear
        | LlmOp::QuantizedLinear
        | LlmOp::CachedAttention
        | LlmOp::PagedAttention
        | LlmOp::KvAppend
        | LlmOp::SampleToken => false,
    }
}

fn image(op: ImageOp) -> bool {
    match op {
        ImageOp::Threshold | ImageOp::Brightness | ImageOp::Invert => true,
        ImageOp::GridSample
        | ImageOp::DeformConv
        | ImageOp::RoiAlign
        | ImageOp::MaxRoiPool
        | ImageOp::MaxUnpool
        | ImageOp::Dft
        | ImageOp::GaussianBlur
        | ImageOp::Sobel
        | ImageOp::Sharpen
        | ImageOp::Grayscale
        | ImageOp::Contrast => false,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::ext::every_operation;
    use crate::trace::{InputIndex, TableIndex, TracedTensor, Tracer, Varies};
    use crate::{DataType, Tensor};
    use bb_ir::op::{Arity, Param, ParamKind};

    /// Makes a parameter that any operation takes of its kind.
    fn param(kind: ParamKind) -> Param<'static> {
        match kind {
            ParamKind::Type => Param::Type(DataType::F32),
            // A program that adds two tensors.
            ParamKind::Ints => Param::Ints(vec![0, 0, 1].into()),
            ParamKind::Float => Param::Float(0.5),
            ParamKind::Bool => Param::Bool(true),
            other => panic!("no element-wise operation has required parameters of the kind {other:?}"),
        }
    }

    /// Traces an operation on operands of these extents; `None` if it does not take the element types.
    fn shape(spec: &'static OpSpec, extents: &[&[usize]], dtype: DataType) -> Option<Vec<usize>> {
        let on = Tracer::default();
        let own = |at: usize| match (spec.name, at) {
            ("Where", 0) => DataType::Bool,
            ("QLinearAdd" | "QLinearMul", 1 | 4 | 6) => DataType::F32,
            ("QLinearAdd" | "QLinearMul", _) => DataType::U8,
            _ => dtype,
        };
        let input = |(at, shape): (usize, &&[usize])| {
            on.input(InputIndex::at(at), "x", own(at), shape, &Varies::Everything, None)
        };
        let operands: Vec<TracedTensor> = extents.iter().enumerate().map(input).collect();
        let operands: Vec<Option<&TracedTensor>> = operands.iter().map(Some).collect();
        let params: Vec<Param<'static>> = spec
            .params
            .iter()
            .map(|p| p.default.map_or_else(|| param(p.kind), |default| default()))
            .collect();
        let results = crate::ext::call(&on, spec, &operands, &params).ok()?;
        Some(results.iter().map(|x| x.shape().to_vec()).next().unwrap())
    }

    #[test]
    fn an_element_wise_operation_broadcasts_its_operands_and_keeps_their_dimensions() {
        let mut seen = 0;
        let families = every_operation().into_iter().map(|(family, _)| family).chain([Family::Primitive]);
        for spec in families.flat_map(crate::ext::rows).filter(|spec| is_elementwise(spec)) {
            let count =
                spec.inputs.iter().map(|(_, arity)| if *arity == Arity::Tensors { 2 } else { 1 }).sum();
            // Scales and zero points of these have one element.
            let single = ["QLinearAdd", "QLinearMul"].contains(&spec.name);
            let full: &[usize] = if count == 1 || single { &[2, 3, 4] } else { &[2, 1, 4] };
            let mut extents = vec![full];
            for at in 1..count {
                let one: &[usize] = if single && at != 3 { &[1, 1, 1] } else { &[1, 3, 1] };
                extents.push(one);
            }
            let dtypes = [DataType::F32, DataType::U8, DataType::Bool];
            let shapes: Vec<_> = dtypes.iter().filter_map(|&dtype| shape(spec, &extents, dtype)).collect();
            assert!(!shapes.is_empty(), "{} takes no type", spec.name);
            assert!(shapes.iter().all(|shape| shape[..] == [2, 3, 4]), "{}: {shapes:?}", spec.name);
            seen += 1;
        }
        assert!(seen > crate::ext::ScalarOp::ALL.len(), "{seen}");
    }
}
