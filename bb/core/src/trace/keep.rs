//! Maps operations of extension families to ONNX operators.
//!
//! A row consists of the operator and a function that writes the attributes and inputs. The function returns `None` if
//! the operator has another meaning for the operands and parameters of a call; then the operation is lowered.

use super::form::{Call, Form, Operand};
use crate::family::{BitsOp, CreateOp, ImageOp, IndexOp, LlmOp, MlOp, NnOp, QuantOp, ScalarOp, TrainOp};
use bb_ir::convert::{Rounding, cast};
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::{Axis, DataType, TensorData};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The operations that an exported model keeps as ONNX's own operators. All other operations are lowered to primitives.
///
/// An operation that primitives cannot express, for example `TopK`, is always kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Keep {
    /// Keeps no operation.
    #[default]
    Nothing,
    /// Keeps each operation if the opset has an operator with the same meaning.
    All,
    /// Keeps the operations with these names in ONNX, for example `Softmax`.
    Operators(BTreeSet<String>),
}

impl Keep {
    /// Keeps the operations that ONNX calls by these names.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb::export::{ExportOptions, Keep};
    /// let options = ExportOptions::default().keep(Keep::operators(["Softmax", "Conv"]));
    /// ```
    pub fn operators<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Keep {
        Keep::Operators(names.into_iter().map(Into::into).collect())
    }

    /// Lists the names of the operators that can be kept.
    pub fn names() -> BTreeSet<&'static str> {
        let families = crate::family::every_operation();
        let rows = families.into_iter().flat_map(|(family, _)| crate::family::rows(family));
        rows.filter_map(|spec| Some(row(spec)?.0)).collect()
    }
}

/// Whether a trace keeps an operation or replaces it by its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The body replaces the operation.
    Never,
    /// The operation is kept only if its body computes on the host, which a graph of primitives cannot express.
    ForHost,
    /// The operation is kept.
    Always,
}

/// The policy of an export: the opset and the operations to keep.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) opset: i64,
    pub(crate) keep: Keep,
}

impl Policy {
    /// Returns whether an operation on operands of these element types and ranks is kept.
    pub(crate) fn keeps(
        &self,
        spec: &OpSpec,
        operands: &[Option<(DataType, usize)>],
        params: &[Param<'_>],
    ) -> Kept {
        let Some(form) = form(spec, &Call { opset: self.opset, operands, params }) else {
            return Kept::Never;
        };
        let asked = match &self.keep {
            Keep::Nothing => false,
            Keep::All => true,
            Keep::Operators(names) => names.contains(form.op),
        };
        if asked { Kept::Always } else { Kept::ForHost }
    }
}

/// Writes an operation as an ONNX operator; returns `None` if the opset has no operator with the same meaning.
pub(crate) fn form(spec: &OpSpec, call: &Call<'_>) -> Option<Form> {
    let (op, write) = row(spec)?;
    let names: Vec<&'static str> = spec.params.iter().map(|p| p.name).collect();
    let form = write(call, Form::new(op, call), &names)?;
    call.takes(op, form.subject?).then_some(form)
}

/// A function that adds attributes and inputs to a node that has the operands. The last argument has the parameters'
/// names.
type Write = fn(&Call<'_>, Form, &[&'static str]) -> Option<Form>;

