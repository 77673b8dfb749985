//! Extension families: typed operations beyond the primitives, with bodies that are built from primitives.
//!
//! `#[bb::native] impl bb::ext::Nn for MyBackend { … }` implements a family on a backend. The methods that it contains
//! are native; for the others, the family's table runs the body. [`Extended`] runs every family on every backend.
//! Bodies are functions over the [`Tracer`]. To run a body on a backend, `body.rs` traces it and calls the recorded steps.
//!
//! An operation with many parameters takes the optional ones as one struct:
//!
//! ```no_run
//! # fn main() -> Result<(), bb::Error> {
//! use bb::ext::ConvOptions;
//! let cpu = bb::backend("cpu")?;
//! let image = cpu.zeros(&[1, 3, 224, 224], bb::DataType::F32)?;
//! let filters = cpu.zeros(&[8, 3, 3, 3], bb::DataType::F32)?;
//! let y = image.conv(&filters, None, ConvOptions { strides: &[2, 2], ..Default::default() })?;
//! assert_eq!(y.shape(), [1, 8, 111, 111]);
//! # Ok(())
//! # }
//! ```

mod angle;
mod batch;
pub(crate) mod bodies;
pub(crate) mod body;
mod by_name;
mod check;
#[cfg(test)]
mod class_tests;
mod compact;
mod conv_transpose;
#[doc(hidden)]
pub mod cumulate;
mod deform;
#[doc(hidden)]
pub mod fold;
mod forest;
#[doc(hidden)]
pub mod fourier;
pub(crate) mod fused;
mod gate;
/// Computations on host tensors.
#[doc(hidden)]
pub mod host {
    pub use crate::trace::host::*;
}
#[doc(hidden)]
pub mod n_bits;

pub mod bits;
pub mod create;
pub mod image;
pub mod index;
pub mod llm;
#[doc(hidden)]
pub mod math;
pub mod ml;
pub(crate) mod movement;
pub mod nn;
#[doc(hidden)]
pub mod normalize;
mod product;
pub mod quant;
mod random;
#[doc(hidden)]
pub mod recurrent;
mod region;
#[doc(hidden)]
pub mod sample;
pub mod scalar;
pub(crate) mod scatter;
mod slide;
#[doc(hidden)]
pub mod sort;
mod tracer;
pub mod train;
#[doc(hidden)]
pub mod types;
mod unpool;
pub(crate) mod vendor;
#[doc(hidden)]
pub mod window;

pub(crate) use crate::contract::native_in;
pub use crate::contract::{FamilyTable, Native, OpSet};
pub use crate::erased::ErasedBackend;
pub use crate::erased::{ErasedCompiled, ErasedKernel, Kernels, Owned};
pub use crate::erased::{ErasedError, ErasedTensor};
pub use crate::erased::{WithFamilies, boxed, foreign, own};
pub(crate) use crate::family::every_operation;
pub use crate::family::{
    AdagradOptions, AdamOptions, AttentionOptions, AveragePoolOptions, Bits, BitsOp, CachedAttentionOptions,
    ConvIntegerOptions, ConvOptions, ConvTransposeOptions, Create, CreateOp,
    CrossEntropyOfProbabilitiesOptions, CrossEntropyOptions, CrossEntropyWithProbabilitiesOptions,
    DeformConvOptions, DequantizeOptions, Extended, FusedConvOptions, GridSampleOptions, GruOptions, Image,
    ImageOp, Index, IndexOp, LayerNormalizationOptions, Llm, LlmOp, LstmOptions, MatMulNBitsOptions,
    MaxPoolOptions, Ml, MlOp, MomentumOptions, NegativeLogLikelihoodOptions, Nn, NnOp, PagedAttentionOptions,
    QLinearConvOptions, Quant, QuantOp, QuantizeLinearOptions, QuantizeOptions, QuantizedLinearOptions,
    RaggedAttentionOptions, RandomNormalOptions, RandomUniformOptions, RnnOptions, RoiAlignOptions,
    RotateOptions, SampleTokenOptions, Scalar, ScalarOp, ScatterElementsOptions, SharpenOptions,
    SobelOptions, TopKOptions, Train, TrainOp, TreeEnsembleOptions,
};
pub use crate::trace::elements::integers;
pub use crate::trace::extent::{Extent, Extents, product};
pub(crate) use crate::trace::extent::{negative, numbers};
pub use crate::trace::host::{HostKernel, HostRun};
pub use bb_ir::op::{AdamEpsilon, Border, Interpolation, Reduction, SamplePadding, ScatterReduction};
pub use by_name::operation;
pub use check::result_types;
pub use random::Mersenne;
pub use recurrent::Activation;
pub use vendor::{
    Accepts, PatternOperand, TypesOf, VendorFamily, VendorOperation, VendorType, vendor_families,
};

