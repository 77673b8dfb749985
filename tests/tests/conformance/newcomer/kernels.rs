//! A complete backend: three element types, all 30 primitives, a native convolution for the calls that it is fast at.
//!
//! It needs `bb` alone. Copy it, and replace the loops by your device.

use bb::ext::{ConvOptions, Extended, Nn};
use bb::ir::convert::{self, Rounding};
use bb::ir::{Error as Wrong, element_count, infer, memory};
use bb::{Backend, DataType, DataTypes, Error, Primitive, RoundMode, RunOptions, TensorData};
use std::sync::Arc;

/// The elements, in row-major order. A device has a handle here.
#[derive(Debug, Clone)]
pub enum Elements {
    F32(Arc<[f32]>),
    I32(Arc<[i32]>),
    Bool(Arc<[bool]>),
}

/// A tensor, which is cheap to clone.
#[derive(Debug, Clone)]
pub struct Array {
    shape: Arc<[usize]>,
    elements: Elements,
}

impl bb::Tensor for Array {
    fn dtype(&self) -> DataType {
        match self.elements {
            Elements::F32(_) => DataType::F32,
            Elements::I32(_) => DataType::I32,
            Elements::Bool(_) => DataType::Bool,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl From<Vec<f32>> for Elements {
    fn from(xs: Vec<f32>) -> Elements {
        Elements::F32(xs.into())
    }
}

impl From<Vec<i32>> for Elements {
    fn from(xs: Vec<i32>) -> Elements {
        Elements::I32(xs.into())
    }
}

impl From<Vec<bool>> for Elements {
    fn from(xs: Vec<bool>) -> Elements {
        Elements::Bool(xs.into())
    }
}

fn array(shape: &[usize], elements: impl Into<Elements>) -> Array {
    Array { shape: shape.into(), elements: elements.into() }
}

fn unsupported<T>(op: &'static str, dtype: DataType) -> Result<T, Error> {
    Err(Wrong::Unsupported { op, dtype }.into())
}

/// Runs a body with the elements of a tensor, whatever their type.
macro_rules! each {
    ($x:expr, $xs:ident => $body:expr) => {
        match &$x.elements {
            Elements::F32($xs) => Elements::from($body),
            Elements::I32($xs) => Elements::from($body),
            Elements::Bool($xs) => Elements::from($body),
        }
    };
}

/// Returns the distance between neighbours along each dimension.
fn strides(shape: &[usize]) -> Vec<isize> {
    let mut step = 1;
    let mut strides = Vec::with_capacity(shape.len());
    for &extent in shape.iter().rev() {
        strides.push(step);
        step *= extent as isize;
    }
    strides.reverse();
    strides
}

/// Returns where each element of a result of this shape is found in an operand: all movement of elements is such a list.
fn places(op: &'static str, shape: &[usize], strides: &[isize], start: isize) -> Result<Vec<usize>, Error> {
    let (mut index, mut at) = (vec![0; shape.len()], start);
    let next = |_| {
        let here = at as usize;
        for axis in (0..shape.len()).rev() {
            (index[axis], at) = (index[axis] + 1, at + strides[axis]);
            if index[axis] < shape[axis] {
                break;
            }
            (index[axis], at) = (0, at - strides[axis] * shape[axis] as isize);
        }
        here
    };
    Ok(memory::collected(op, (0..element_count(shape).unwrap_or(0)).map(next))?)
}

/// Returns where the elements of a result are in an operand that is broadcast to it.
fn stretched(op: &'static str, from: &[usize], to: &[usize]) -> Result<Vec<usize>, Error> {
    let mut own = vec![0; to.len() - from.len()];
    own.extend(strides(from).iter().zip(from).map(|(stride, n)| if *n == 1 { 0 } else { *stride }));
    places(op, to, &own, 0)
}

/// Makes a result of elements of an operand.
fn taken(op: &'static str, x: &Array, shape: &[usize], places: &[usize]) -> Result<Array, Error> {
    // A deadline or a cancelled token ends a long run here.
    RunOptions::check_current()?;
    Ok(array(shape, each!(x, xs => memory::collected(op, places.iter().map(|&at| xs[at]))?)))
}

fn unary(
    op: Primitive,
    x: &Array,
    float: fn(f32) -> f32,
    integer: impl Fn(i32) -> i32,
) -> Result<Array, Error> {
    let name = op.spec().method;
    match (infer::dtype(op, &[bb::Tensor::dtype(x)], &[])?, &x.elements) {
        (_, Elements::F32(xs)) => Ok(array(&x.shape, memory::collected(name, xs.iter().map(|&x| float(x)))?)),
        (_, Elements::I32(xs)) => {
            Ok(array(&x.shape, memory::collected(name, xs.iter().map(|&x| integer(x)))?))
        }
        (dtype, Elements::Bool(_)) => unsupported(name, dtype),
    }
}

/// The function of an operation that does not take truth values.
const NO_TRUTH: Option<fn(bool, bool) -> bool> = None;

/// Computes with pairs of elements; `None` is a division by zero.
fn binary<F, I, B>(
    op: Primitive,
    [a, b]: [&Array; 2],
    float: fn(f32, f32) -> F,
    integer: fn(i32, i32) -> Option<I>,
    truth: Option<fn(bool, bool) -> B>,
) -> Result<Array, Error>
where
    Vec<F>: Into<Elements>,
    Vec<I>: Into<Elements>,
    Vec<B>: Into<Elements>,
{
    let name = op.spec().method;
    let types = [a, b].map(bb::Tensor::dtype);
    infer::dtype(op, &types, &[])?;
    let shape = infer::broadcast(name, &[&a.shape[..], &b.shape[..]])?;
    let (left, right) = (stretched(name, &a.shape, &shape)?, stretched(name, &b.shape, &shape)?);
    RunOptions::check_current()?;
    let pairs = left.into_iter().zip(right);
    let by_zero = || Error::from(Wrong::DivisionByZero { op: name });
    Ok(match (&a.elements, &b.elements, truth) {
        (Elements::F32(a), Elements::F32(b), _) => {
            array(&shape, memory::collected(name, pairs.map(|(x, y)| float(a[x], b[y])))?)
        }
        (Elements::I32(a), Elements::I32(b), _) => array(
            &shape,
            memory::try_collected(name, pairs.map(|(x, y)| integer(a[x], b[y]).ok_or_else(by_zero)))?,
        ),
        (Elements::Bool(a), Elements::Bool(b), Some(truth)) => {
            array(&shape, memory::collected(name, pairs.map(|(x, y)| truth(a[x], b[y])))?)
        }
        _ => return unsupported(name, types[0]),
    })
}

/// A number is reduced with another: floats, integers and truth values.
type Fold = (fn(&[f32]) -> f32, fn(&[i32]) -> Option<i32>, Option<fn(&[bool]) -> bool>);

fn reduced(op: Primitive, x: &Array, axes: &[i64], keepdims: bool, fold: Fold) -> Result<Array, Error> {
    let name = op.spec().method;
    infer::dtype(op, &[bb::Tensor::dtype(x)], &[])?;
    let rule = infer::reduce(name, &x.shape, axes, keepdims)?;
    // With the reduced dimensions last, each result is made of one run of elements.
    let mut order: Vec<usize> = (0..x.shape.len()).collect();
    order.sort_by_key(|&axis| rule.reduced[axis]);
    let own = strides(&x.shape);
    let (shape, own): (Vec<usize>, Vec<isize>) = order.iter().map(|&axis| (x.shape[axis], own[axis])).unzip();
    let rows = taken(name, x, &shape, &places(name, &shape, &own, 0)?)?;
    let (each, count) = (rule.count(&x.shape), element_count(&rule.shape).unwrap_or(0));
    let by_zero = || Error::from(Wrong::DivisionByZero { op: name });
    let run = |at: usize| at * each..(at + 1) * each;
    Ok(match (&rows.elements, fold) {
        (Elements::F32(xs), (float, ..)) => {
            array(&rule.shape, memory::collected(name, (0..count).map(|at| float(&xs[run(at)])))?)
        }
        (Elements::I32(xs), (_, integer, _)) => {
            let one = |at| integer(&xs[run(at)]).ok_or_else(by_zero);
            array(&rule.shape, memory::try_collected(name, (0..count).map(one))?)
        }
        (Elements::Bool(xs), (.., Some(truth))) => {
            array(&rule.shape, memory::collected(name, (0..count).map(|at| truth(&xs[run(at)])))?)
        }
        _ => return unsupported(name, DataType::Bool),
    })
}

fn total(xs: &[f32]) -> f64 {
    // `sum` starts at -0.0, but the sum of no elements is 0.
    xs.iter().fold(0.0, |sum, &x| sum + f64::from(x))
}

fn wrapped(xs: &[i32]) -> i32 {
    xs.iter().fold(0, |sum, &x| sum.wrapping_add(x))
}

/// Raises an integer to a power, which wraps; `None` for zero to a negative power.
fn power(base: i32, exponent: i32) -> Option<i32> {
    match (base, u32::try_from(exponent)) {
        (_, Ok(exponent)) => Some(base.wrapping_pow(exponent)),
        (0, Err(_)) => None,
        (1, Err(_)) => Some(1),
        (-1, Err(_)) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (_, Err(_)) => Some(0),
    }
}

/// The backend. Its struct holds the device; this one has none.
#[derive(Debug, Default, bb::Backend)]
#[bb(name = "newcomer", extensions(Nn))]
pub struct Newcomer;

impl Backend for Newcomer {
    type Tensor = Array;
    // A backend with errors of its own writes an enum with a variant `#[error(transparent)] Bb(#[from] bb::Error)`.
    type Error = Error;

    fn types(&self) -> DataTypes {
        DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool])
    }

    fn constant(&self, value: &TensorData) -> Result<Array, Error> {
        let shape = value.shape();
        Ok(match value.dtype() {
            DataType::F32 => array(shape, memory::copied("constant", value.as_slice::<f32>()?)?),
            DataType::I32 => array(shape, memory::copied("constant", value.as_slice::<i32>()?)?),
            DataType::Bool => array(shape, value.to_bools()?),
            dtype => return unsupported("constant", dtype),
        })
    }

    fn to_host(&self, x: &Array) -> Result<TensorData, Error> {
        Ok(match &x.elements {
            Elements::F32(xs) => TensorData::new(&x.shape, xs)?,
            Elements::I32(xs) => TensorData::new(&x.shape, xs)?,
            Elements::Bool(xs) => TensorData::bools(&x.shape, xs)?,
        })
    }

    fn add(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        binary(Primitive::Add, [a, b], |a, b| a + b, |a, b| Some(a.wrapping_add(b)), NO_TRUTH)
    }

    fn sub(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        binary(Primitive::Sub, [a, b], |a, b| a - b, |a, b| Some(a.wrapping_sub(b)), NO_TRUTH)
    }

    fn mul(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        binary(Primitive::Mul, [a, b], |a, b| a * b, |a, b| Some(a.wrapping_mul(b)), NO_TRUTH)
    }

    fn div(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        let integer = |a: i32, b: i32| (b != 0).then(|| a.wrapping_div(b));
        binary(Primitive::Div, [a, b], |a, b| a / b, integer, NO_TRUTH)
    }

    fn neg(&self, x: &Array) -> Result<Array, Error> {
        unary(Primitive::Neg, x, |x| -x, i32::wrapping_neg)
    }

    fn abs(&self, x: &Array) -> Result<Array, Error> {
        unary(Primitive::Abs, x, f32::abs, i32::wrapping_abs)
    }

    fn sqrt(&self, x: &Array) -> Result<Array, Error> {
        unary(Primitive::Sqrt, x, f32::sqrt, |x| x)
    }

    fn pow(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        let float = |a: f32, b: f32| f64::from(a).powf(f64::from(b)) as f32;
        match (&a.elements, &b.elements) {
            // The result has the type of the base.
            (Elements::F32(_), Elements::I32(_)) => {
                self.pow(a, &self.cast(b, DataType::F32, true, RoundMode::Up)?)
            }
            (Elements::I32(_), Elements::F32(_)) => {
                let power = self.pow(&self.cast(a, DataType::F32, true, RoundMode::Up)?, b)?;
                self.cast(&power, DataType::I32, true, RoundMode::Up)
            }
            _ => binary(Primitive::Pow, [a, b], float, power, NO_TRUTH),
        }
    }

    fn exp(&self, x: &Array) -> Result<Array, Error> {
        unary(Primitive::Exp, x, f32::exp, |x| x)
    }

    fn log(&self, x: &Array) -> Result<Array, Error> {
        unary(Primitive::Log, x, f32::ln, |x| x)
    }

    fn matmul(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        let dtype = infer::dtype(Primitive::MatMul, &[a, b].map(bb::Tensor::dtype), &[])?;
        let rule = infer::matmul(&a.shape, &b.shape)?;
        // A vector is a matrix of one row (`a`) or one column (`b`); leading extents are broadcast.
        let (batch, [m, k, n]) = (&rule.batch[..], [rule.m, rule.k, rule.n]);
        let leading = |x: &Array| x.shape[..x.shape.len().saturating_sub(2)].to_vec();
        let whole = |x: &Array, matrix: [usize; 2]| {
            let from = [&leading(x)[..], &matrix].concat();
            stretched("matmul", &from, &[batch, &matrix].concat())
        };
        let (left, right) = (whole(a, [m, k])?, whole(b, [k, n])?);
        let count = element_count(&rule.shape).unwrap_or(0);
        let terms = |at: usize| {
            let (matrix, row, column) = (at / (m * n), at / n % m, at % n);
            (0..k).map(move |i| ((matrix * m + row) * k + i, (matrix * k + i) * n + column))
        };
        RunOptions::check_current()?;
        Ok(match (&a.elements, &b.elements) {
            (Elements::F32(a), Elements::F32(b)) => {
                let term = |(x, y): (usize, usize)| f64::from(a[left[x]]) * f64::from(b[right[y]]);
                let one = |at| terms(at).map(term).fold(0.0, |sum, term| sum + term) as f32;
                array(&rule.shape, memory::collected("matmul", (0..count).map(one))?)
            }
            (Elements::I32(a), Elements::I32(b)) => {
                let term = |(x, y): (usize, usize)| a[left[x]].wrapping_mul(b[right[y]]);
                let one = |at| terms(at).map(term).fold(0, i32::wrapping_add);
                array(&rule.shape, memory::collected("matmul", (0..count).map(one))?)
            }
            _ => return unsupported("matmul", dtype),
        })
    }

    fn reduce_sum(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array, Error> {
        let fold: Fold = (|xs| total(xs) as f32, |xs| Some(wrapped(xs)), None);
        reduced(Primitive::ReduceSum, x, axes, keepdims, fold)
    }

    fn reduce_mean(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array, Error> {
        let mean = |xs: &[i32]| Some(i64::from(wrapped(xs)).checked_div(xs.len() as i64)? as i32);
        let fold: Fold = (|xs| (total(xs) / xs.len() as f64) as f32, mean, None);
        reduced(Primitive::ReduceMean, x, axes, keepdims, fold)
    }

    fn reduce_max(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array, Error> {
        // NaN wins.
        let float =
            |xs: &[f32]| xs.iter().fold(f32::NEG_INFINITY, |y, &x| if x > y || x.is_nan() { x } else { y });
        let integer = |xs: &[i32]| Some(xs.iter().copied().max().unwrap_or(i32::MIN));
        reduced(Primitive::ReduceMax, x, axes, keepdims, (float, integer, Some(|xs| xs.contains(&true))))
    }

    fn reduce_min(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array, Error> {
        let float =
            |xs: &[f32]| xs.iter().fold(f32::INFINITY, |y, &x| if x < y || x.is_nan() { x } else { y });
        let integer = |xs: &[i32]| Some(xs.iter().copied().min().unwrap_or(i32::MAX));
        reduced(Primitive::ReduceMin, x, axes, keepdims, (float, integer, Some(|xs| !xs.contains(&false))))
    }

    fn reshape(&self, x: &Array, shape: &[usize]) -> Result<Array, Error> {
        Ok(array(&infer::reshape(&x.shape, shape)?, x.elements.clone()))
    }

    fn squeeze(&self, x: &Array, axes: &[i64]) -> Result<Array, Error> {
        Ok(array(&infer::squeeze(&x.shape, axes)?, x.elements.clone()))
    }

    fn unsqueeze(&self, x: &Array, axes: &[i64]) -> Result<Array, Error> {
        Ok(array(&infer::unsqueeze(&x.shape, axes)?, x.elements.clone()))
    }

    fn identity(&self, x: &Array) -> Result<Array, Error> {
        Ok(x.clone())
    }

    fn transpose(&self, x: &Array, perm: &[i64]) -> Result<Array, Error> {
        let rule = infer::transpose(&x.shape, perm)?;
        let own = strides(&x.shape);
        let own: Vec<isize> = rule.perm.iter().map(|&axis| own[axis]).collect();
        taken("transpose", x, &rule.shape, &places("transpose", &rule.shape, &own, 0)?)
    }

    fn slice(
        &self,
        x: &Array,
        starts: &[i64],
        ends: &[i64],
        axes: &[i64],
        steps: &[i64],
    ) -> Result<Array, Error> {
        let rule = infer::slice(&x.shape, starts, ends, axes, steps)?;
        let own = strides(&x.shape);
        let start = rule.dims.iter().zip(&own).map(|(dim, stride)| dim.start as isize * stride).sum();
        let own: Vec<isize> = rule.dims.iter().zip(&own).map(|(dim, stride)| dim.step * stride).collect();
        taken("slice", x, &rule.shape, &places("slice", &rule.shape, &own, start)?)
    }

    fn split(&self, x: &Array, axis: i64, sizes: &[usize]) -> Result<Vec<Array>, Error> {
        let axis = infer::split(&x.shape, axis, sizes)?.get();
        let (own, mut start) = (strides(&x.shape), 0);
        let part = |size: &usize| {
            let mut shape = x.shape.to_vec();
            shape[axis] = *size;
            let part = taken("split", x, &shape, &places("split", &shape, &own, start)?);
            start += *size as isize * own[axis];
            part
        };
        sizes.iter().map(part).collect()
    }

    fn concat(&self, xs: &[&Array], axis: i64) -> Result<Array, Error> {
        let types: Vec<DataType> = xs.iter().map(|x| bb::Tensor::dtype(*x)).collect();
        infer::dtype(Primitive::Concat, &types, &[])?;
        let rule = infer::concat(xs.iter().map(|x| &x.shape[..]), axis)?;
        let axis = rule.axis.get();
        let rows: usize = rule.shape[..axis].iter().product();
        let chunk = |x: &Array| x.shape[axis..].iter().product::<usize>();
        // Row by row, the elements of each operand; all of them are in one list first.
        let mut starts = vec![0];
        starts.extend(
            xs.iter()
                .scan(0, |sum, x| Some(std::mem::replace(sum, *sum + rows * chunk(x)) + rows * chunk(x))),
        );
        let of_row = |row: usize| {
            xs.iter().zip(&starts).flat_map(move |(x, at)| at + row * chunk(x)..at + (row + 1) * chunk(x))
        };
        let order = memory::collected("concat", (0..rows).flat_map(of_row))?;
        let Some(first) = xs.first() else { return unsupported("concat", DataType::F32) };
        let all = match &first.elements {
            Elements::F32(_) => {
                Elements::from(joined(xs, |x| if let Elements::F32(xs) = x { xs } else { &[] })?)
            }
            Elements::I32(_) => {
                Elements::from(joined(xs, |x| if let Elements::I32(xs) = x { xs } else { &[] })?)
            }
            Elements::Bool(_) => {
                Elements::from(joined(xs, |x| if let Elements::Bool(xs) = x { xs } else { &[] })?)
            }
        };
        taken("concat", &array(&[order.len()], all), &rule.shape, &order)
    }

    fn cast(&self, x: &Array, to: DataType, saturate: bool, round_mode: RoundMode) -> Result<Array, Error> {
        if !self.types().has(to) {
            return unsupported("cast", to);
        }
        // The host casts; a device has kernels for the pairs of its types.
        let (host, rounding) = (self.to_host(x)?, Rounding { saturate, mode: round_mode });
        self.constant(&RunOptions::paced(|| convert::cast(&host, to, rounding))??)
    }

    fn equal(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        binary(Primitive::Equal, [a, b], |a, b| a == b, |a, b| Some(a == b), Some(|a: bool, b: bool| a == b))
    }

    fn greater(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        binary(Primitive::Greater, [a, b], |a, b| a > b, |a, b| Some(a > b), NO_TRUTH)
    }

    fn less(&self, a: &Array, b: &Array) -> Result<Array, Error> {
        binary(Primitive::Less, [a, b], |a, b| a < b, |a, b| Some(a < b), NO_TRUTH)
    }

    fn r#where(&self, condition: &Array, x: &Array, y: &Array) -> Result<Array, Error> {
        let types = [condition, x, y].map(bb::Tensor::dtype);
        infer::dtype(Primitive::Where, &types, &[])?;
        let shape = infer::broadcast("where", &[&condition.shape[..], &x.shape[..], &y.shape[..]])?;
        let Elements::Bool(chosen) = &condition.elements else { return unsupported("where", types[0]) };
        let chosen = stretched("where", &condition.shape, &shape)?.into_iter().map(|at| chosen[at]);
        // Both operands in one list, from which each place is taken.
        let both = self.concat(&[&self.flat(x)?, &self.flat(y)?], 0)?;
        let offset = element_count(&x.shape).unwrap_or(0);
        let (left, right) = (stretched("where", &x.shape, &shape)?, stretched("where", &y.shape, &shape)?);
        let from = chosen.zip(left.into_iter().zip(right)).map(|(c, (x, y))| if c { x } else { offset + y });
        taken("where", &both, &shape, &memory::collected("where", from)?)
    }

    fn gather(&self, data: &Array, indices: &Array, axis: i64) -> Result<Array, Error> {
        infer::dtype(Primitive::Gather, &[data, indices].map(bb::Tensor::dtype), &[])?;
        let rule = infer::gather(&data.shape, &indices.shape, axis)?;
        let Elements::I32(list) = &indices.elements else {
            return unsupported("gather", bb::Tensor::dtype(indices));
        };
        let (axis, extent) = (rule.axis.get(), data.shape[rule.axis.get()]);
        let inner: usize = data.shape[axis + 1..].iter().product();
        let outer: usize = data.shape[..axis].iter().product();
        let mut chosen = memory::room("gather", list.len())?;
        for &index in list.iter() {
            // A negative index counts from the end.
            let at = i64::from(index) + if index < 0 { extent as i64 } else { 0 };
            let out = Wrong::Index { op: "gather", index: index.into(), extent };
            chosen.push(usize::try_from(at).ok().filter(|&at| at < extent).ok_or(out)?);
        }
        let chosen = &chosen;
        let row = |row: usize| {
            chosen.iter().flat_map(move |at| (0..inner).map(move |i| (row * extent + at) * inner + i))
        };
        taken("gather", data, &rule.shape, &memory::collected("gather", (0..outer).flat_map(row))?)
    }
}

/// Copies the elements of all operands into one list.
fn joined<T: Clone>(xs: &[&Array], of: fn(&Elements) -> &[T]) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    for x in xs {
        memory::append("concat", &mut all, of(&x.elements))?;
    }
    Ok(all)
}

impl Newcomer {
    fn flat(&self, x: &Array) -> Result<Array, Error> {
        self.reshape(x, &[element_count(&x.shape).unwrap_or(0)])
    }
}

/// One native method: a convolution of windows of one place is a product of matrices. All others run the default body.
#[bb::native]
impl Nn for Newcomer {
    fn conv(
        &self,
        x: &Array,
        w: &Array,
        b: Option<&Array>,
        options: ConvOptions<'_>,
    ) -> Result<Array, Error> {
        let plain =
            ConvOptions { strides: &[], pads: &[], dilations: &[], ..options } == ConvOptions::default();
        let still = options.strides.iter().all(|&s| s == 1) && options.pads.iter().all(|&p| p == 0);
        match (&x.shape[..], &w.shape[..], b) {
            (&[n, c, h, width], &[m, _, 1, 1], None) if plain && still && c == w.shape[1] => {
                let columns = self.reshape(x, &[n, c, h * width])?;
                let product = self.matmul(&self.reshape(w, &[m, c])?, &columns)?;
                self.reshape(&product, &[n, m, h, width])
            }
            _ => Extended::new(self, &[]).conv(x, w, b, options),
        }
    }
}