/// The ONNX operator of an operation, and the function that writes it.
type Row = Option<(&'static str, Write)>;

/// A family whose rows name ONNX's operators.
trait Exported {
    /// The operators, in the order of the family's table.
    const ROWS: &'static [Row];
}

/// Expands to the entry of a row: its ONNX operator and function, or `None` if the row names no operator.
macro_rules! exported {
    () => {
        None
    };
    ($operator:ident = $form:ident) => {
        Some((stringify!($operator), $form))
    };
}

macro_rules! exports {
    ([$trait:ident, $enum:ident] $( $name:ident {
           $class:ident $(, cost: $cost:ident)? $(, export: $operator:ident = $form:ident)?
           $(, batch: $batch:ident $(($($at:expr),*))?)? $(, derivative: $derivative:ident)?
       } )*) => {
        impl Exported for $enum {
            const ROWS: &'static [Row] = &[$( exported!($($operator = $form)?) ),*];
        }
    };
}

// A trace always keeps primitives, so no row is needed.
impl Exported for Primitive {
    const ROWS: &'static [Row] = &[];
}

bb_ir::for_each_family!(bb_ir::facts_of_rows, exports);

fn row(spec: &OpSpec) -> Row {
    let rows = crate::family::of_family!(spec.family, ROWS, &[]);
    rows.get(usize::from(spec.index)).copied().flatten()
}

/// Writes every parameter as the attribute with the same name.
fn same(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    form.attributes(call, names)
}

fn of_floats(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    if call.subject()?.is_float() { same(call, form, names) } else { None }
}

fn gelu(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let Param::Bool(tanh) = call.params.first()? else { return None };
    Some(form.text("approximate", if *tanh { "tanh" } else { "none" }))
}

fn bit_shift(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let Param::Bool(left) = call.params.first()? else { return None };
    call.of_one_type().then(|| form.text("direction", if *left { "LEFT" } else { "RIGHT" }))
}

/// Writes `Clip`. Its bounds must be scalars.
fn clip(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let scalar = |i: usize| call.operand(i).is_none_or(|(_, rank)| rank == 0);
    (scalar(1) && scalar(2)).then_some(form)
}

/// Writes normalizations whose first stage ONNX computes in 32 bits. So `f64` is excluded.
fn stashing(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let (dtype, _) = call.operand(0)?;
    (dtype != DataType::F64 && call.of_one_type()).then(|| same(call, form, names))?
}

/// Writes `LayerNormalization`. The scale and the bias may not have more dimensions than the normalized ones.
fn layer_normalization(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let (_, rank) = call.operand(0)?;
    let axis = names.iter().position(|name| *name == "axis").and_then(|i| call.params.get(i));
    let Some(Param::Int(axis)) = axis else { return None };
    let normalized = rank - Axis::new(*axis, rank).ok()?.get();
    let within = (1..3).all(|i| call.operand(i).is_none_or(|(_, rank)| rank <= normalized));
    within.then(|| stashing(call, form, names))?
}

/// Writes `BatchNormalization`. Before opset 15 all operands must have the same type.
fn batch_normalization(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let (_, rank) = call.operand(0)?;
    let vectors = (1..5).all(|i| call.operand(i).is_some_and(|(_, rank)| rank == 1));
    let dtype = |i| call.operand(i).map(|(dtype, _)| dtype);
    let types =
        if call.opset < 15 { call.of_one_type() } else { dtype(1) == dtype(2) && dtype(3) == dtype(4) };
    (rank >= 2 && vectors && types).then(|| same(call, form, names))?
}

/// Writes operators with windows, which need at least one spatial dimension and non-negative padding.
fn window(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let (_, rank) = call.operand(0)?;
    let pads = names.iter().position(|name| *name == "pads").and_then(|i| call.params.get(i));
    let Some(Param::Ints(pads)) = pads else { return None };
    (rank >= 3 && call.of_one_type() && pads.iter().all(|&pad| pad >= 0)).then(|| same(call, form, names))?
}

/// Writes pooling. Opset 22 ignores a window that begins in the padding at the end; earlier opsets leave this
/// undefined.
fn pool(call: &Call<'_>, mut form: Form, names: &[&'static str]) -> Option<Form> {
    let (_, rank) = call.operand(0)?;
    if rank < 3 {
        return None;
    }
    for (name, param) in names.iter().zip(call.params) {
        let attribute = match (*name, param) {
            ("pads", Param::Ints(pads)) if pads.iter().any(|&pad| pad < 0) => return None,
            ("ceil", Param::Bool(true)) if call.opset < 22 => return None,
            ("dilations", Param::Ints(d)) if form.op == "AveragePool" && call.opset < 19 => {
                if d.iter().any(|&d| d != 1) {
                    return None;
                }
                continue;
            }
            ("kernel", _) => "kernel_shape",
            ("ceil", _) => "ceil_mode",
            ("count_pad", _) => "count_include_pad",
            (name, _) => name,
        };
        form = form.attribute(attribute, param);
    }
    Some(form)
}

