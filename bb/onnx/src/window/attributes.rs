//! The attributes of sliding windows, as a node states them and with all defaults filled in.

use crate::attributes::Attributes;
use bb_core::ext::Extent;
use bb_core::ext::window::REACH;
use bb_core::operator::Call;
use bb_core::{Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::{self, Padding, Step};

/// The strides, dilations and padding of windows, as a node states them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Movement<'a> {
    pub(crate) strides: Option<&'a [i64]>,
    pub(crate) dilations: Option<&'a [i64]>,
    pub(crate) pads: Option<&'a [i64]>,
    auto_pad: &'a str,
}

impl<'a> Movement<'a> {
    /// Reads the attributes of a node.
    pub(crate) fn of<A: Attributes<'a>>(node: &A) -> Result<Movement<'a>, A::Error> {
        Ok(Movement {
            strides: node.ints("strides")?,
            dilations: node.ints("dilations")?,
            pads: node.ints("pads")?,
            auto_pad: node.text_or("auto_pad", "NOTSET")?,
        })
    }

    /// Returns the padding mode; `None` if `auto_pad` has an unknown value.
    pub(crate) fn padding(&self) -> Option<Padding> {
        Padding::of(self.auto_pad)
    }

    /// Returns the step of the window along each axis of a kernel, if the attributes have one number per
    /// axis.
    pub(crate) fn steps(&self, kernel: &[Dim]) -> Option<Vec<Step<Dim>>> {
        let list = |list: Option<&'a [i64]>| list.unwrap_or_default();
        Some(Step::of(kernel, list(self.strides), list(self.pads), list(self.dilations))?.collect())
    }

    /// Returns the number of windows along each spatial axis, if it can be determined.
    pub(super) fn counts(&self, spatial: &[Dim], kernel: &[Dim], ceil: bool) -> Option<Vec<Dim>> {
        let (steps, padding) = (self.steps(kernel)?, self.padding()?);
        infer::windows(spatial, &steps, padding, ceil).map(infer::Extents::into_vec)
    }
}

/// The attributes that convolution and pooling share, with all defaults filled in.
pub(super) struct Sliding {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) pads: Vec<i64>,
}

/// Reads a window attribute with `count` numbers. If it is omitted, each number is the default.
pub(crate) fn numbers<T>(
    call: &Call<'_, T>,
    name: &str,
    count: usize,
    default: i64,
) -> Result<Vec<i64>, Error> {
    filled(call, (name, call.ints(name)?), count, default)
}

/// Returns the `count` numbers of a window attribute. If it is omitted, each number is the default.
pub(super) fn filled<T>(
    call: &Call<'_, T>,
    (name, given): (&str, Option<&[i64]>),
    count: usize,
    default: i64,
) -> Result<Vec<i64>, Error> {
    let list = given.map_or_else(|| vec![default; count], <[i64]>::to_vec);
    if list.len() != count {
        return Err(call.wrong(name, format!("has {} numbers, expected {count}", list.len())));
    }
    in_reach(call, name, &list)?;
    Ok(list)
}

/// Returns the strides and dilations, which must be positive.
pub(super) fn steps<T>(
    call: &Call<'_, T>,
    movement: &Movement<'_>,
    n: usize,
) -> Result<(Vec<i64>, Vec<i64>), Error> {
    let forwards = |name: &str, given| {
        let list = filled(call, (name, given), n, 1)?;
        match list.iter().find(|&&v| v < 1) {
            Some(v) => Err(call.wrong(name, format!("has {v}, expected a positive number"))),
            None => Ok(list),
        }
    };
    Ok((forwards("strides", movement.strides)?, forwards("dilations", movement.dilations)?))
}

/// Returns the padding mode, or an error if `auto_pad` has an unknown value.
pub(super) fn padding<T>(call: &Call<'_, T>, movement: &Movement<'_>) -> Result<Padding, Error> {
    movement.padding().ok_or_else(|| {
        let word = movement.auto_pad;
        let problem = format!("is `{word}`, expected `NOTSET`, `SAME_UPPER`, `SAME_LOWER` or `VALID`");
        call.wrong("auto_pad", problem)
    })
}

/// Refuses numbers that are so large that sums of their products would overflow 64 bits.
pub(super) fn in_reach<T>(call: &Call<'_, T>, name: &str, list: &[i64]) -> Result<(), Error> {
    match list.iter().find(|v| v.unsigned_abs() >= REACH) {
        Some(v) => Err(call.wrong(name, format!("has {v}, expected less than {REACH}"))),
        None => Ok(()),
    }
}

/// Refuses extents that are too large in the sense of [`in_reach`].
pub(super) fn extents_in_reach<T>(call: &Call<'_, T>, x: &[Extent]) -> Result<(), Error> {
    let extents: Vec<i64> = x.iter().map(Extent::present).collect();
    in_reach(call, "an operand's shape", &extents)
}

/// Fills in omitted attributes, and replaces `auto_pad` by explicit paddings.
pub(super) fn sliding<T>(
    call: &Call<'_, T>,
    movement: &Movement<'_>,
    x: &[Extent],
    kernel: Vec<i64>,
) -> Result<Sliding, Error> {
    let n = kernel.len();
    in_reach(call, "kernel_shape", &kernel)?;
    if let Some(extent) = kernel.iter().find(|&&extent| extent < 1) {
        return Err(call.wrong("kernel_shape", format!("has {extent}, expected a positive number")));
    }
    extents_in_reach(call, x)?;
    if x.len() != n + 2 {
        return Err(call.wrong("kernel_shape", format!("has {n} extents; the operand has rank {}", x.len())));
    }
    let (strides, dilations) = steps(call, movement, n)?;
    let lower = match padding(call, movement)? {
        Padding::Given => {
            let pads = filled(call, ("pads", movement.pads), 2 * n, 0)?;
            return Ok(Sliding { kernel, strides, dilations, pads });
        }
        Padding::None => return Ok(Sliding { kernel, strides, dilations, pads: vec![0; 2 * n] }),
        Padding::Same { lower } => lower,
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let lists = x.iter().skip(2).zip(&kernel).zip(strides.iter().zip(&dilations));
    for ((extent, &kernel), (&stride, &dilation)) in lists {
        let step = Step { kernel, stride, dilation, before: 0, after: 0 };
        // With a stride of 1, the paddings depend only on the window, not on the extent.
        let extent = if stride == 1 { 1 } else { extent.number() };
        // Extents below the limit have a sum that fits 64 bits.
        let (start, end) = step.same_pads(&extent, lower).unwrap_or_default();
        before.push(start);
        after.push(end);
    }
    before.extend(after);
    Ok(Sliding { kernel, strides, dilations, pads: before })
}

/// Returns the spatial extents of the filters, and checks `kernel_shape` against them.
pub(crate) fn filter_kernel<T: Tensor>(call: &Call<'_, T>, w: &T) -> Result<Vec<i64>, Error> {
    let own: Vec<i64> = w.shape().iter().skip(2).map(|&d| d as i64).collect();
    match call.ints("kernel_shape")? {
        Some(given) if given != own => {
            Err(call.wrong("kernel_shape", format!("is {given:?}; the filters' is {own:?}")))
        }
        _ => Ok(own),
    }
}
