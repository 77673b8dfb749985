//! Reading images at positions that tensors give: grids, and convolutions whose windows are deformed.

use super::call::{Answer, Call, one};
use crate::ext::sample::{Between, Beyond, sample};
use crate::ext::window::windows;
use crate::ext::{Ops, math};
use crate::{DataType, Error, Tensor};

/// The type in which positions and weighted sums of these are formed.
fn wide(types: [DataType; 2]) -> DataType {
    let exact =
        |t| matches!(t, DataType::F64 | DataType::I32 | DataType::U32 | DataType::I64 | DataType::U64);
    if types.into_iter().any(exact) { DataType::F64 } else { DataType::F32 }
}

/// `GridSample`: the modes had other names before opset 20.
pub(super) fn grid_sample<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let between = match call.text_or("mode", "linear")? {
        "nearest" => Between::Nearest,
        "linear" | "bilinear" => Between::Linear,
        "cubic" | "bicubic" => Between::Cubic,
        other => {
            let problem = format!("is `{other}`, expected `nearest`, `linear` or `cubic`");
            return Err(call.wrong("mode", problem).into());
        }
    };
    let centres = call.flag("align_corners", false)?;
    let beyond = match call.text_or("padding_mode", "zeros")? {
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border { centres },
        "reflection" => Beyond::Mirror { centres },
        other => {
            let problem = format!("is `{other}`, expected `zeros`, `border` or `reflection`");
            return Err(call.wrong("padding_mode", problem).into());
        }
    };
    let ([n, c, dims @ ..], [batch, out @ .., r]) = (x.shape(), grid.shape()) else {
        return Err(call.wrong("operand 1", "has no dimensions").into());
    };
    if n != batch || *r != dims.len() || out.len() != dims.len() || dims.is_empty() {
        let problem = format!("has the shape {:?}, which does not fit {:?}", grid.shape(), x.shape());
        return Err(call.wrong("operand 1", problem).into());
    }
    if between != Between::Nearest && !x.dtype().is_compute() {
        let problem = format!("holds {}, which has no values in between", x.dtype());
        return Err(call.wrong("operand 0", problem).into());
    }
    let shape: Vec<usize> = [*n, *c].into_iter().chain(out.iter().copied()).collect();
    let count: usize = out.iter().product();
    if shape.contains(&0) {
        return Ok(one(on.constant(&crate::ext::sample::blank(x.dtype(), &shape)?)?));
    }
    if dims.contains(&0) {
        return Err(call.wrong("operand 0", "has no elements to sample").into());
    }
    let grid = math::to(on, grid, wide([x.dtype(), grid.dtype()]))?;
    let positions: Vec<B::Tensor> = dims
        .iter()
        .enumerate()
        .map(|(i, &extent)| {
            // The innermost dimension comes first.
            let at = (r - 1 - i) as i64;
            let share = on.slice(&grid, &[at], &[at + 1], &[-1], &[])?;
            let share = on.add(&on.reshape(&share, &[*n, count])?, &on.scalar_like(&grid, 1.0)?)?;
            // -1 and 1 are the outermost centres, or the outermost edges.
            let (steps, shift) = if centres { (extent as f64 - 1.0, 0.0) } else { (extent as f64, -0.5) };
            let scaled = on.mul(&share, &on.scalar_like(&grid, steps / 2.0)?)?;
            on.add(&scaled, &on.scalar_like(&grid, shift)?)
        })
        .collect::<Result<_, _>>()?;
    let y = sample(on, x, &positions, between, beyond)?;
    Ok(one(math::to(on, &on.reshape(&y, &shape)?, x.dtype())?))
}

/// `AffineGrid`: the positions of a grid, each turned by a matrix.
pub(super) fn affine_grid<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let theta = call.input(0)?;
    let size = super::shape::extents(on, call, 1)?;
    let (&[n, rows, columns], [_, _, dims @ ..]) = (theta.shape(), &size[..]) else {
        return Err(call.wrong("operand 0", format!("has rank {}, expected 3", theta.rank())).into());
    };
    if rows != dims.len() || columns != rows + 1 || rows == 0 {
        let problem = format!("is {size:?}, which does not fit matrices of {rows} times {columns}");
        return Err(call.wrong("size", problem).into());
    }
    let centres = call.flag("align_corners", false)?;
    let count = bb_ir::element_count(dims).and_then(|n| n.checked_mul(columns)).filter(|&n| n <= MOST);
    let count =
        count.ok_or_else(|| call.wrong("size", format!("is {size:?}, too many positions")))? / columns;
    let mut points = vec![1.0; count * columns];
    let mut inner = 1;
    // The innermost dimension is the first coordinate.
    for (coordinate, &extent) in dims.iter().rev().enumerate() {
        for (place, point) in points.chunks_mut(columns).enumerate() {
            let i = (place / inner % extent) as f64;
            let value = match (centres, extent) {
                (true, 1) => -1.0,
                (true, _) => -1.0 + 2.0 * i / (extent as f64 - 1.0),
                (false, _) => -1.0 + (2.0 * i + 1.0) / extent as f64,
            };
            if let Some(slot) = point.get_mut(coordinate) {
                *slot = value;
            }
        }
        inner *= extent;
    }
    let y = math::widened(on, theta, DataType::F32, |theta| {
        let points = math::to(on, &on.host(&[count, columns], &points)?, theta.dtype())?;
        on.matmul(&points, &on.transpose(theta, &[0, 2, 1])?)
    })?;
    let shape: Vec<usize> = [n].into_iter().chain(dims.iter().copied()).chain([rows]).collect();
    Ok(one(on.reshape(&y, &shape)?))
}

