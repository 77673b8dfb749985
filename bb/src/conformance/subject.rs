//! The backend under test, and the element types that it declares.

use super::Call;
use super::hint::hint;
use super::host::{Value, host_numbers};
use super::show::{ShownCall, shown};
use crate::{Backend, DataType, TensorData};
use bb_ir::infer;
use bb_ir::op::{Param, Primitive};
use std::fmt::{Debug, Display};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// A backend under test. Its operations are called as on the backend itself; the last call is stored, so that
/// a failure can report it.
#[derive(Debug)]
pub struct Subject<'a, B: Backend> {
    backend: &'a B,
    types: &'a [DataType],
    last: Mutex<Option<Last<B::Tensor>>>,
}

/// A stored call on tensors of the backend.
struct Last<T> {
    op: Primitive,
    operands: Vec<T>,
    params: Vec<Param<'static>>,
}

impl<T> Debug for Last<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.op.fmt(f)
    }
}

impl<'a, B: Backend> Subject<'a, B> {
    /// Makes a subject that supports these element types; cases use no others.
    pub fn new(backend: &'a B, types: &'a [DataType]) -> Self {
        Subject { backend, types, last: Mutex::new(None) }
    }

    /// Returns the backend.
    pub fn backend(&self) -> &'a B {
        self.backend
    }

    /// Tells whether the backend supports all of the element types.
    pub fn supports(&self, dtypes: &[DataType]) -> bool {
        dtypes.iter().all(|dtype| self.types.contains(dtype))
    }

    /// Returns the supported types that an operand of an operation may have.
    pub fn taken(&self, op: Primitive, operand: usize) -> Vec<DataType> {
        let all = DataType::ALL.iter().copied();
        all.filter(|&dtype| infer::accepts(op, operand, dtype) && self.supports(&[dtype])).collect()
    }

    /// Stores a call.
    fn note(&self, op: Primitive, operands: Vec<B::Tensor>, params: Vec<Param<'static>>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last { op, operands, params });
    }

    /// Writes the last call with its operands and parameters.
    pub(super) fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Last { op, operands, params }) = &*last else { return "the operation".to_owned() };
        let operand = |x: &B::Tensor| match self.backend.to_host(x) {
            Ok(host) => shown(&host),
            Err(error) => format!("(`to_host` failed: {error})"),
        };
        ShownCall { op: op.spec(), operands: operands.iter().map(operand).collect(), params }.to_string()
    }

    /// Panics with the call and the error, and with the types to declare if types are missing.
    #[track_caller]
    pub(super) fn failed(&self, call: &dyn Display, error: &B::Error) -> ! {
        let takes = |call: &Call| {
            let tried = crate::runtime::catch(|| {
                let results = call.run(self)?;
                results.iter().try_for_each(|x| self.backend.to_host(x).map(drop))
            });
            matches!(tried, Ok(Ok(())))
        };
        let hint = hint(self.types, takes).map_or_else(String::new, |hint| format!("\n{hint}"));
        panic!("{call} failed: {}{hint}", crate::error::causes(error))
    }

    /// Copies a host tensor to the backend.
    ///
    /// # Panics
    ///
    /// If the backend returns an error.
    #[track_caller]
    pub fn bring(&self, x: &TensorData) -> B::Tensor {
        match self.backend.constant(x) {
            Ok(tensor) => tensor,
            Err(error) => self.failed(&format_args!("constant({})", shown(x)), &error),
        }
    }

    /// Copies a tensor to the host.
    ///
    /// # Panics
    ///
    /// If the backend returns an error.
    #[track_caller]
    pub fn fetch(&self, x: &B::Tensor) -> TensorData {
        match self.backend.to_host(x) {
            Ok(host) => host,
            Err(error) => panic!("`to_host` failed: {error}"),
        }
    }
}

/// The type of an operand of each kind.
macro_rules! operand {
    (Tensor) => { &B::Tensor };
    (Optional) => { Option<&B::Tensor> };
    (Tensors) => { &[&B::Tensor] };
}

/// The operands of each kind as a list.
macro_rules! listed {
    (Tensor, $x:ident) => {
        vec![$x.clone()]
    };
    (Optional, $x:ident) => {
        $x.into_iter().cloned().collect::<Vec<_>>()
    };
    (Tensors, $x:ident) => {
        $x.iter().map(|x| (*x).clone()).collect::<Vec<_>>()
    };
}

/// The type of a result of each kind.
macro_rules! results {
    (Tensor) => { B::Tensor };
    (Tensors) => { Vec<B::Tensor> };
}

macro_rules! kept {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident; )*) => {
        /// The primitives: each call is stored and passed on to the backend.
        #[allow(missing_docs, reason = "the contract documents them")]
        impl<B: Backend> Subject<'_, B> {
            $(
                #[allow(clippy::missing_errors_doc, reason = "the contract documents them")]
                pub fn $method(&self $(, $input: operand!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<results!($output), B::Error> {
                    let operands: Vec<Vec<B::Tensor>> = vec![$( listed!($kind, $input) ),*];
                    let params = vec![$($( bb_ir::param_value!($pkind, $param).into_owned() ),+)?];
                    self.note(Primitive::$name, operands.concat(), params);
                    self.backend.$method($($input,)* $($($param),+)?)
                }
            )*
        }
    };
}

bb_ir::for_each_primitive!(kept);

impl<B: Backend> Deref for Subject<'_, B> {
    type Target = B;

    fn deref(&self) -> &B {
        self.backend
    }
}

/// Makes a tensor of the backend from values, whose Rust type determines the element type.
///
/// # Panics
///
/// If the backend returns an error, or the number of values does not match the shape.
#[track_caller]
pub fn tensor<B: Backend, T: Value>(
    on: &Subject<'_, B>,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[T]>,
) -> B::Tensor {
    on.bring(&T::host(shape.as_ref(), values.as_ref()))
}

/// Makes a tensor of any compute type from small numbers, each converted to the type.
///
/// # Panics
///
/// If the backend returns an error, or `dtype` is a storage type.
#[track_caller]
pub fn numbers<B: Backend>(
    on: &Subject<'_, B>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) -> B::Tensor {
    on.bring(&host_numbers(dtype, shape.as_ref(), values.as_ref()))
}