pub use crate::runtime::CallsRows;
use crate::trace::{TraceStop, TracedElements, TracedTensor, Tracer};
use crate::{Backend, Outputs, Tensor};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::{DataType, Shape, TensorData};
use smallvec::SmallVec;

/// A backend with all families. ONNX functions and bodies are generic over this trait.
///
/// [`Extended`] implements it for any backend, and this crate's `Tracer` implements it too. A backend that implements
/// every family may also implement it, with an empty `impl`, to call bodies from its own methods.
pub trait Ops: Create + Scalar + Nn + Llm + Index + Bits + Image + Ml + Quant + Train {
    /// Reads a tensor of integers or booleans on the host, as `i64`.
    ///
    /// While tracing, the value must be known; see [`Error::NotConstant`](crate::Error::NotConstant).
    ///
    /// # Errors
    ///
    /// [`Error::NotConstant`](crate::Error::NotConstant) while tracing; otherwise the backend's own errors.
    fn ints(&self, x: &Self::Tensor) -> Result<Vec<i64>, Self::Error> {
        Ok(integers(&self.to_host(x)?).map_err(crate::Error::from)?)
    }

    /// Runs a computation on the host, for operations that cannot be composed of primitives.
    ///
    /// While tracing, this becomes one step. The last parameter specifies the types and extents of its results, and
    /// `body` must produce exactly these.
    ///
    /// # Errors
    ///
    /// The errors of the body and of the backend.
    fn on_host(
        &self,
        body: &'static HostKernel,
        inputs: &[Option<&Self::Tensor>],
        params: &[Param<'_>],
        _results: &[(DataType, Shape)],
    ) -> Result<Outputs<Self::Tensor>, Self::Error> {
        host::run(self, body, inputs, params)
    }

    /// Calls a vendor's operation ([`bb::vendor!`](crate::vendor)): the backend's kernel if there is one, otherwise the
    /// body.
    ///
    /// # Errors
    ///
    /// [`Error::NoBody`](crate::Error::NoBody) if the backend has no kernel and the operation has no body; the
    /// operation's own errors.
    fn vendor(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Self::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Self::Tensor>, Self::Error> {
        Extended::new(self, &[]).call(op, inputs, params)
    }

    /// Returns the tracer, if this backend is a tracer.
    #[doc(hidden)]
    fn tracer(&self) -> Option<&Tracer> {
        None
    }

    /// Creates a tensor from host elements.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    fn host<T: bb_ir::Element>(&self, shape: &[usize], elements: &[T]) -> Result<Self::Tensor, Self::Error> {
        self.constant(&TensorData::new(shape, elements).map_err(crate::Error::from)?)
    }

    /// Returns the extents of a tensor. While tracing they are expressions, so that the plan is also valid for other
    /// extents.
    fn extents(&self, x: &Self::Tensor) -> Extents {
        x.shape().iter().map(|&extent| Extent::from(extent)).collect()
    }

    /// Returns one extent of a tensor, or 0 if there is no dimension `axis`.
    fn extent(&self, x: &Self::Tensor, axis: usize) -> Extent {
        x.shape().get(axis).copied().unwrap_or(0).into()
    }

    /// Returns whether a tensor broadcasts to the shape of another tensor without changing that shape.
    fn broadcasts_to(&self, x: &Self::Tensor, to: &Self::Tensor) -> bool {
        types::broadcasts(x.shape(), to.shape())
    }

    /// Reads a tensor of integers as extents. While tracing, elements that were computed from extents are expressions.
    ///
    /// # Errors
    ///
    /// The errors of [`ints`](Ops::ints).
    fn extents_of(&self, x: &Self::Tensor) -> Result<Vec<Extent>, Self::Error> {
        Ok(self.ints(x)?.into_iter().map(Extent::from).collect())
    }

    /// Creates an `i64` tensor from extents.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    fn ints_of(&self, shape: &[usize], values: &[Extent]) -> Result<Self::Tensor, Self::Error> {
        let values: Vec<i64> = values.iter().map(Extent::number).collect();
        self.host(shape, &values)
    }

