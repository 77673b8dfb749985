//! Implements `Ml`: ensembles of decision trees, and distances.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::distance;
use crate::kernels::forest::{self, Aggregate, Forest, MOST_TARGETS, Packed, Real, Tests};
use crate::kernels::number::Float;
use crate::ops::{dense, made};
use crate::pool::Pool;
use bb::ext::TreeEnsembleOptions;
use bb::{DataType, Shape, Tensor};
use std::sync::Arc;

/// Returns the elements of a contiguous array as a slice of `T`.
///
/// # Safety
///
/// The elements are of type `T`.
unsafe fn elements<T>(x: &Array) -> &[T] {
    debug_assert!(x.is_dense());
    if x.is_empty() {
        return &[];
    }
    // SAFETY: the array has `len` contiguous elements, which live as long as it; the caller guarantees their type.
    unsafe { std::slice::from_raw_parts(x.ptr().cast(), x.len()) }
}

/// The tables of a tree ensemble, as contiguous arrays.
pub(crate) struct Tables {
    nodes: Array,
    thresholds: Array,
    roots: Array,
    weights: Array,
    members: Option<Array>,
}

/// A packed tree ensemble, with integer keys that order like the floats: `i32` for `f32`, `i64` for `f64`.
pub(crate) enum PackedTables {
    Singles(Packed<i32>),
    Doubles(Packed<i64>),
}

impl PackedTables {
    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            PackedTables::Singles(packed) => packed.bytes(),
            PackedTables::Doubles(packed) => packed.bytes(),
        }
    }

    fn singles(&self) -> Option<&Packed<i32>> {
        if let PackedTables::Singles(packed) = self { Some(packed) } else { None }
    }

    fn doubles(&self) -> Option<&Packed<i64>> {
        if let PackedTables::Doubles(packed) = self { Some(packed) } else { None }
    }
}

impl Tables {
    /// Creates contiguous tables from the operands.
    pub(crate) fn new(
        pool: &Arc<Pool>,
        [nodes, thresholds, roots, weights]: [&Array; 4],
        members: Option<&Array>,
    ) -> Result<Tables> {
        Ok(Tables {
            nodes: dense(pool, nodes)?,
            thresholds: dense(pool, thresholds)?,
            roots: dense(pool, roots)?,
            weights: dense(pool, weights)?,
            members: members.map(|members| dense(pool, members)).transpose()?,
        })
    }

    /// Returns whether the tables have the shapes and element types that the kernel supports, with floats of type `dtype`.
    fn fit(&self, dtype: DataType) -> bool {
        let floats = matches!(dtype, DataType::F32 | DataType::F64)
            && [Some(&self.thresholds), Some(&self.weights), self.members.as_ref()]
                .into_iter()
                .flatten()
                .all(|x| x.dtype() == dtype);
        let integers = [&self.nodes, &self.roots].into_iter().all(|x| x.dtype() == DataType::I32);
        let (&[nodes, 4], &[thresholds], &[trees], &[_, targets]) =
            (self.nodes.shape(), self.thresholds.shape(), self.roots.shape(), self.weights.shape())
        else {
            return false;
        };
        let sets = self.members.as_ref().is_none_or(|members| members.shape().len() == 2);
        floats
            && integers
            && sets
            && nodes == thresholds
            && trees > 0
            && (1..=MOST_TARGETS).contains(&targets)
    }