fn pad(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Ints(pads), Param::Text(mode)] = call.params else { return None };
    if mode == "wrap" && call.opset < 19 {
        return None;
    }
    let value = match call.operand(1) {
        Some((_, rank)) if mode == "constant" => {
            if rank != 0 {
                return None;
            }
            Operand::Given(1)
        }
        _ => Operand::Absent,
    };
    Some(form.inputs([Operand::Given(0), Operand::Ints(pads.to_vec()), value]).text("mode", mode))
}

fn with_long_indices(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let (indices, _) = call.operand(1)?;
    (indices == DataType::I64).then(|| same(call, form, names))?
}

fn attention(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    // ONNX adds a float mask, also minus infinity. So if the score of an excluded key is infinite or NaN, the exported
    // model returns NaN.
    let [scale, softcap, precision, _] = call.params else { return None };
    let dtype = |i| call.operand(i).map(|(dtype, _)| dtype);
    let fits = (0..3).all(|i| call.operand(i).is_some_and(|(_, rank)| rank == 4))
        && dtype(0) == dtype(1)
        && call.operand(3).is_none_or(|(bias, rank)| Some(bias) == dtype(0) && (2..=4).contains(&rank));
    let exact = [scale, softcap].into_iter().all(|p| call.exact(p));
    // ONNX's function takes the square root of the scale.
    let rooted = !matches!(scale, Param::OptFloat(Some(scale)) if scale.is_nan() || *scale <= 0.0);
    let form = form.attribute("scale", scale).attribute("softcap", softcap);
    (fits && exact && rooted).then(|| form.attribute("softmax_precision", precision))
}

fn is_inf(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [negative, positive] = call.params else { return None };
    Some(form.attribute("detect_negative", negative).attribute("detect_positive", positive))
}

/// Writes `Mod`. For floats, ONNX defines only the remainder with the sign of the dividend.
fn modulo(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let whole = !call.subject()?.is_float();
    (whole || call.params == [Param::Bool(true)]).then(|| same(call, form, names))?
}

fn full(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Extents(shape), Param::Float(value), Param::Type(dtype)] = call.params else { return None };
    constant_of_shape(call, form, shape, *value, *dtype)
}

fn zeros(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Extents(shape), Param::Type(dtype)] = call.params else { return None };
    constant_of_shape(call, form, shape, 0.0, *dtype)
}

fn ones(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Extents(shape), Param::Type(dtype)] = call.params else { return None };
    constant_of_shape(call, form, shape, 1.0, *dtype)
}

fn constant_of_shape(
    call: &Call<'_>,
    form: Form,
    shape: &[usize],
    value: f64,
    dtype: DataType,
) -> Option<Form> {
    // `bfloat16` was added in opset 20.
    if !dtype.is_compute() || (dtype == DataType::BF16 && call.opset < 20) {
        return None;
    }
    let value = cast(&TensorData::new(&[1], &[value]).ok()?, dtype, Rounding::default()).ok()?;
    // The operator's only operand is the shape, which is `i64`.
    let form = Form { subject: Some(DataType::I64), ..form.inputs([Operand::Ints(signed(shape)?)]) };
    Some(form.attribute("value", &Param::Data(Cow::Owned(value))))
}

fn expand(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Extents(shape)] = call.params else { return None };
    Some(form.inputs([Operand::Given(0), Operand::Ints(signed(shape)?)]))
}