    /// Creates a vector of `count` elements of type `i64`: `start`, `start + step`, ….
    ///
    /// # Errors
    ///
    /// [`Error::Ir`](crate::Error::Ir) if the elements do not fit into memory; the backend's own errors.
    fn iota(&self, start: &Extent, step: &Extent, count: &Extent) -> Result<Self::Tensor, Self::Error> {
        iota(self, start, step, usize::try_from(count.number()).unwrap_or(0))
    }

    /// Calls [`reshape`](Backend::reshape) with extents.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`](crate::Error::Operator) if an extent is negative; the backend's own errors.
    fn reshape_to(&self, x: &Self::Tensor, shape: &[Extent]) -> Result<Self::Tensor, Self::Error> {
        self.reshape(x, &numbers::<Self>(shape)?)
    }

    /// Calls [`slice`](Backend::slice) with bounds that are extents.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    fn slice_to(
        &self,
        x: &Self::Tensor,
        starts: &[Extent],
        ends: &[Extent],
        axes: &[i64],
        steps: &[i64],
    ) -> Result<Self::Tensor, Self::Error> {
        let [starts, ends] =
            [starts, ends].map(|b| b.iter().map(Extent::number).collect::<SmallVec<[i64; 4]>>());
        self.slice(x, &starts, &ends, axes, steps)
    }

    /// Calls [`split`](Backend::split) with the sizes of the parts as extents.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`](crate::Error::Operator) if an extent is negative; the backend's own errors.
    fn split_to(
        &self,
        x: &Self::Tensor,
        axis: i64,
        sizes: &[Extent],
    ) -> Result<Vec<Self::Tensor>, Self::Error> {
        self.split(x, axis, &numbers::<Self>(sizes)?)
    }

    /// Calls [`expand`](Create::expand) with extents.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`](crate::Error::Operator) if an extent is negative; the backend's own errors.
    fn expand_to(&self, x: &Self::Tensor, shape: &[Extent]) -> Result<Self::Tensor, Self::Error> {
        self.expand(x, &numbers::<Self>(shape)?)
    }

    /// Calls [`full`](Create::full) with extents.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`](crate::Error::Operator) if an extent is negative; the backend's own errors.
    fn full_to(&self, shape: &[Extent], value: f64, dtype: DataType) -> Result<Self::Tensor, Self::Error> {
        self.full(&numbers::<Self>(shape)?, value, dtype)
    }
}

/// Computes `count` elements: `start`, `start + step`, …. Elements that overflow are clamped to the range of `i64`.
pub(crate) fn iota_elements(start: &Extent, step: &Extent, count: usize) -> Result<Vec<i64>, bb_ir::Error> {
    let (start, step) = (i128::from(start.present()), i128::from(step.present()));
    let at = |i: usize| (start + step * i as i128).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    bb_ir::memory::collected("range", (0..count).map(at))
}

/// Creates a vector of numbers with a constant step on the host.
pub(crate) fn iota<B: Ops + ?Sized>(
    on: &B,
    start: &Extent,
    step: &Extent,
    count: usize,
) -> Result<B::Tensor, B::Error> {
    let elements = iota_elements(start, step, count).map_err(crate::Error::from)?;
    on.host(&[count], &elements)
}

/// Creates a tensor of the numbers 0, `step`, 2 `step`, … in row-major order. If the tensor is too large, returns an
/// error before any memory is allocated.
pub fn counted(on: &Tracer, shape: &[usize], step: i64) -> Result<TracedTensor, TraceStop> {
    let too_large = || bb_ir::Error::TooLarge {
        dtype: DataType::I64,
        shape: shape.into(),
        limit: isize::MAX as usize,
        name: None,
    };
    let count = bb_ir::element_count(shape).and_then(|count| i64::try_from(count).ok());
    let count = count.ok_or_else(too_large).map_err(crate::Error::from)?;
    let numbers = on.iota(&Extent::from(0i64), &Extent::from(step), &Extent::from(count))?;
    if shape.len() == 1 { Ok(numbers) } else { on.reshape(&numbers, shape) }
}

impl<'a, B: Ops + ?Sized + 'static> Extended<'a, B> {
    /// Extends a backend that adopted every family, for its kernels that decline operands: the operation that is called runs
    /// its body, and native operations in the body are the backend's own.
    pub const fn declining(on: &'a B) -> Self {
        Extended::declined(on, tables::<B>())
    }
}

impl<B: Backend + ?Sized> Ops for Extended<'_, B> {
    fn vendor(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&B::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        self.call(op, inputs, params)
    }
}

