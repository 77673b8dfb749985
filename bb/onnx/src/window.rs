//! Convolution and pooling, whose attributes are resolved here.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::window::{REACH, Windows, max_pool_positions, windows};
use bb_core::ext::{
    AveragePoolOptions, ConvIntegerOptions, ConvOptions, ConvTransposeOptions, Extent, MaxPoolOptions, Ops,
    math,
};
use bb_core::operator::{Call, OpResult, one};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, At, Types};
use bb_ir::infer::{self, Padding, Step};
use bb_ir::memory;
use smallvec::smallvec;

operators! {
    "" {
        AveragePool => Primitives(average_pool), infer: By(pool_types), becomes: NnOp::AveragePool, halves: Once;
        Conv => Primitives(conv), infer: By(conv_types), becomes: NnOp::Conv, halves: Once;
        ConvInteger => Primitives(conv_integer), infer: By(conv_integer_types), becomes: QuantOp::ConvInteger, halves: Once;
        ConvTranspose => Primitives(conv_transpose), infer: By(conv_transpose_types), becomes: NnOp::ConvTranspose, halves: Once;
        GlobalAveragePool => Primitives(global_average_pool), infer: By(global_pool_types), halves: Once;
        GlobalLpPool => Primitives(global_lp_pool), infer: By(global_pool_types);
        GlobalMaxPool => Primitives(global_max_pool), infer: By(global_pool_types), halves: Moves;
        LpPool => Primitives(lp_pool), infer: By(pool_types);
        MaxPool => Primitives(max_pool), infer: By(pool_types), becomes: NnOp::MaxPool, halves: Moves;
    }
}

/// The attributes that convolution and pooling share, in full.
struct Sliding {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
}

impl Sliding {
    /// Returns the options of an average over the windows.
    fn averaging(&self, ceil: bool, count_pad: bool) -> AveragePoolOptions<'_> {
        let Sliding { strides, pads, dilations, .. } = self;
        AveragePoolOptions { strides, pads, dilations, ceil, count_pad }
    }
}

/// Reads a list of `count` numbers that describe windows; where it is left out, each is the default.
pub(super) fn numbers<T>(
    call: &Call<'_, T>,
    name: &str,
    count: usize,
    default: i64,
) -> Result<Vec<i64>, Error> {
    let list = call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
    if list.len() != count {
        return Err(call.wrong(name, format!("has {} numbers, expected {count}", list.len())));
    }
    in_reach(call, name, &list)?;
    Ok(list)
}

/// Reads the steps of windows and those of the kernels in them, which go forwards.
fn steps<T>(call: &Call<'_, T>, n: usize) -> Result<(Vec<i64>, Vec<i64>), Error> {
    let forwards = |name: &str| {
        let list = numbers(call, name, n, 1)?;
        match list.iter().find(|&&v| v < 1) {
            Some(v) => Err(call.wrong(name, format!("has {v}, expected a positive number"))),
            None => Ok(list),
        }
    };
    Ok((forwards("strides")?, forwards("dilations")?))
}

/// Reads who says how much padding there is.
fn padding<T>(call: &Call<'_, T>) -> Result<Padding, Error> {
    let word = call.text_or("auto_pad", "NOTSET")?;
    Padding::of(word).ok_or_else(|| {
        let problem = format!("is `{word}`, expected `NOTSET`, `SAME_UPPER`, `SAME_LOWER` or `VALID`");
        call.wrong("auto_pad", problem)
    })
}

/// Refuses numbers so large that sums of their products are beyond 64 bits.
fn in_reach<T>(call: &Call<'_, T>, name: &str, list: &[i64]) -> Result<(), Error> {
    match list.iter().find(|v| v.unsigned_abs() >= REACH) {
        Some(v) => Err(call.wrong(name, format!("has {v}, expected less than {REACH}"))),
        None => Ok(()),
    }
}

/// Refuses extents as [`in_reach`] refuses numbers.
fn extents_in_reach<T>(call: &Call<'_, T>, x: &[Extent]) -> Result<(), Error> {
    let extents: Vec<i64> = x.iter().map(Extent::present).collect();
    in_reach(call, "an operand's shape", &extents)
}

