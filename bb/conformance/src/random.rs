//! Generates random calls for comparing two backends: every primitive, on views of each kind.
//!
//! A case depends only on a seed, so a failure can be reproduced from the seed.

use super::host::host_numbers;
use bb_core::{Backend, DataType, Outputs, RoundMode, TensorData};
use bb_ir::infer;
use bb_ir::op::{Param, Primitive};
use std::borrow::Cow;

/// A generator of random numbers. Source: SplitMix64, Steele, Lea and Flood, 2014.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// A tensor that is created from host data and then passed through a chain of views.
#[derive(Debug, Clone)]
pub struct Operand {
    /// The host data.
    pub data: TensorData,
    /// The views in order, as primitives that move elements, with their parameters.
    pub views: Vec<(Primitive, Vec<Param<'static>>)>,
}

/// A call on operands that are views.
#[derive(Debug, Clone)]
pub struct Case {
    /// The operation.
    pub op: Primitive,
    /// The operands.
    pub operands: Vec<Operand>,
    /// The parameters, in the order of the operation's entry in the op table.
    pub params: Vec<Param<'static>>,
}

impl Case {
    /// Creates the operands on a backend and runs the call.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub fn run<B: Backend>(&self, on: &B) -> Result<Outputs<B::Tensor>, B::Error> {
        let mut operands = Vec::new();
        for operand in &self.operands {
            let mut x = on.constant(&operand.data)?;
            for (op, params) in &operand.views {
                x = bb_core::call::only(
                    op.spec().method,
                    bb_core::call::call_primitive(on, *op, &[Some(&x)], params)?,
                )?;
            }
            operands.push(x);
        }
        let operands: Vec<Option<&B::Tensor>> = operands.iter().map(Some).collect();
        bb_core::call::call_primitive(on, self.op, &operands, &self.params)
    }
}