/// Lists the families, so that an operation can be found by its row.
macro_rules! families {
    ($($trait:ident $module:ident $enum:ident;)*) => {
        /// Calls an operation of any family, or a primitive, by its table row.
        ///
        /// # Errors
        ///
        /// The operation's own errors; [`Error::UnknownIndex`](crate::Error::UnknownIndex) if no family contains the
        /// row.
        pub(crate) fn call<B: Ops + ?Sized>(
            on: &B,
            op: &'static OpSpec,
            inputs: &[Option<&B::Tensor>],
            params: &[Param<'_>],
        ) -> Result<Outputs<B::Tensor>, B::Error> {
            match (op.family, Primitive::from_index(op.index)) {
                $( (Family::$trait, _) => match $enum::from_index(op.index) {
                    Some(op) => $module::call(on, op, inputs, params),
                    None => Err(crate::Error::unknown_row(op).into()),
                }, )*
                (Family::Primitive, Some(primitive)) => crate::call::call_primitive(on, primitive, inputs, params),
                (Family::Vendor(_), _) => on.vendor(op, inputs, params),
                _ => Err(crate::Error::unknown_row(op).into()),
            }
        }

        /// Traces the body of an operation, which is passed as its table row.
        ///
        /// # Errors
        ///
        /// The body's own errors; [`Error::UnknownIndex`](crate::Error::UnknownIndex) if no family contains the row;
        /// [`Error::NoBody`](crate::Error::NoBody) if the operation has no body.
        pub(crate) fn call_body(
            on: &Tracer,
            op: &'static OpSpec,
            inputs: &[Option<&TracedTensor>],
            params: &[Param<'_>],
        ) -> Result<Outputs<TracedTensor>, TraceStop> {
            match op.family {
                $( Family::$trait => match $enum::from_index(op.index) {
                    Some(op) => $module::call_body(on, op, inputs, params),
                    None => fail(crate::Error::unknown_row(op)),
                }, )*
                Family::Vendor(_) => vendor::call_body(on, op, inputs, params),
                _ => fail(crate::Error::unknown_row(op)),
            }
        }

        /// Returns the operation at a position of the table of a family; `None` if there is none.
        pub(crate) fn row(family: Family, index: usize) -> Option<&'static OpSpec> {
            match family {
                $( Family::$trait => $enum::ALL.get(index).map(|op| op.spec()), )*
                Family::Primitive => Primitive::ALL.get(index).map(|op| op.spec()),
                Family::Vendor(domain) => vendor::rows(domain).get(index).copied(),
                _ => None,
            }
        }

        /// Returns the tables of a backend that implements every family.
        pub(crate) const fn tables<B: Ops + ?Sized + 'static>() -> &'static [FamilyTable<B>] {
            const { &[$( $module::table::<B>() ),*] }
        }
    };
}

families! {
    Create create CreateOp;
    Scalar scalar ScalarOp;
    Nn nn NnOp;
    Llm llm LlmOp;
    Index index IndexOp;
    Bits bits BitsOp;
    Image image ImageOp;
    Ml ml MlOp;
    Quant quant QuantOp;
    Train train TrainOp;
}

/// Returns the rows of a family.
pub fn rows(family: Family) -> Vec<&'static OpSpec> {
    match family {
        Family::Vendor(domain) => vendor::rows(domain),
        family => crate::family::rows(family),
    }
}

/// Converts an error of `bb` to an error of tracing, and returns it.
pub fn fail<T>(error: impl Into<crate::Error>) -> Result<T, TraceStop> {
    Err(error.into().into())
}

/// Returns a placeholder result of a native operation with the element type of an operand, if the trace needs only types and the
/// operand's elements are unknown. The result's elements must then be unknown, too.
pub(crate) fn unknown_result(
    on: &Tracer,
    operand: &TracedTensor,
    extents: &[Extent],
) -> Option<TracedTensor> {
    match operand.elements() {
        TracedElements::Unknown => on.stand_ins(&[(operand.dtype(), extents)])?.into_iter().next(),
        TracedElements::Constant(_) | TracedElements::OfExtents(..) => None,
    }
}

/// Returns placeholder results of a native operation, if the trace needs only types and the extents may differ in other
/// runs. Results with fixed extents may be computed while tracing.
pub(crate) fn open_results(on: &Tracer, results: &[(DataType, &[Extent])]) -> Option<Vec<TracedTensor>> {
    let fixed = results.iter().all(|(_, extents)| extents.iter().all(Extent::is_fixed));
    if fixed { None } else { on.stand_ins(results) }
}