    /// Returns the tree ensemble of these tables; `None` if it is invalid.
    ///
    /// # Safety
    ///
    /// The tables fit floats of the type `T`.
    unsafe fn forest<'a, T: Real>(
        &'a self,
        depth: i64,
        options: TreeEnsembleOptions<'a>,
    ) -> Option<Forest<'a, T>> {
        let TreeEnsembleOptions { modes, missing, aggregate } = options;
        let aggregate = match aggregate {
            "sum" => Aggregate::Sum,
            "average" => Aggregate::Average,
            "min" => Aggregate::Min,
            "max" => Aggregate::Max,
            _ => return None,
        };
        let &[_, targets] = self.weights.shape() else { return None };
        let members = self.members.as_ref().and_then(|members| match members.shape() {
            // SAFETY: the caller guarantees the type.
            &[sets, width] => Some((unsafe { elements::<T>(members) }, sets, width)),
            _ => None,
        });
        let depth = usize::try_from(depth).unwrap_or(0);
        // SAFETY: nodes and roots are of type `i32`, because the tables fit; for the others, the caller's guarantee.
        Some(unsafe {
            Forest {
                nodes: elements::<i32>(&self.nodes).as_chunks().0,
                thresholds: elements::<T>(&self.thresholds),
                roots: elements(&self.roots),
                weights: elements(&self.weights),
                targets,
                // A walk that visits no node twice has at most as long a path as there are nodes.
                depth: depth.min(self.nodes.shape().first().copied().unwrap_or(0)),
                aggregate,
                tests: Tests { modes, missing, members },
            }
        })
    }

    /// Packs the ensemble for rows of type `dtype`. Returns `None` if the kernel does not support it or cannot pack it.
    pub(crate) fn packed(
        &self,
        dtype: DataType,
        depth: i64,
        options: TreeEnsembleOptions<'_>,
    ) -> Result<Option<PackedTables>> {
        if !self.fit(dtype) {
            return Ok(None);
        }
        // SAFETY: the tables fit this type.
        unsafe {
            if dtype == DataType::F64 {
                let forest = self.forest::<f64>(depth, options);
                let packed = forest.map_or(Ok(None), |forest| forest.packed())?;
                return Ok(packed.map(PackedTables::Doubles));
            }
            let forest = self.forest::<f32>(depth, options);
            Ok(forest.map_or(Ok(None), |forest| forest.packed())?.map(PackedTables::Singles))
        }
    }

    /// Computes the ensemble. Returns `None` if the kernel does not support the operands, or if a walk does not end at a
    /// leaf. `packed` must be built from the same tables and parameters.
    pub(crate) fn run(
        &self,
        on: &Cpu,
        x: &Array,
        depth: i64,
        options: TreeEnsembleOptions<'_>,
        packed: Option<&PackedTables>,
    ) -> Result<Option<Array>> {
        if !self.fit(x.dtype()) {
            return Ok(None);
        }
        // SAFETY: the tables fit, and this is the type of their floats and of those of `x`.
        unsafe {
            if x.dtype() == DataType::F64 {
                let Some(forest) = self.forest::<f64>(depth, options) else { return Ok(None) };
                walked(on, x, &forest, packed.and_then(PackedTables::doubles))
            } else {
                let Some(forest) = self.forest::<f32>(depth, options) else { return Ok(None) };
                walked(on, x, &forest, packed.and_then(PackedTables::singles))
            }
        }
    }
}

/// Walks down the trees for each row. Returns `None` if a walk does not end at a leaf, or if there are no rows or no columns.
///
/// # Safety
///
/// The elements of `x` are of type `T`.
unsafe fn walked<T: Real>(
    on: &Cpu,
    x: &Array,
    forest: &Forest<'_, T>,
    packed: Option<&Packed<T::Key>>,
) -> Result<Option<Array>> {
    let &[rows, columns] = x.shape() else { return Ok(None) };
    if rows == 0 || columns == 0 {
        return Ok(None);
    }
    let x = dense(on.pool(), x)?;
    let own = if packed.is_none() { forest.packed_for(rows)? } else { None };
    let packed = packed.or(own.as_ref());
    let mut arrived = false;
    let shape = Shape::from_slice(&[rows, forest.targets]);
    let out = made(on.pool(), x.dtype(), shape, |out| {
        // SAFETY: `x` has these rows and columns, and the result has these rows and targets.
        arrived = unsafe { forest::run(forest, packed, [rows, columns], out.cast(), x.ptr().cast()) };
    })?;
    Ok(arrived.then_some(out))
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
        let tables = Tables::new(self.pool(), [nodes, thresholds, roots, weights], members)?;
        if let Some(y) = tables.run(self, x, depth, options, None)? {
            return Ok(y);
        }
        self.body().tree_ensemble(x, nodes, thresholds, roots, weights, members, depth, options)
    }

    fn squared_distances(&self, a: &Array, b: &Array) -> Result<Array> {
        let extents = match (a.shape(), b.shape()) {
            (&[n, columns], &[m, same]) if columns == same && columns > 0 => [n, m, columns],
            _ => return self.body().squared_distances(a, b),
        };
        // SAFETY: the operands have these extents and elements of this type.
        unsafe {
            match (a.dtype(), b.dtype()) {
                (DataType::F32, DataType::F32) => distances::<f32>(self, a, b, extents),
                (DataType::F64, DataType::F64) => distances::<f64>(self, a, b, extents),
                _ => self.body().squared_distances(a, b),
            }
        }
    }
}

/// Computes the squared distance between each row of `a` and each row of `b`.
///
/// # Safety
///
/// `a: [n, columns]` and `b: [m, columns]` have elements of type `T`; `columns` is not zero.
unsafe fn distances<T: Float>(on: &Cpu, a: &Array, b: &Array, extents: [usize; 3]) -> Result<Array> {
    let [n, m, columns] = extents;
    let (a, b) = (dense(on.pool(), a)?, dense(on.pool(), b)?);
    // SAFETY: the caller guarantees the type.
    let (a_elements, b_elements) = unsafe { (elements::<T>(&a), elements::<T>(&b)) };
    let room = m.div_ceil(distance::WIDTH) * distance::WIDTH * columns;
    let mut packed = bb::ir::memory::filled("squared_distances", T::default(), room)?;
    // SAFETY: the operands have these extents, and `out` has room for all distances.
    made(on.pool(), a.dtype(), Shape::from_slice(&[n, m]), |out| unsafe {
        distance::pack(&mut packed, b_elements, columns);
        distance::run(extents, out.cast::<T>(), a_elements, &packed);
    })
}
