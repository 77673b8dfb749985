//! Convolution and transposed convolution.

use super::attributes::{
    Movement, extents_in_reach, filled, filter_kernel, in_reach, padding, sliding, steps,
};
use crate::attributes::Attributes;
use crate::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{ConvIntegerOptions, ConvOptions, ConvTransposeOptions};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::infer::{Padding, Step};

operators! {
    "" {
        Conv => Primitives(conv), infer: By(conv_types), becomes: NnOp::Conv, halves: Once;
        ConvInteger => Primitives(conv_integer), infer: By(conv_integer_types), becomes: QuantOp::ConvInteger, halves: Once;
        ConvTranspose => Primitives(conv_transpose), infer: By(conv_transpose_types), becomes: NnOp::ConvTranspose, halves: Once;
    }
}

/// Reads `group`, the number of groups of channels.
fn group<'a, A: Attributes<'a>>(node: &A) -> Result<i64, A::Error> {
    node.int_or("group", 1)
}

/// Reads `group`, the number of groups that the channels of the operand and the filters are divided into, and checks
/// it. `back` is true for a transposed convolution, whose filters have the operand's channels first.
fn groups(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    w: &TracedTensor,
    back: bool,
) -> Result<i64, Error> {
    let group = group(call)?;
    let Some(count) = usize::try_from(group).ok().filter(|&count| count > 0) else {
        return Err(call.wrong("group", format!("is {group}, expected a positive number")));
    };
    if w.rank() != x.rank() {
        let problem = format!("have rank {}; the operand has rank {}", w.rank(), x.rank());
        return Err(call.wrong(NodePart::other("the filters"), problem));
    }
    let (2.., &[filters, of, ..]) = (x.rank(), w.shape()) else {
        return Err(
            call.wrong(NodePart::other("the operand"), format!("has rank {}, expected at least 2", x.rank()))
        );
    };
    let channels = usize::try_from(on.extent(x, 1).number()).unwrap_or(0);
    if channels % count != 0 {
        return Err(call
            .wrong("group", format!("is {count}, which does not divide the operand's {channels} channels")));
    }
    if back {
        return match filters == channels {
            true => Ok(group),
            false => {
                let problem = format!("are for {filters} channels; the operand has {channels}");
                Err(call.wrong(NodePart::other("the filters"), problem))
            }
        };
    }
    if of != channels / count {
        let problem = format!(
            "are for {of} channels each; the operand has {channels} in {count} {}, which is {} each",
            if count == 1 { "group" } else { "groups" },
            channels / count
        );
        return Err(call.wrong(NodePart::other("the filters"), problem));
    }
    if filters % count != 0 {
        return Err(call.wrong("group", format!("is {count}, which does not divide the {filters} filters")));
    }
    Ok(group)
}

/// Infers the shape of the convolution of `x` with the filters in the operand `weights`.
pub fn conv_shape(at: NodeFacts<'_>, x: &[Dim], weights: usize) -> Option<Vec<Dim>> {
    conv_shape_of(at, x, at.dims(weights)?)
}

/// Infers the shape of the convolution of `x` with filters of the shape `weights`.
pub fn conv_shape_of(at: NodeFacts<'_>, x: &[Dim], weights: &[Dim]) -> Option<Vec<Dim>> {
    let [n, _, spatial @ ..] = x else { return None };
    let [channels, _, kernel @ ..] = weights else { return None };
    let counts = Movement::of(&at).ok()?.counts(spatial, kernel, false)?;
    Some([&[n.clone(), channels.clone()], counts.as_slice()].concat())
}

/// Infers the type of `Conv`.
pub fn conv_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| conv_shape(at, x, 1)))
}

/// `Conv`.
pub(crate) fn conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(plain_conv(on, call, call.input(0)?, call.input(1)?, call.optional(2))?))
}

/// Convolves tensors other than the call's operands, with the call's attributes.
pub fn plain_conv(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    with_conv_options(on, call, x, w, |options| on.conv(x, w, bias, options))
}

/// Calls a convolution with the options that follow from the call's attributes and these operands.
pub(crate) fn with_conv_options(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    w: &TracedTensor,
    f: impl FnOnce(ConvOptions<'_>) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let group = groups(on, call, x, w, false)?;
    let s = sliding(call, &Movement::of(call)?, &on.extents(x), filter_kernel(call, w)?)?;
    f(ConvOptions { strides: &s.strides, pads: &s.pads, dilations: &s.dilations, group })
}

fn conv_integer_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), at.dims(0).and_then(|x| conv_shape(at, x, 1)))
}

/// `ConvInteger`.
pub(crate) fn conv_integer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let y = with_conv_options(on, call, x, w, |ConvOptions { strides, pads, dilations, group }| {
        let options = ConvIntegerOptions { strides, pads, dilations, group };
        on.conv_integer(x, w, None, call.optional(2), call.optional(3), options)
    })?;
    Ok(one(y))
}

/// The attributes of a transposed convolution, as a node states them.
struct Transposed<'a> {
    movement: Movement<'a>,
    output_padding: Option<&'a [i64]>,
    output_shape: Option<&'a [i64]>,
}

impl<'a> Transposed<'a> {
    fn of<A: Attributes<'a>>(node: &A) -> Result<Transposed<'a>, A::Error> {
        let movement = Movement::of(node)?;
        let (output_padding, output_shape) = (node.ints("output_padding")?, node.ints("output_shape")?);
        Ok(Transposed { movement, output_padding, output_shape })
    }