/// Resolves attributes that are left out, and `auto_pad`.
fn sliding<T>(call: &Call<'_, T>, x: &[Extent], kernel: Vec<i64>) -> Result<Sliding, Error> {
    let n = kernel.len();
    in_reach(call, "kernel_shape", &kernel)?;
    if let Some(extent) = kernel.iter().find(|&&extent| extent < 1) {
        return Err(call.wrong("kernel_shape", format!("has {extent}, expected a positive number")));
    }
    extents_in_reach(call, x)?;
    if x.len() != n + 2 {
        return Err(call.wrong("kernel_shape", format!("has {n} extents; the operand has rank {}", x.len())));
    }
    let (strides, dilations) = steps(call, n)?;
    let lower = match padding(call)? {
        Padding::Given => {
            let pads = numbers(call, "pads", 2 * n, 0)?;
            return Ok(Sliding { kernel, strides, dilations, pads });
        }
        Padding::None => return Ok(Sliding { kernel, strides, dilations, pads: vec![0; 2 * n] }),
        Padding::Same { lower } => lower,
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let lists = x.iter().skip(2).zip(&kernel).zip(strides.iter().zip(&dilations));
    for ((extent, &kernel), (&stride, &dilation)) in lists {
        let step = Step { kernel, stride, dilation, before: 0, after: 0 };
        // Without strides the paddings are what the window adds, whatever the extent is.
        let extent = if stride == 1 { 1 } else { extent.number() };
        // What is in reach has a sum in 64 bits.
        let (start, end) = step.same_pads(&extent, lower).unwrap_or_default();
        before.push(start);
        after.push(end);
    }
    before.extend(after);
    Ok(Sliding { kernel, strides, dilations, pads: before })
}

/// The kernel that the filters have.
pub(super) fn filter_kernel<T: Tensor>(call: &Call<'_, T>, w: &T) -> Result<Vec<i64>, Error> {
    let own: Vec<i64> = w.shape().iter().skip(2).map(|&d| d as i64).collect();
    match call.ints("kernel_shape")? {
        Some(given) if given != own => {
            Err(call.wrong("kernel_shape", format!("is {given:?}; the filters' is {own:?}")))
        }
        _ => Ok(own),
    }
}

/// Reads `group`: into how many parts the channels of the operand and the filters are divided, each with filters of its
/// own. `back` is for a transposed convolution, whose filters go from the operand's channels.
fn groups<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
    w: &B::Tensor,
    back: bool,
) -> Result<i64, Error> {
    let group = call.int_or("group", 1)?;
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

/// The kernel that the attribute says.
fn given_kernel<T: Tensor>(call: &Call<'_, T>) -> Result<Vec<i64>, Error> {
    call.ints("kernel_shape")?
        .map(<[i64]>::to_vec)
        .ok_or_else(|| call.wrong("kernel_shape", "is missing; the operator needs it"))
}

/// Reads how a window of these extents moves, and who says how much padding there is.
pub(crate) fn moved_windows(at: At<'_>, kernel: &[Dim]) -> Option<(Vec<Step<Dim>>, Padding)> {
    let list = |name| at.ints(name).unwrap_or_default();
    let steps = Step::of(kernel, list("strides"), list("pads"), list("dilations"))?;
    Some((steps.collect(), Padding::of(at.text("auto_pad", "NOTSET")?)?))
}

fn counted_windows(at: At<'_>, spatial: &[Dim], kernel: &[Dim], ceil: bool) -> Option<Vec<Dim>> {
    let (steps, padding) = moved_windows(at, kernel)?;
    infer::windows(spatial, &steps, padding, ceil).map(infer::Extents::into_vec)
}

/// The extents of the convolution of `x` with the kernels that are the operand `weights`.
pub(crate) fn conv_shape(at: At<'_>, x: &[Dim], weights: usize) -> Option<Vec<Dim>> {
    let [n, _, spatial @ ..] = x else { return None };
    let [channels, _, kernel @ ..] = at.dims(weights)? else { return None };
    Some([&[n.clone(), channels.clone()], counted_windows(at, spatial, kernel, false)?.as_slice()].concat())
}

pub(super) fn conv_types(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| conv_shape(at, x, 1)))
}

/// `Conv`.
pub(super) fn conv<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(plain_conv(on, call, call.input(0)?, call.input(1)?, call.optional(2))?))
}

/// A convolution of operands that are not the call's own, with the call's attributes.
pub(super) fn plain_conv<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
    w: &B::Tensor,
    bias: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    with_conv_options(on, call, x, w, |options| on.conv(x, w, bias, options))
}

/// Calls a convolution with what the call's attributes say of these operands.
pub(super) fn with_conv_options<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
    w: &B::Tensor,
    f: impl FnOnce(ConvOptions<'_>) -> Result<B::Tensor, B::Error>,
) -> Result<B::Tensor, B::Error> {
    let group = groups(on, call, x, w, false)?;
    let s = sliding(call, &on.extents(x), filter_kernel(call, w)?)?;
    f(ConvOptions { strides: &s.strides, pads: &s.pads, dilations: &s.dilations, group })
}

