//! `Ml`: forests of decision trees, and distances.

use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::kernels::distance;
use crate::kernels::forest::{self, Aggregate, Forest, MOST_TARGETS, Real, Tests};
use crate::kernels::number::Float;
use crate::ops::{dense, made};
use bb::ext::TreeEnsembleOptions;
use bb::{DataType, Shape, Tensor};

/// Returns the elements of a contiguous array whose element type is `T`.
///
/// # Safety
///
/// The elements are of type `T`.
unsafe fn elements<T>(x: &Array) -> &[T] {
    debug_assert!(x.is_dense());
    if x.is_empty() {
        return &[];
    }
    // SAFETY: the array has `len` contiguous elements, which live as long as it; the caller promises their type.
    unsafe { std::slice::from_raw_parts(x.ptr().cast(), x.len()) }
}

/// The operands of a forest, contiguous.
struct Operands {
    x: Array,
    nodes: Array,
    thresholds: Array,
    roots: Array,
    weights: Array,
    members: Option<Array>,
}

impl Operands {
    /// Tells whether the operands have the shapes and the element types that the kernel takes.
    fn fit(&self) -> bool {
        let dtype = self.x.dtype();
        let floats = matches!(dtype, DataType::F32 | DataType::F64)
            && [Some(&self.thresholds), Some(&self.weights), self.members.as_ref()]
                .into_iter()
                .flatten()
                .all(|x| x.dtype() == dtype);
        let integers = [&self.nodes, &self.roots].into_iter().all(|x| x.dtype() == DataType::I32);
        let (&[rows, columns], &[nodes, 4], &[thresholds], &[trees], &[_, targets]) = (
            self.x.shape(),
            self.nodes.shape(),
            self.thresholds.shape(),
            self.roots.shape(),
            self.weights.shape(),
        ) else {
            return false;
        };
        let sets = self.members.as_ref().is_none_or(|members| members.shape().len() == 2);
        floats
            && integers
            && sets
            && nodes == thresholds
            && [rows, columns, trees].into_iter().all(|extent| extent > 0)
            && (1..=MOST_TARGETS).contains(&targets)
    }

    /// Runs the kernel; `None` if a walk got lost.
    ///
    /// # Safety
    ///
    /// The operands fit, and their floats are of type `T`.
    unsafe fn run<T: Real>(
        &self,
        on: &Cpu,
        depth: usize,
        options: TreeEnsembleOptions<'_>,
    ) -> Result<Option<Array>> {
        let TreeEnsembleOptions { modes, missing, aggregate } = options;
        let aggregate = match aggregate {
            "sum" => Aggregate::Sum,
            "average" => Aggregate::Average,
            "min" => Aggregate::Min,
            "max" => Aggregate::Max,
            _ => return Ok(None),
        };
        let (&[rows, columns], &[_, targets]) = (self.x.shape(), self.weights.shape()) else {
            return Ok(None);
        };
        let members = self.members.as_ref().and_then(|members| match members.shape() {
            // SAFETY: the caller promises the type.
            &[sets, width] => Some((unsafe { elements::<T>(members) }, sets, width)),
            _ => None,
        });
        // SAFETY: nodes and roots are of type `i32`, because the operands fit; for the others, the caller's promise.
        let forest = unsafe {
            Forest {
                nodes: elements::<i32>(&self.nodes).as_chunks().0,
                thresholds: elements::<T>(&self.thresholds),
                roots: elements(&self.roots),
                weights: elements(&self.weights),
                targets,
                // A walk that meets no node twice has no more steps.
                depth: depth.min(self.nodes.shape().first().copied().unwrap_or(0)),
                aggregate,
                tests: Tests { modes, missing, members },
            }
        };
        let packed = forest.packed([rows, columns])?;
        let mut arrived = false;
        let shape = Shape::from_slice(&[rows, targets]);
        let out = made(on.pool(), self.x.dtype(), shape, |out| {
            // SAFETY: `x` has these rows and columns, and the result has these rows and targets.
            let x = self.x.ptr().cast();
            arrived = unsafe { forest::run(&forest, packed.as_ref(), [rows, columns], out.cast(), x) };
        })?;
        Ok(arrived.then_some(out))
    }
}

#[bb::native]
impl bb::ext::Ml for Cpu {
    fn tree_ensemble(
        &self,
        x: &Array,
        nodes: &Array,
        thresholds: &Array,
        roots: &Array,
        weights: &Array,
        members: Option<&Array>,
        depth: i64,
        options: TreeEnsembleOptions<'_>,
    ) -> Result<Array> {
        let pool = self.pool();
        let operands = Operands {
            x: dense(pool, x)?,
            nodes: dense(pool, nodes)?,
            thresholds: dense(pool, thresholds)?,
            roots: dense(pool, roots)?,
            weights: dense(pool, weights)?,
            members: members.map(|members| dense(pool, members)).transpose()?,
        };
        if operands.fit() {
            let depth = usize::try_from(depth).unwrap_or(0);
            // SAFETY: the operands fit, and this is the type of their floats.
            let walked = unsafe {
                match x.dtype() {
                    DataType::F64 => operands.run::<f64>(self, depth, options),
                    _ => operands.run::<f32>(self, depth, options),
                }
            };
            if let Some(out) = walked? {
                return Ok(out);
            }
        }
        bb::ext::ml::tree_ensemble(self, x, nodes, thresholds, roots, weights, members, depth, options)
    }

    fn squared_distances(&self, a: &Array, b: &Array) -> Result<Array> {
        let extents = match (a.shape(), b.shape()) {
            (&[n, columns], &[m, same]) if columns == same && columns > 0 => [n, m, columns],
            _ => return bb::ext::ml::squared_distances(self, a, b),
        };
        // SAFETY: the operands have these extents and elements of this type.
        unsafe {
            match (a.dtype(), b.dtype()) {
                (DataType::F32, DataType::F32) => distances::<f32>(self, a, b, extents),
                (DataType::F64, DataType::F64) => distances::<f64>(self, a, b, extents),
                _ => bb::ext::ml::squared_distances(self, a, b),
            }
        }
    }
}

/// Computes squared distances.
///
/// # Safety
///
/// `a: [n, columns]` and `b: [m, columns]` have elements of type `T`; `columns` is not zero.
unsafe fn distances<T: Float>(on: &Cpu, a: &Array, b: &Array, extents: [usize; 3]) -> Result<Array> {
    let [n, m, columns] = extents;
    let (a, b) = (dense(on.pool(), a)?, dense(on.pool(), b)?);
    // SAFETY: the caller promises the type.
    let (a_elements, b_elements) = unsafe { (elements::<T>(&a), elements::<T>(&b)) };
    let room = m.div_ceil(distance::WIDTH) * distance::WIDTH * columns;
    let mut packed = bb::ir::memory::filled("squared_distances", T::default(), room)?;
    // SAFETY: the operands have these extents, and `out` has room for all distances.
    made(on.pool(), a.dtype(), Shape::from_slice(&[n, m]), |out| unsafe {
        distance::pack(&mut packed, b_elements, columns);
        distance::run(extents, out.cast::<T>(), a_elements, &packed);
    })
}
