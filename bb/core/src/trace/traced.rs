//! The traced tensors.

use super::log::{Log, When};
use super::steps::{TraceValue, Varying};
use crate::Tensor;
use crate::ext::{Extent, Extents};
use bb_ir::graph::DimExpr;
use bb_ir::{DataType, Shape, TensorData};
use std::sync::Arc;

/// A value during tracing: its element type, its extents, and its elements if they are known.
#[derive(Debug, Clone)]
pub struct TracedTensor(Arc<TracedValue>);

#[derive(Debug)]
struct TracedValue {
    value: TraceValue,
    dtype: DataType,
    shape: Shape,
    /// The extents as expressions, if one of them varies.
    extents: Option<Extents>,
    elements: Elements,
    /// The conditions that ensure that the recorded value equals this tensor.
    requires: When,
    log: Arc<Log>,
}

/// The information about a value's elements.
#[derive(Debug, Clone, Default)]
pub(super) enum Elements {
    #[default]
    Unknown,
    /// The elements are constant.
    Constant(TensorData),
    /// The elements depend on extents of inputs. Stores the elements for the traced inputs, and the dependency.
    OfExtents(TensorData, Follow),
}

/// The dependency of elements on extents.
#[derive(Debug, Clone)]
pub(super) enum Follow {
    /// Each element is an expression.
    Each(Arc<[Extent]>),
    /// The elements equal the traced elements if these conditions hold.
    When(When),
}

/// The element type, the shape for the traced inputs, and the symbolic extents of a new value.
#[derive(Debug, Clone)]
pub(super) struct Type {
    pub(super) dtype: DataType,
    pub(super) shape: Shape,
    pub(super) extents: Option<Extents>,
}

impl TracedTensor {
    pub(super) fn new(
        value: TraceValue,
        ty: Type,
        elements: Elements,
        requires: When,
        log: Arc<Log>,
    ) -> TracedTensor {
        let Type { dtype, shape, extents } = ty;
        TracedTensor(Arc::new(TracedValue { value, dtype, shape, extents, elements, requires, log }))
    }

    /// Returns the value in the trace that this tensor represents.
    pub(crate) fn value(&self) -> TraceValue {
        self.0.value
    }

    /// Returns the value in the trace, for a step that reads it, and adds its conditions to the trace.
    pub(crate) fn read(&self) -> TraceValue {
        self.0.log.require(&self.0.requires);
        self.0.value
    }

    /// Returns the elements if they are constant.
    pub(crate) fn known(&self) -> Option<&TensorData> {
        match &self.0.elements {
            Elements::Constant(data) => Some(data),
            Elements::Unknown | Elements::OfExtents(..) => None,
        }
    }

    /// Returns whether the elements are constant or depend only on extents.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.0.elements, Elements::Unknown)
    }

    /// Returns the elements if they are constant or depend only on extents. In the second case, ties the trace to these
    /// extents.
    pub(crate) fn known_or_tied(&self) -> Option<&TensorData> {
        match &self.0.elements {
            Elements::Unknown => None,
            Elements::Constant(data) => Some(data),
            Elements::OfExtents(data, follow) => {
                self.0.log.require(&follow.tied());
                Some(data)
            }
        }
    }

    pub(super) fn elements(&self) -> &Elements {
        &self.0.elements
    }

    /// Returns the extents of the traced inputs' run, without recording that the trace depends on them.
    pub(crate) fn present(&self) -> &Shape {
        &self.0.shape
    }

    /// Returns the element type and the extents.
    pub(super) fn ty(&self) -> Type {
        Type { dtype: self.0.dtype, shape: self.0.shape.clone(), extents: self.0.extents.clone() }
    }

    /// Returns whether all extents are the same in all runs.
    pub(super) fn is_fixed(&self) -> bool {
        self.0.extents.is_none()
    }

    /// Returns the extents as expressions.
    pub(super) fn extents(&self) -> Extents {
        match &self.0.extents {
            Some(extents) => extents.clone(),
            None => self.0.shape.iter().map(|&extent| Extent::from(extent)).collect(),
        }
    }

    /// Returns one extent as an expression.
    pub(super) fn extent(&self, axis: usize) -> Option<Extent> {
        match &self.0.extents {
            Some(extents) => extents.get(axis).cloned(),
            None => self.0.shape.get(axis).map(|&extent| Extent::from(extent)),
        }
    }

    /// Returns the conditions that ensure that the extents equal the traced extents.
    pub(super) fn tied(&self) -> When {
        let extents = self.0.extents.iter().flatten();
        extents.fold(When::ALWAYS, |all, extent| all.and(&extent.tied()))
    }
}