/// The most numbers that describe a grid.
const MOST: usize = 1 << 26;

/// `DeformConv`: a convolution that reads each place of each window where offsets say.
pub(super) fn deform_conv<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let ([n, c, dims @ ..], [m, depth, kernel @ ..]) = (x.shape(), w.shape()) else {
        return Err(call.wrong("operand 0", "has no channels").into());
    };
    let (n, c, m, rank) = (*n, *c, *m, dims.len());
    let list = |name: &str, count: usize, default: i64| -> Result<Vec<i64>, Error> {
        let list = call.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
        if list.len() == count {
            Ok(list)
        } else {
            Err(call.wrong(name, format!("has {} numbers, expected {count}", list.len())))
        }
    };
    let (strides, dilations, pads) =
        (list("strides", rank, 1)?, list("dilations", rank, 1)?, list("pads", 2 * rank, 0)?);
    let all = windows("deform_conv", x.shape(), kernel, &strides, &pads, &dilations, false)?;
    let groups = |name: &str, parts: &[usize]| -> Result<usize, Error> {
        let count = call.int_or(name, 1)?;
        let fits = |&g: &usize| g > 0 && parts.iter().all(|p| p.is_multiple_of(g));
        let count = usize::try_from(count).ok().filter(fits);
        count.ok_or_else(|| call.wrong(name, format!("does not divide {parts:?} channels")))
    };
    let (group, sets) = (groups("group", &[c, m])?, groups("offset_group", &[c])?);
    let places: usize = kernel.iter().product();
    let out: Vec<usize> = all.iter().map(|w| w.out).collect();
    let count: usize = out.iter().product();
    let shaped = |channels: usize| [n, channels].into_iter().chain(out.iter().copied()).collect::<Vec<_>>();
    if c != depth * group || offset.shape() != shaped(sets * places * rank) {
        let problem =
            format!("has the shape {:?}, expected {:?}", offset.shape(), shaped(sets * places * rank));
        return Err(call.wrong("operand 2", problem).into());
    }
    let float = wide([x.dtype(), offset.dtype()]);
    let offsets = on.reshape(&math::to(on, offset, float)?, &[n * sets, places, rank, count])?;
    let kernel_steps = crate::ext::movement::strides(kernel);
    let out_steps = crate::ext::movement::strides(&out);
    let mut positions = Vec::with_capacity(rank);
    for (i, window) in all.iter().enumerate() {
        let step = |steps: &[i64]| steps.get(i).copied().unwrap_or(1) as usize;
        let (inner, outer) = (step(&kernel_steps), step(&out_steps));
        let base: Vec<f64> = (0..places)
            .flat_map(|k| {
                (0..count)
                    .map(move |o| window.position(k / inner % window.kernel, o / outer % window.out) as f64)
            })
            .collect();
        let base = math::to(on, &on.host(&[places, count], &base)?, float)?;
        let shift = on.slice(&offsets, &[i as i64], &[i as i64 + 1], &[2], &[])?;
        let at = on.add(&on.reshape(&shift, &[n * sets, places, count])?, &base)?;
        positions.push(on.reshape(&at, &[n * sets, places * count])?);
    }
    let grouped: Vec<usize> = [n * sets, c / sets].into_iter().chain(dims.iter().copied()).collect();
    let mut read = sample(on, &on.reshape(x, &grouped)?, &positions, Between::Linear, Beyond::Zeros)?;
    if let Some(mask) = call.optional(4) {
        let mask = on.reshape(&math::to(on, mask, float)?, &[n * sets, 1, places * count])?;
        read = on.mul(&read, &mask)?;
    }
    let columns = on.reshape(&read, &[n, group, depth * places, count])?;
    let filters = on.reshape(&math::to(on, w, float)?, &[group, m / group, depth * places])?;
    let mut y = on.reshape(&on.matmul(&filters, &columns)?, &shaped(m))?;
    if let Some(bias) = call.optional(3) {
        let trailing: Vec<i64> = (1..=rank as i64).collect();
        y = on.add(&y, &on.unsqueeze(&math::to(on, bias, float)?, &trailing)?)?;
    }
    Ok(one(math::to(on, &y, x.dtype())?))
}