    /// Returns the spatial extents of the result of a transposed convolution, if `output_shape` does not specify them.
    fn grown(&self, spatial: &[Dim], kernel: &[Dim]) -> Option<Vec<Dim>> {
        let (steps, padding) = (self.movement.steps(kernel)?, self.movement.padding()?);
        let more = self.output_padding.filter(|v| !v.is_empty());
        let more = more.map_or_else(|| vec![0; steps.len()], <[i64]>::to_vec);
        if more.len() != steps.len() || spatial.len() != steps.len() {
            return None;
        }
        let lists = spatial.iter().zip(steps).zip(more);
        Some(lists.map(|((extent, step), more)| rule::told(step.grown(extent, padding, more))).collect())
    }
}

/// Infers the shape of a transposed convolution of operand 0. `spatial` computes the spatial extents.
fn transposed(
    at: NodeFacts<'_>,
    spatial: impl FnOnce(&[Dim], &[Dim]) -> Option<Vec<Dim>>,
) -> Option<Vec<Dim>> {
    let [n, _, extents @ ..] = at.dims(0)? else { return None };
    let [_, channels, kernel @ ..] = at.dims(1)? else { return None };
    let channels = rule::scaled(channels, group(&at).ok()?);
    Some([&[n.clone(), channels], spatial(extents, kernel)?.as_slice()].concat())
}

/// Infers the shape of a transposed convolution whose paddings are `pads` instead of an attribute. The spatial extents
/// are unknown if `pads` is `None`.
pub fn transposed_shape(at: NodeFacts<'_>, pads: Option<&[i64]>) -> Option<Vec<Dim>> {
    transposed(at, |spatial, kernel| {
        let known = || {
            let mut attributes = Transposed::of(&at).ok()?;
            attributes.movement.pads = Some(pads?);
            attributes.grown(spatial, kernel)
        };
        Some(known().unwrap_or_else(|| vec![Dim::Unknown; kernel.len()]))
    })
}

fn conv_transpose_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = transposed(at, |spatial, kernel| {
        let attributes = Transposed::of(&at).ok()?;
        let Some(given) = attributes.output_shape.filter(|s| !s.is_empty()) else {
            return attributes.grown(spatial, kernel);
        };
        // Some models list the extents of all dimensions, not only the spatial ones.
        let from = given.len().checked_sub(kernel.len()).filter(|_| spatial.len() == kernel.len())?;
        Some(given.get(from..)?.iter().map(|&d| rule::extent(d)).collect())
    });
    at.one(at.dtype(0), shape)
}

/// `ConvTranspose`.
pub(crate) fn conv_transpose(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(plain_conv_transpose(on, call, None, call.optional(2))?))
}

/// Computes a transposed convolution with the call's attributes. `given` has the paddings; without it, they follow from
/// `output_shape` or the attributes.
pub fn plain_conv_transpose(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    given: Option<Vec<i64>>,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let group = groups(on, call, x, w, true)?;
    let kernel = filter_kernel(call, w)?;
    extents_in_reach(call, &on.extents(x))?;
    extents_in_reach(call, &on.extents(w))?;
    let n = kernel.len();
    let Transposed { movement, output_padding, output_shape } = Transposed::of(call)?;
    let padding = padding(call, &movement)?;
    let (strides, dilations) = steps(call, &movement, n)?;
    let extra = filled(call, ("output_padding", output_padding), n, 0)?;
    let same = matches!(padding, Padding::Same { .. });
    let wanted: Option<Vec<i64>> = match output_shape {
        // Some models list all dimensions, not only the spatial ones.
        Some(shape) => {
            in_reach(call, "output_shape", shape)?;
            Some(shape.iter().skip(shape.len().saturating_sub(n)).copied().collect())
        }
        None if same => Some(x.shape().iter().skip(2).zip(&strides).map(|(&d, &s)| d as i64 * s).collect()),
        None => None,
    };
    in_reach(call, "pads", given.as_deref().unwrap_or_default())?;
    let pads = match wanted {
        _ if given.as_ref().is_some_and(|pads| pads.len() != 2 * n) => {
            let count = given.map_or(0, |pads| pads.len());
            return Err(call.wrong("pads", format!("has {count} numbers, expected {}", 2 * n)).into());
        }
        None if given.is_some() && padding == Padding::Given => given.unwrap_or_default(),
        None if padding == Padding::None => vec![0; 2 * n],
        None => filled(call, ("pads", movement.pads), 2 * n, 0)?,
        Some(wanted) => {
            const UPPER: Padding = Padding::Same { lower: false };
            let (mut before, mut after) = (Vec::new(), Vec::new());
            let lists = x
                .shape()
                .iter()
                .skip(2)
                .zip(&wanted)
                .zip(kernel.iter().zip(&dilations))
                .zip(strides.iter().zip(&extra));
            for (((&extent, &wanted), (&kernel, &dilation)), (&stride, &extra)) in lists {
                let step = Step { kernel, stride, dilation, before: 0, after: 0 };
                // Extents below the limit have a sum that fits 64 bits.
                let total = step.grown(&(extent as i64), Padding::None, extra).unwrap_or_default() - wanted;
                let less = total.div_euclid(2);
                // If the total padding is odd, the larger half is at the start, except for `SAME_UPPER`.
                before.push(if padding == UPPER { less } else { total - less });
                after.push(if padding == UPPER { total - less } else { less });
            }
            before.extend(after);
            before
        }
    };
    let options = ConvTransposeOptions {
        strides: &strides,
        pads: &pads,
        dilations: &dilations,
        output_padding: &extra,
        group,
    };
    on.conv_transpose(x, w, bias, options)
}