impl Follow {
    /// Returns the conditions that ensure that the elements equal the traced elements.
    pub(super) fn tied(&self) -> When {
        match self {
            Follow::When(when) => when.clone(),
            Follow::Each(extents) => extents.iter().fold(When::ALWAYS, |all, extent| all.and(&extent.tied())),
        }
    }
}

impl Elements {
    /// Returns the same elements with additional conditions.
    pub(super) fn under(&self, when: &When, log: &Arc<Log>) -> Elements {
        match self {
            _ if when.is_always() => self.clone(),
            Elements::Unknown => Elements::Unknown,
            Elements::Constant(data) => Elements::OfExtents(data.clone(), Follow::When(when.clone())),
            Elements::OfExtents(data, Follow::When(own)) => {
                Elements::OfExtents(data.clone(), Follow::When(own.and(when)))
            }
            Elements::OfExtents(data, Follow::Each(each)) => {
                let each = each.iter().map(|extent| extent.under(when, log)).collect();
                Elements::OfExtents(data.clone(), Follow::Each(each))
            }
        }
    }
}

impl Type {
    /// Returns the same type with additional conditions on its extents.
    pub(super) fn under(&self, when: &When, log: &Arc<Log>) -> Type {
        if when.is_always() {
            return self.clone();
        }
        let extents = match &self.extents {
            Some(extents) => extents.iter().map(|extent| extent.under(when, log)).collect(),
            None => self.shape.iter().map(|&extent| Extent::from(extent).under(when, log)).collect(),
        };
        Type::varying(self.dtype, self.shape.clone(), extents)
    }

    /// Returns the number of elements, if it differs between runs and is an unconditional expression of the inputs'
    /// extents.
    pub(super) fn element_count(&self) -> Option<DimExpr> {
        let extents = self.extents.as_ref()?;
        let product = |all: Option<DimExpr>, extent: &Extent| all?.times(&extent.unconditional()?);
        extents.iter().fold(Some(DimExpr::from(1)), product)
    }

    /// Returns the dimensions whose extents may differ between runs.
    pub(super) fn varies(&self) -> Varying {
        let varying = |extents: &Extents| Varying::of(extents.iter().map(|extent| !extent.is_fixed()));
        self.extents.as_ref().map_or(Varying::NONE, varying)
    }

    /// Returns a type whose extents are the same in all runs.
    pub(super) fn fixed(dtype: DataType, shape: &[usize]) -> Type {
        Type { dtype, shape: Shape::from_slice(shape), extents: None }
    }

    /// Returns a type whose extents may vary. `shape` has their values for the traced inputs.
    pub(super) fn varying(dtype: DataType, shape: Shape, extents: Extents) -> Type {
        debug_assert!(shape.len() == extents.len());
        let all_fixed = extents.iter().all(Extent::is_fixed);
        Type { dtype, shape, extents: (!all_fixed).then_some(extents) }
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for TracedTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    /// Returns the extents as numbers, and ties the trace to them.
    fn shape(&self) -> &[usize] {
        for extent in self.0.extents.iter().flatten() {
            extent.number();
        }
        &self.0.shape
    }

    fn rank(&self) -> usize {
        self.0.shape.len()
    }
}
