//! The traced tensors.

use super::log::{Log, When};
use super::steps::{TraceValue, Varying};
use super::{Extent, Extents};
use crate::Tensor;
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
    elements: TracedElements,
    /// The conditions under which the value in the trace equals this tensor.
    requires: When,
    log: Arc<Log>,
}

/// The information about a value's elements.
#[derive(Debug, Clone, Default)]
pub(crate) enum TracedElements {
    #[default]
    Unknown,
    /// The elements are constant.
    Constant(TensorData),
    /// The elements depend on extents of inputs. Stores the elements for the traced inputs, and the dependency.
    OfExtents(TensorData, Follow),
}

/// The dependency of elements on extents.
#[derive(Debug, Clone)]
pub(crate) enum Follow {
    /// Each element is an expression.
    Each(Arc<[Extent]>),
    /// The elements equal the traced elements if these conditions hold.
    When(When),
}

/// The element type, the shape for the traced inputs, and the symbolic extents of a new value.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) dtype: DataType,
    pub(crate) shape: Shape,
    pub(crate) extents: Option<Extents>,
}

impl TracedTensor {
    pub(crate) fn new(
        value: TraceValue,
        ty: Type,
        elements: TracedElements,
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
            TracedElements::Constant(data) => Some(data),
            TracedElements::Unknown | TracedElements::OfExtents(..) => None,
        }
    }

    /// Returns whether the elements are constant or depend only on extents.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.0.elements, TracedElements::Unknown)
    }

    /// Returns the elements if they are constant or depend only on extents. In the second case, ties the trace to these
    /// extents.
    pub(crate) fn known_or_tied(&self) -> Option<&TensorData> {
        match &self.0.elements {
            TracedElements::Unknown => None,
            TracedElements::Constant(data) => Some(data),
            TracedElements::OfExtents(data, follow) => {
                self.0.log.require(&follow.tied());
                Some(data)
            }
        }
    }

    pub(crate) fn elements(&self) -> &TracedElements {
        &self.0.elements
    }

    /// Returns the extents for the traced inputs, without recording that the trace depends on them.
    pub(crate) fn present(&self) -> &Shape {
        &self.0.shape
    }

    /// Returns the element type and the extents.
    pub(crate) fn ty(&self) -> Type {
        Type { dtype: self.0.dtype, shape: self.0.shape.clone(), extents: self.0.extents.clone() }
    }

    /// Returns whether all extents are the same in all runs.
    pub(crate) fn is_fixed(&self) -> bool {
        self.0.extents.is_none()
    }

    /// Returns the extents.
    pub(crate) fn extents(&self) -> Extents {
        match &self.0.extents {
            Some(extents) => extents.clone(),
            None => self.0.shape.iter().map(|&extent| Extent::from(extent)).collect(),
        }
    }

    /// Returns one extent.
    pub(crate) fn extent(&self, axis: usize) -> Option<Extent> {
        match &self.0.extents {
            Some(extents) => extents.get(axis).cloned(),
            None => self.0.shape.get(axis).map(|&extent| Extent::from(extent)),
        }
    }

    /// Returns the conditions under which the extents equal the traced numbers.
    pub(crate) fn tied(&self) -> When {
        let extents = self.0.extents.iter().flatten();
        extents.fold(When::ALWAYS, |all, extent| all.and(&extent.tied()))
    }
}

impl Follow {
    /// Returns the conditions under which the elements equal the traced elements.
    pub(crate) fn tied(&self) -> When {
        match self {
            Follow::When(when) => when.clone(),
            Follow::Each(extents) => extents.iter().fold(When::ALWAYS, |all, extent| all.and(&extent.tied())),
        }
    }
}

impl TracedElements {
    /// Returns the same elements with additional conditions.
    pub(crate) fn under(&self, when: &When, log: &Arc<Log>) -> TracedElements {
        match self {
            _ if when.is_always() => self.clone(),
            TracedElements::Unknown => TracedElements::Unknown,
            TracedElements::Constant(data) => {
                TracedElements::OfExtents(data.clone(), Follow::When(when.clone()))
            }
            TracedElements::OfExtents(data, Follow::When(own)) => {
                TracedElements::OfExtents(data.clone(), Follow::When(own.and(when)))
            }
            TracedElements::OfExtents(data, Follow::Each(each)) => {
                let each = each.iter().map(|extent| extent.under(when, log)).collect();
                TracedElements::OfExtents(data.clone(), Follow::Each(each))
            }
        }
    }
}

impl Type {
    /// Returns the same type with additional conditions on its extents.
    pub(crate) fn under(&self, when: &When, log: &Arc<Log>) -> Type {
        if when.is_always() {
            return self.clone();
        }
        let extents = match &self.extents {
            Some(extents) => extents.iter().map(|extent| extent.under(when, log)).collect(),
            None => self.shape.iter().map(|&extent| Extent::from(extent).under(when, log)).collect(),
        };
        Type::varying(self.dtype, self.shape.clone(), extents)
    }

    /// Returns the number of elements, if it differs between runs and follows from the inputs' extents without conditions.
    pub(crate) fn element_count(&self) -> Option<DimExpr> {
        let extents = self.extents.as_ref()?;
        let product = |all: Option<DimExpr>, extent: &Extent| all?.times(&extent.unconditional()?);
        extents.iter().fold(Some(DimExpr::from(1)), product)
    }

    /// Returns the dimensions whose extents may differ between runs.
    pub(crate) fn varies(&self) -> Varying {
        let varying = |extents: &Extents| Varying::of(extents.iter().map(|extent| !extent.is_fixed()));
        self.extents.as_ref().map_or(Varying::NONE, varying)
    }

    /// Returns a type whose extents are the same in all runs.
    pub(crate) fn fixed(dtype: DataType, shape: &[usize]) -> Type {
        Type { dtype, shape: Shape::from_slice(shape), extents: None }
    }

    /// Returns a type whose extents may vary. `shape` has the extents of the traced inputs' run.
    pub(crate) fn varying(dtype: DataType, shape: Shape, extents: Extents) -> Type {
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

    /// Returns the extents as numbers, and ties the trace to these numbers.
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