/// The kind of values in an operand.
#[derive(Clone, Copy)]
enum Values {
    /// Small non-negative integers. No sum of them is rounded.
    Small,
    /// Any values, including NaN, infinities and integers whose sums wrap.
    Any,
}

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// Returns a random element of a list.
    pub fn among<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.below(list.len())).copied()
    }

    /// Returns a shape with a rank in `ranks`. One extent in ten is 0, and some are long enough to fill vector
    /// registers.
    pub fn shape(&mut self, ranks: std::ops::Range<usize>) -> Vec<usize> {
        let rank = ranks.start + self.below(ranks.len());
        (0..rank).map(|_| self.extent()).collect()
    }

    fn extent(&mut self) -> usize {
        match self.below(20) {
            0 | 1 => 0,
            2 => 17 + self.below(30),
            _ => 1 + self.below(5),
        }
    }

    /// Returns a shape that broadcasts to `shape`.
    fn broadcasting(&mut self, shape: &[usize]) -> Vec<usize> {
        let from = if self.below(3) == 0 { self.below(shape.len() + 1) } else { 0 };
        let own = shape.iter().skip(from);
        own.map(|&d| if self.below(4) == 0 { 1 } else { d }).collect()
    }

    /// Creates a host tensor.
    fn data(&mut self, dtype: DataType, shape: &[usize], values: Values) -> TensorData {
        let n: usize = shape.iter().product();
        match (dtype, values) {
            (DataType::String, _) => {
                let words: Vec<&str> =
                    (0..n).filter_map(|_| self.among(&["", "a", "b", "ab", "é", "zwölf"])).collect();
                TensorData::strings(shape, &words).expect("a word for each element")
            }
            (DataType::Bool, _) => {
                let truth: Vec<bool> = (0..n).map(|_| self.below(2) == 0).collect();
                TensorData::bools(shape, &truth).expect("a truth value for each element")
            }
            (dtype, Values::Small) if dtype.is_compute() => {
                let numbers: Vec<f64> = (0..n).map(|_| self.below(4) as f64).collect();
                host_numbers(dtype, shape, &numbers)
            }
            (dtype, _) => {
                let size = dtype.bits().div_ceil(8);
                let codes: Vec<u8> = (0..n * size).map(|_| self.bits() as u8).collect();
                TensorData::pack(dtype, shape, &codes).expect("a code for each element")
            }
        }
    }

    /// Creates an operand of this shape, which is the result of up to three views.
    fn operand(&mut self, dtype: DataType, shape: &[usize], values: Values) -> Operand {
        let mut views = Vec::new();
        let mut shape = shape.to_vec();
        for _ in 0..self.below(4) {
            views.push(self.view(&mut shape));
        }
        views.reverse();
        Operand { data: self.data(dtype, &shape, values), views }
    }

    /// Creates a view whose result has the shape `shape`, and replaces `shape` by the shape of the view's operand.
    fn view(&mut self, shape: &mut Vec<usize>) -> (Primitive, Vec<Param<'static>>) {
        let axis = self.below(shape.len());
        match (self.below(4), shape.get(axis).copied()) {
            (0, Some(count)) => {
                let (step, before, after) = (1 + self.below(3), self.below(3), self.below(3));
                let last = before + count.saturating_sub(1) * step;
                let backwards = self.below(2) == 0;
                let (start, end) = match (count, backwards) {
                    (0, _) => (0, 0),
                    (_, false) => (before as i64, last as i64 + 1),
                    // A backward slice that includes index 0 ends at `i64::MIN`, because -1 would mean the last index.
                    (_, true) => (last as i64, if before == 0 { i64::MIN } else { before as i64 - 1 }),
                };
                if let Some(extent) = shape.get_mut(axis) {
                    *extent = if count == 0 { before } else { last + 1 + after };
                }
                let step = if backwards { -(step as i64) } else { step as i64 };
                let list = |v: i64| Param::Ints(Cow::Owned(vec![v]));
                (Primitive::Slice, vec![list(start), list(end), list(axis as i64), list(step)])
            }
            (1, Some(1)) => {
                shape.remove(axis);
                (Primitive::Unsqueeze, vec![Param::Ints(Cow::Owned(vec![axis as i64]))])
            }
            (2, _) => {
                let to = std::mem::take(shape);
                *shape = vec![to.iter().product()];
                (Primitive::Reshape, vec![Param::Extents(Cow::Owned(to))])
            }
            _ => {
                let perm = self.permutation(shape.len());
                let mut source = vec![0; shape.len()];
                for (&p, &extent) in perm.iter().zip(shape.iter()) {
                    if let Some(slot) = source.get_mut(p as usize) {
                        *slot = extent;
                    }
                }
                *shape = source;
                (Primitive::Transpose, vec![Param::Ints(Cow::Owned(perm))])
            }
        }
    }

    fn permutation(&mut self, rank: usize) -> Vec<i64> {
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        for i in (1..rank).rev() {
            perm.swap(i, self.below(i + 1));
        }
        perm
    }

    fn axis(&mut self, rank: usize) -> i64 {
        self.below(2 * rank) as i64 - rank as i64
    }

    /// Generates a call of a primitive with an element type that it supports. Most calls are valid. All backends refuse
    /// the others, for example a division by zero or the mean of no elements.
    pub fn case(&mut self) -> Case {
        use Primitive as P;
        let op = self.among(P::ALL).unwrap_or(P::Add);
        let main = usize::from(op == P::Where);
        let types: Vec<DataType> =
            DataType::ALL.iter().copied().filter(|&t| infer::accepts(op, main, t)).collect();
        let dtype = self.among(&types).unwrap_or(DataType::F32);
        let sums = matches!(op, P::MatMul | P::ReduceSum | P::ReduceMean) && dtype.is_float();
        let values = if sums || matches!(op, P::Pow | P::ReduceMean) || self.below(4) == 0 {
            Values::Small
        } else {
            Values::Any
        };
        let shape = self.shape(0..5);
        let axial = self.shape(1..5);
        let axis = self.axis(axial.len());
        let at = if axis < 0 { axis + axial.len() as i64 } else { axis } as usize;
        let extent = axial.get(at).copied().unwrap_or(0);
        let with = |size: usize| -> Vec<usize> {
            axial.iter().enumerate().map(|(i, &d)| if i == at { size } else { d }).collect()
        };
        let (operands, params) = match op {
            P::Add | P::Sub | P::Mul | P::Div | P::Pow | P::Equal | P::Greater | P::Less => {
                let (a, b) = (self.broadcasting(&shape), self.broadcasting(&shape));
                (vec![self.operand(dtype, &a, values), self.operand(dtype, &b, values)], vec![])
            }
            P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log | P::Identity => {
                (vec![self.operand(dtype, &shape, values)], vec![])
            }
            P::MatMul => {
                let (batch, m, k, n) = (self.shape(0..3), self.extent(), self.extent(), self.extent());
                let (mut a, mut b) = (self.broadcasting(&batch), self.broadcasting(&batch));
                a.extend([m, k]);
                b.extend([k, n]);
                (vec![self.operand(dtype, &a, values), self.operand(dtype, &b, values)], vec![])
            }
            P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin => {
                let count = self.below(shape.len() + 1);
                let axes: Vec<i64> = self.permutation(shape.len()).into_iter().take(count).collect();
                let keep = self.below(2) == 0;
                (
                    vec![self.operand(dtype, &shape, values)],
                    vec![Param::Ints(Cow::Owned(axes)), Param::Bool(keep)],
                )
            }
            P::Reshape => {
                let to: Vec<usize> = shape.iter().rev().copied().collect();
                (vec![self.operand(dtype, &shape, values)], vec![Param::Extents(Cow::Owned(to))])
            }
            P::Transpose | P::Slice | P::Unsqueeze => {
                let mut source = shape;
                let (mut made, mut params) = self.view(&mut source);
                while made != op {
                    source = self.shape(1..5);
                    (made, params) = self.view(&mut source);
                }
                (vec![self.operand(dtype, &source, values)], params)
            }
            P::Squeeze => (vec![self.operand(dtype, &shape, values)], vec![Param::Ints(Cow::Owned(vec![]))]),
            P::Concat => {
                let parts = (0..1 + self.below(3)).map(|_| {
                    let own = with(self.extent());
                    self.operand(dtype, &own, values)
                });
                (parts.collect(), vec![Param::Int(axis)])
            }
            P::Split => {
                let first = self.below(extent + 1);
                let sizes = vec![first, extent - first];
                (
                    vec![self.operand(dtype, &axial, values)],
                    vec![Param::Int(axis), Param::Extents(Cow::Owned(sizes))],
                )
            }
            P::Cast => {
                let to = self.among(DataType::ALL).unwrap_or(DataType::F32);
                let mode =
                    self.among(&[RoundMode::Up, RoundMode::Down, RoundMode::Nearest]).unwrap_or_default();
                let params = vec![Param::Type(to), Param::Bool(self.below(2) == 0), Param::Round(mode)];
                (vec![self.operand(dtype, &shape, values)], params)
            }
            P::Where => {
                let [c, x, y] = [(); 3].map(|()| self.broadcasting(&shape));
                let condition = self.operand(DataType::Bool, &c, values);
                (vec![condition, self.operand(dtype, &x, values), self.operand(dtype, &y, values)], vec![])
            }
            P::Constant => (vec![], vec![Param::Data(Cow::Owned(self.data(dtype, &shape, values)))]),
            P::Gather => {
                let index_shape = if extent == 0 { vec![0] } else { self.shape(0..3) };
                let count: usize = index_shape.iter().product();
                let indices: Vec<f64> = (0..count).map(|_| self.axis(extent) as f64).collect();
                let index = self.among(&[DataType::I32, DataType::I64]).unwrap_or(DataType::I64);
                let indices = Operand { data: host_numbers(index, &index_shape, &indices), views: vec![] };
                (vec![self.operand(dtype, &axial, values), indices], vec![Param::Int(axis)])
            }
        };
        Case { op, operands, params }
    }
}
