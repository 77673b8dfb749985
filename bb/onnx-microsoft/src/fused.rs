//! Matrix products and convolutions with a fused activation, as graph optimizers write them.

use super::only;
use bb_core::ext::Activation;
use bb_core::ext::{math, types};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::infer;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::Attributes;
use bb_onnx::shared::operators;
use bb_onnx::shared::{normalize, window};

operators! {
    "com.microsoft" {
        FusedConv => Primitives(fused_conv), infer: By(fused_conv_types);
        FusedGemm => Primitives(fused_gemm), infer: By(fused_gemm_types);
        FusedMatMul => Primitives(fused_matmul), infer: By(fused_matmul_types), halves: Once;
        FusedMatMulActivation => Primitives(fused_matmul_activation), infer: By(fused_matmul_types);
        TransposeMatMul => Primitives(transpose_matmul), infer: By(fused_matmul_types), halves: Once;
    }
}

/// Applies the activation called `name`. Missing parameters have the defaults of the operator of that name.
fn activated(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    name: &str,
    params: [Option<f32>; 3],
) -> Result<TracedTensor, TraceStop> {
    let [alpha, beta, gamma] = params;
    let or = |given: Option<f32>, default: f64| given.map_or(default, f64::from);
    math::widened(on, x, DataType::F32, |x| match name {
        "Clip" => {
            let bound = |limit: Option<f32>| limit.map(|v| on.scalar_like(x, v.into())).transpose();
            on.clip(x, bound(alpha)?.as_ref(), bound(beta)?.as_ref())
        }
        "Selu" => {
            let y = on.elu(x, or(alpha, 1.673_263_192_176_818_8))?;
            on.mul(&y, &on.scalar_like(x, or(gamma, 1.050_701_022_148_132_3))?)
        }
        "HardSwish" => on.mul(x, &on.hard_sigmoid(x, or(alpha, 1.0 / 6.0), or(beta, 0.5))?),
        _ => match Activation::named(name, alpha, beta) {
            Some(function) => function.apply(on, x),
            None => Err(call.wrong("activation", format!("is `{name}`, which names no activation")).into()),
        },
    })
}

/// Applies the activation in the attributes `activation` and `activation_…`, if there is one.
fn by_attributes(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let Some(name) = call.text("activation")?.filter(|name| !name.is_empty()) else { return Ok(x) };
    if name == "Relu" {
        // `Relu` also accepts integers.
        return on.relu(&x);
    }
    let params = ["activation_alpha", "activation_beta", "activation_gamma"].map(|p| call.float_if_given(p));
    let [alpha, beta, gamma] = params;
    activated(on, call, &x, name, [alpha?, beta?, gamma?])
}

fn fused_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    window::conv_types(at)
}

/// `FusedConv`: a convolution, an addition, and an activation of the sum.
pub(crate) fn fused_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &CONV)?;
    let y = window::plain_conv(on, call, call.input(0)?, call.input(1)?, call.optional(2))?;
    let y = super::plus(on, &y, call.optional(3))?;
    Ok(one(by_list(on, call, y)?))
}

/// The attributes of a convolution, and of the activation that [`by_list`] reads.
pub(super) const CONV: [&str; 8] =
    ["activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];

/// Applies the activation in `activation`, if there is one, with the parameters in the list `activation_params`.
pub(super) fn by_list(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let Some(name) = call.text("activation")?.filter(|name| !name.is_empty()) else { return Ok(x) };
    let params = call.floats("activation_params")?.unwrap_or_default();
    let param = |index: usize| params.get(index).copied();
    activated(on, call, &x, name, [param(0), param(1), param(2)])
}

fn fused_gemm_types(at: NodeFacts<'_>) -> Option<Types> {
    normalize::gemm_types(at)
}

/// `FusedGemm`: `Gemm` with an activation.
pub(crate) fn fused_gemm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "activation",
            "activation_alpha",
            "activation_beta",
            "activation_gamma",
            "alpha",
            "beta",
            "transA",
            "transB",
        ],
    )?;
    Ok(one(by_attributes(on, call, normalize::plain_gemm(on, call)?)?))
}