fn conv_integer_types(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), at.dims(0).and_then(|x| conv_shape(at, x, 1)))
}

/// `ConvInteger`.
pub(super) fn conv_integer<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let y = with_conv_options(on, call, x, w, |ConvOptions { strides, pads, dilations, group }| {
        let options = ConvIntegerOptions { strides, pads, dilations, group };
        on.conv_integer(x, w, None, call.optional(2), call.optional(3), options)
    })?;
    Ok(one(y))
}

/// What a transposed convolution with these steps makes of the spatial extents.
pub(crate) fn grown(at: At<'_>, spatial: &[Dim], steps: &[Step<Dim>], padding: Padding) -> Option<Vec<Dim>> {
    let more = at.ints("output_padding").filter(|v| !v.is_empty());
    let more = more.map_or_else(|| vec![0; steps.len()], <[i64]>::to_vec);
    if more.len() != steps.len() || spatial.len() != steps.len() {
        return None;
    }
    let lists = spatial.iter().zip(steps).zip(more);
    Some(lists.map(|((extent, step), more)| rule::told(step.grown(extent, padding, more))).collect())
}

fn conv_transpose_types(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, _, spatial @ ..] = at.dims(0)? else { return None };
        let [_, channels, kernel @ ..] = at.dims(1)? else { return None };
        let channels = rule::scaled(channels, at.int("group", 1)?);
        let spatial: Vec<Dim> = if let Some(given) = at.ints("output_shape").filter(|s| !s.is_empty()) {
            // Some list the extents of all dimensions.
            let from = given.len().checked_sub(kernel.len()).filter(|_| spatial.len() == kernel.len())?;
            given.get(from..)?.iter().map(|&d| rule::extent(d)).collect()
        } else {
            let (steps, padding) = moved_windows(at, kernel)?;
            grown(at, spatial, &steps, padding)?
        };
        Some([&[n.clone(), channels], spatial.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `ConvTranspose`.
pub(super) fn conv_transpose<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(plain_conv_transpose(on, call, None, call.optional(2))?))
}

/// A transposed convolution with the call's attributes; `output_shape` determines the paddings, unless they are given.
pub(super) fn plain_conv_transpose<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    given: Option<Vec<i64>>,
    bias: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let group = groups(on, call, x, w, true)?;
    let kernel = filter_kernel(call, w)?;
    extents_in_reach(call, &on.extents(x))?;
    extents_in_reach(call, &on.extents(w))?;
    let n = kernel.len();
    let padding = padding(call)?;
    let (strides, dilations) = steps(call, n)?;
    let extra = numbers(call, "output_padding", n, 0)?;
    let same = matches!(padding, Padding::Same { .. });
    let wanted: Option<Vec<i64>> = match call.ints("output_shape")? {
        // Some models give all dimensions rather than the spatial ones.
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
        None => numbers(call, "pads", 2 * n, 0)?,
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
                // What is in reach has a sum in 64 bits.
                let total = step.grown(&(extent as i64), Padding::None, extra).unwrap_or_default() - wanted;
                let less = total.div_euclid(2);
                // Where the halves differ, the larger one is at the start unless `SAME_UPPER`.
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

pub(crate) fn told_kernel(at: At<'_>) -> Option<Vec<Dim>> {
    Some(at.ints("kernel_shape")?.iter().map(|&k| rule::extent(k)).collect())
}

/// What pooling makes of these extents, the channels second.
pub(crate) fn pool_shape(at: At<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let [n, c, spatial @ ..] = x else { return None };
    let pooled = counted_windows(at, spatial, &told_kernel(at)?, at.int("ceil_mode", 0)? != 0)?;
    Some([&[n.clone(), c.clone()], pooled.as_slice()].concat())
}

pub(super) fn pool_types(at: At<'_>) -> Option<Types> {
    let shape = at.dims(0).and_then(|x| pool_shape(at, x));
    Some(vec![rule::tensor(at.dtype(0), shape.clone()), rule::tensor(Some(DataType::I64), shape)])
}

/// `MaxPool`, with the positions of the maxima where they are wanted.
pub(super) fn max_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let y = plain_max_pool(on, call, x)?;
    if !call.wants(1) {
        return Ok(one(y));
    }
    let s = sliding(call, &on.extents(x), given_kernel(call)?)?;
    let ceil = call.flag("ceil_mode", false)?;
    let positions =
        max_pool_positions(on, x, &resolved(call, x, &s, ceil)?, call.flag("storage_order", false)?)?;
    Ok(smallvec![Some(y), Some(positions)])
}