/// Writes random operators. Runtimes generate different numbers from the same seed, so only calls without a seed are
/// exported.
fn random(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    call.params.contains(&Param::OptInt(None)).then(|| same(call, form, names))?
}

fn top_k(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let [Param::Int(k), rest @ ..] = call.params else { return None };
    let form = form.inputs([Operand::Given(0), Operand::Ints(vec![*k])]);
    Some(names.iter().skip(1).zip(rest).fold(form, |form, (name, param)| form.attribute(name, param)))
}

fn scatter(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let since = |reduction: &str| match reduction {
        "none" => 11,
        "add" | "mul" => 16,
        _ => 18,
    };
    let mut form = form;
    for (name, param) in names.iter().zip(call.params) {
        match param {
            Param::Text(reduction) if since(reduction) > call.opset => return None,
            // The attribute was added in opset 16.
            Param::Text(_) if call.opset < 16 => {}
            _ => form = form.attribute(name, param),
        }
    }
    Some(form)
}

fn scatter_nd(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let (indices, _) = call.operand(1)?;
    (indices == DataType::I64).then(|| scatter(call, form, names))?
}

fn bit_cast(call: &Call<'_>, form: Form, names: &[&'static str]) -> Option<Form> {
    let [Param::Type(to)] = call.params else { return None };
    call.takes("BitCast", *to).then(|| same(call, form, names))?
}

/// Writes `GridSample`. Before opset 20 images must have two dimensions, and the modes have other names.
fn grid_sample(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Text(mode), Param::Text(padding), align] = call.params else { return None };
    let (_, rank) = call.operand(0)?;
    if call.opset < 20 && rank != 4 {
        return None;
    }
    let mode = match mode.as_ref() {
        "linear" if call.opset < 20 => "bilinear",
        "cubic" if call.opset < 20 => "bicubic",
        mode => mode,
    };
    Some(form.text("mode", mode).text("padding_mode", padding).attribute("align_corners", align))
}

/// Writes `RoiAlign`. Before opset 16 coordinates are not shifted by half a pixel.
fn roi_align(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Extents(bins), ratio, scale, Param::Float(shift), Param::Bool(max)] = call.params else {
        return None;
    };
    let &[rows, columns] = signed(bins)?.as_slice() else { return None };
    let (images, _) = call.operand(2)?;
    let transformation = match *shift {
        0.0 => "output_half_pixel",
        0.5 if call.opset >= 16 => "half_pixel",
        _ => return None,
    };
    if images != DataType::I64 || !call.exact(scale) {
        return None;
    }
    let form = form
        .attribute("output_height", &Param::Int(rows))
        .attribute("output_width", &Param::Int(columns))
        .attribute("sampling_ratio", ratio)
        .attribute("spatial_scale", scale)
        .text("mode", if *max { "max" } else { "avg" });
    let named = call.opset >= 16;
    Some(if named { form.text("coordinate_transformation_mode", transformation) } else { form })
}

fn max_roi_pool(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [bins, scale] = call.params else { return None };
    let form = form.attribute("pooled_shape", bins).attribute("spatial_scale", scale);
    call.exact(scale).then_some(form)
}

/// Writes `DFT`. Since opset 20 the axis is an operand, which defaults to the last but one axis. Later opsets added the
/// inverse of a one-sided transform.
fn dft(call: &Call<'_>, form: Form, _: &[&'static str]) -> Option<Form> {
    let [Param::Int(length), inverse, onesided] = call.params else { return None };
    if call.opset < 20 || (*inverse == Param::Bool(true) && *onesided == Param::Bool(true)) {
        return None;
    }
    let form = form.inputs([Operand::Given(0), Operand::Scalar(*length)]);
    Some(form.attribute("inverse", inverse).attribute("onesided", onesided))
}

fn signed(extents: &[usize]) -> Option<Vec<i64>> {
    extents.iter().map(|&d| i64::try_from(d).ok()).collect()
}