/// The permutation of the dimensions of a matrix product's operand.
#[derive(Debug, Clone, Copy)]
struct Moved {
    /// Whether the first dimension moves to the second last index.
    batched: bool,
    /// Whether the last two dimensions are swapped afterwards.
    transposed: bool,
}

impl Moved {
    /// Reads the permutations of both operands.
    fn of<'a, A: Attributes<'a>>(node: &A) -> Result<[Moved; 2], A::Error> {
        let [left, right] = normalize::transposed(node)?;
        Ok([
            Moved { batched: node.flag("transBatchA", false)?, transposed: left },
            Moved { batched: node.flag("transBatchB", false)?, transposed: right },
        ])
    }

    /// Permutes the dimensions.
    fn apply<D>(self, dims: &mut [D]) {
        if let (true, [first @ .., _]) = (self.batched && dims.len() > 2, &mut *dims) {
            first.rotate_left(1);
        }
        if let (true, [.., row, column]) = (self.transposed, dims) {
            std::mem::swap(row, column);
        }
    }
}

/// Infers the type of `FusedMatMul`, whose operands are permuted first.
fn fused_matmul_types(at: NodeFacts<'_>) -> Option<Types> {
    let side = |input: usize, moved: Moved| {
        let mut x = at.dims(input)?.to_vec();
        moved.apply(&mut x);
        Some(x)
    };
    let product = || {
        let [left, right] = Moved::of(&at).ok()?;
        let (a, b) = (side(0, left)?, side(1, right)?);
        Some(infer::matmul(&a, &b).ok()?.shape.into_vec())
    };
    at.one(at.dtype(0), product())
}

/// `FusedMatMul`: a scaled matrix product of operands that are permuted first.
pub(crate) fn fused_matmul(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["transA", "transB", "transBatchA", "transBatchB", "alpha"])?;
    Ok(one(product(on, call)?))
}

/// `TransposeMatMul`: `FusedMatMul` without permuted batch dimensions.
pub(crate) fn transpose_matmul(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["transA", "transB", "alpha"])?;
    Ok(one(product(on, call)?))
}

/// `FusedMatMulActivation`: `FusedMatMul` with an activation of the product.
pub(crate) fn fused_matmul_activation(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "activation",
            "activation_alpha",
            "activation_axis",
            "activation_beta",
            "activation_gamma",
            "alpha",
            "transA",
            "transB",
            "transBatchA",
            "transBatchB",
        ],
    )?;
    let y = product(on, call)?;
    if call.text("activation")? == Some("Softmax") {
        return Ok(one(on.softmax(&y, call.int_or("activation_axis", -1)?)?));
    }
    Ok(one(by_attributes(on, call, y)?))
}

/// Computes a scaled matrix product with the call's attributes.
fn product(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<TracedTensor, TraceStop> {
    let side = |index: usize, moved: Moved| -> Result<TracedTensor, TraceStop> {
        let x = call.input(index)?;
        let mut perm: Vec<i64> = (0..x.rank() as i64).collect();
        moved.apply(&mut perm);
        if perm.is_sorted() { Ok(x.clone()) } else { on.transpose(x, &perm) }
    };
    let [left, right] = Moved::of(call)?;
    let (a, b) = (side(0, left)?, side(1, right)?);
    let alpha = call.float_or("alpha", 1.0)?;
    if alpha == 1.0 {
        return on.matmul(&a, &b);
    }
    // Compute in `f32`, so that 16-bit floats are rounded once, after the scaling.
    types::alike(&b, &a)?;
    let product = on.matmul(&math::accumulated(on, &a)?, &math::accumulated(on, &b)?)?;
    math::narrowed(on, on.mul(&product, &on.scalar_like(&product, alpha)?)?, a.dtype())
}