/// The maxima of an operand that is not the call's own, with the call's attributes.
pub(super) fn plain_max_pool<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let s = sliding(call, &on.extents(x), given_kernel(call)?)?;
    let ceil = call.flag("ceil_mode", false)?;
    let options = MaxPoolOptions { strides: &s.strides, pads: &s.pads, dilations: &s.dilations, ceil };
    on.max_pool(x, &s.kernel, options)
}

fn resolved<T: Tensor>(call: &Call<'_, T>, x: &T, s: &Sliding, ceil: bool) -> Result<Vec<Windows>, Error> {
    let kernel: Option<Vec<usize>> = s.kernel.iter().map(|&k| usize::try_from(k).ok()).collect();
    let kernel = kernel.ok_or_else(|| call.wrong("kernel_shape", "has a negative extent"))?;
    windows("pool", x.shape(), &kernel, &s.strides, &s.pads, &s.dilations, ceil)
}

/// `AveragePool`.
pub(super) fn average_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(plain_average_pool(on, call, call.input(0)?)?))
}

/// An average of an operand that is not the call's own, with the call's attributes.
pub(super) fn plain_average_pool<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let s = sliding(call, &on.extents(x), given_kernel(call)?)?;
    let (ceil, count) = (call.flag("ceil_mode", false)?, call.flag("count_include_pad", false)?);
    on.average_pool(x, &s.kernel, s.averaging(ceil, count))
}

/// `LpPool`: the norm of each window.
pub(super) fn lp_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let s = sliding(call, &on.extents(x), given_kernel(call)?)?;
    let p = norm_order(call)?;
    let powers = on.pow(&on.abs(x)?, &on.scalar_like(x, p)?)?;
    let ceil = call.flag("ceil_mode", false)?;
    let mean = on.average_pool(&powers, &s.kernel, s.averaging(ceil, false))?;
    // The mean counts what lies in the operand; that count times the mean is the sum.
    let (counts, filled) = window_counts(on, call, x, &s)?;
    let mut sum = on.mul(&mean, &counts)?;
    if !filled {
        let zero = on.scalar_like(x, 0.0)?;
        sum = on.r#where(&on.equal(&counts, &zero)?, &zero, &sum)?;
    }
    Ok(one(on.pow(&sum, &on.scalar_like(x, 1.0 / p)?)?))
}

/// How many places of each window lie in the operand, and whether all have one there.
fn window_counts<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
    s: &Sliding,
) -> Result<(B::Tensor, bool), B::Error> {
    let all = resolved(call, x, s, call.flag("ceil_mode", false)?)?;
    let (mut product, mut filled) = (on.scalar_like(x, 1.0)?, true);
    for (i, w) in all.iter().enumerate() {
        let inside =
            |o: usize| (0..w.kernel).filter(|&k| (0..w.extent as i64).contains(&w.position(k, o))).count();
        let counts = (0..w.out).map(|o| inside(o) as f64);
        let counts = memory::collected("pool", counts).map_err(Error::from)?;
        filled &= !counts.contains(&0.0);
        let mut shape = vec![1; all.len() - i];
        if let Some(first) = shape.first_mut() {
            *first = w.out;
        }
        product = on.mul(&product, &math::to(on, &on.host(&shape, &counts)?, x.dtype())?)?;
    }
    Ok((product, filled))
}

/// Reads `p`, which opset 1 has as a float.
fn norm_order<T: Tensor>(call: &Call<'_, T>) -> Result<f64, Error> {
    if call.opset() < 2 { call.float_or("p", 2.0) } else { Ok(call.int_or("p", 2)? as f64) }
}

/// The spatial dimensions.
fn spatial<T: Tensor>(x: &T) -> Vec<i64> {
    (2..x.rank() as i64).collect()
}

pub(crate) fn global_pool_shape(x: &[Dim]) -> Option<Vec<Dim>> {
    let [n, c, spatial @ ..] = x else { return None };
    Some([&[n.clone(), c.clone()], vec![Dim::Known(1); spatial.len()].as_slice()].concat())
}

pub(super) fn global_pool_types(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(global_pool_shape))
}

/// `GlobalMaxPool`.
pub(super) fn global_max_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    Ok(one(on.reduce_max(x, &spatial(x), true)?))
}

/// `GlobalAveragePool`.
pub(super) fn global_average_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    Ok(one(on.reduce_mean(x, &spatial(x), true)?))
}

/// `GlobalLpPool`.
pub(super) fn global_lp_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let p = norm_order(call)?;
    let powers = on.pow(&on.abs(x)?, &on.scalar_like(x, p)?)?;
    let sum = on.reduce_sum(&powers, &spatial(x), true)?;
    Ok(one(on.pow(&sum, &on.scalar_like(x, 1.0 / p)?)?))
}
