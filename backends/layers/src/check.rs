//! The layer `check`, which checks results against the type and shape rules of operations.

use crate::constants::{Difference, first_difference};
use bb::ir::op::{OpSpec, Param};
use bb::{
    BoxError, DataType, Erased, Error, ErrorKind, InnerBackend, LayerCall, OpenOption, OpenOptions,
    OptionDefault, Outputs, OwnOption, Primitive, Tensor, TensorData,
};

/// A result that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The number of results is wrong.
    #[error("expected {expected} results, got {got}")]
    Count {
        /// The number of results that the operation has.
        expected: usize,
        /// The number of results that the backend returned.
        got: usize,
    },
    /// A result has a wrong element type or shape.
    #[error("result {index}: expected {expected_type}{expected_shape:?}, got {got_type}{got_shape:?}")]
    Type {
        /// The index of the result.
        index: usize,
        /// The element type by the rule.
        expected_type: DataType,
        /// The shape by the rule.
        expected_shape: Vec<usize>,
        /// The element type of the result.
        got_type: DataType,
        /// The shape of the result.
        got_shape: Vec<usize>,
    },
    /// The tensor of a constant has another element than the constant.
    #[error("element {at} is {got}, where the constant has {expected}")]
    Constant {
        /// The row-major index of the element.
        at: usize,
        /// The element of the constant.
        expected: String,
        /// The element of the backend's tensor.
        got: String,
    },
    /// An element of a result of booleans is neither 0 nor 1.
    #[error("result {index} of bool is {value} at element {at}, expected 0 or 1")]
    Truth {
        /// The index of the result.
        index: usize,
        /// The row-major index of the element.
        at: usize,
        /// The byte of the element.
        value: u8,
    },
    /// A result contains a NaN or an infinity although all operands are finite.
    #[error("result {index} has {value} at element {at}, and all operands are finite")]
    NotFinite {
        /// The index of the result.
        index: usize,
        /// The row-major index of the element.
        at: usize,
        /// The value: `NaN`, `inf` or `-inf`.
        value: &'static str,
    },
}

/// Checks results against the rules of operations: their number, element types and shapes, and optionally that finite operands give no
/// NaN and no infinity, that booleans are 0 or 1, and that the tensor of a constant has the constant's elements.
///
/// Inside the body of an operation, an infinity is no error, because for example the body of the hyperbolic tangent may take the logarithm
/// of 0. A NaN is an error there if the primitive gives none for these operands: an exponential never does, a logarithm only if an operand is
/// negative. Native operations inside a body are not judged. For this check, the layer copies each operand and result to the host. Plans call operations by their
/// methods, because a prepared kernel has packed some operands.
#[derive(bb::Backend)]
#[bb(delegate = inner, crate = bb)]
pub struct Check<B> {
    inner: B,
    values: bool,
}

impl<B> Check<B> {
    /// Checks the results of a backend. If `values`, also checks their elements.
    pub fn new(inner: B, values: bool) -> Check<B> {
        Check { inner, values }
    }
}

impl<B: InnerBackend> Check<B> {
    /// Returns the index and the name of the first element that is not finite; `None` if all are finite. If `only_nan`, skips infinities.
    fn first_not_finite(
        &self,
        x: &B::Tensor,
        only_nan: bool,
    ) -> Result<Option<(usize, &'static str)>, B::Error> {
        if !x.dtype().is_float() {
            return Ok(None);
        }
        let is_wrong = |x: f64| if only_nan { x.is_nan() } else { !x.is_finite() };
        let found = find(&self.inner.to_host(x)?, is_wrong)?;
        Ok(found.map(|(at, x)| {
            let name = match x {
                x if x.is_nan() => "NaN",
                x if x > 0.0 => "inf",
                _ => "-inf",
            };
            (at, name)
        }))
    }

    /// Returns the index and the byte of the first boolean that is neither 0 nor 1; `None` if there is none.
    fn first_no_truth(&self, x: &B::Tensor) -> Result<Option<(usize, u8)>, B::Error> {
        if x.dtype() != DataType::Bool {
            return Ok(None);
        }
        // `TensorData` refuses these bytes, so reading them back is an error.
        let Err(error) = self.inner.to_host(x) else { return Ok(None) };
        bool_byte(&self.inner, &error).map_or(Err(error), |found| Ok(Some(found)))
    }

    /// Returns whether a primitive gives no NaN for these finite operands, by its definition. Returns false for other operations.
    fn gives_no_nan(&self, spec: &'static OpSpec, operands: &[Option<B::Tensor>]) -> Result<bool, B::Error> {
        let none = |index: usize, is_outside: fn(f64) -> bool| -> Result<bool, B::Error> {
            let Some(Some(x)) = operands.get(index) else { return Ok(false) };
            Ok(find(&self.inner.to_host(x)?, is_outside)?.is_none())
        };
        let Some(op) = Primitive::from_index(spec.index).filter(|op| op.spec() == spec) else {
            return Ok(false);
        };
        match op {
            Primitive::Sqrt | Primitive::Log | Primitive::Pow => none(0, |x| x < 0.0),
            Primitive::Div => none(1, |x| x == 0.0),
            // The mean of no elements is NaN.
            Primitive::ReduceMean => Ok(operands.iter().flatten().all(|x| !x.shape().contains(&0))),
            // A type without infinity has a NaN for a number that is too large.
            Primitive::Cast => Ok(false),
            _ => Ok(true),
        }
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Check<B> {
    fn keeps_prepared(&self) -> bool {
        false
    }

    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        let (spec, is_inside) = (call.spec(), call.is_inside());
        let operands: Vec<Option<B::Tensor>> =
            (0..call.operands()).map(|index| call.operand(index).cloned()).collect();
        let types = operands.iter().map(|x| x.as_ref().map(|x| (x.dtype(), x.shape())));
        let expected = bb::layer::result_types(spec, types, call.params());
        let constant = match call.params() {
            [Param::Data(constant)] if self.values && spec == bb::Primitive::Constant.spec() => {
                Some(TensorData::clone(constant))
            }
            _ => None,
        };
        let results = call.run()?;
        if let Some(expected) = expected {
            compare::<B>(spec, &expected, &results)?;
        }
        if self.values {
            for (index, y) in results.iter().enumerate() {
                if let Some((at, value)) = self.first_no_truth(y)? {
                    return Err(wrong(spec, CheckError::Truth { index, at, value }).into());
                }
            }
        }
        if let (Some(constant), [y]) = (constant, &*results) {
            let difference = first_difference(&constant, &self.inner.to_host(y)?)?;
            if let Some(Difference { at, expected, got }) = difference {
                return Err(wrong(spec, CheckError::Constant { at, expected, got }).into());
            }
        }
        // A result that is created only from parameters may contain any value.
        let computes = spec.class != bb::ir::op::Class::Creates;
        if self.values && computes && all_finite(self, &operands)? {
            for (index, y) in results.iter().enumerate() {
                let found = self.first_not_finite(y, is_inside)?;
                if let Some((at, value)) = found
                    && (!is_inside || self.gives_no_nan(spec, &operands)?)
                {
                    return Err(wrong(spec, CheckError::NotFinite { index, at, value }).into());
                }
            }
        }
        Ok(results)
    }
}

fn wrong(spec: &OpSpec, error: CheckError) -> Error {
    Error::layer("check", spec.method, ErrorKind::Device, error)
}

fn all_finite<B: InnerBackend>(on: &Check<B>, operands: &[Option<B::Tensor>]) -> Result<bool, B::Error> {
    for x in operands.iter().flatten() {
        if on.first_not_finite(x, false)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the index and the byte in an error about a boolean that is neither 0 nor 1.
fn bool_byte<B: InnerBackend>(on: &B, error: &B::Error) -> Option<(usize, u8)> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let of_ir = match error.downcast_ref::<Error>().or_else(|| on.wrapped_in(error)) {
            Some(Error::Ir(of_ir)) => Some(of_ir),
            _ => error.downcast_ref(),
        };
        if let Some(bb_ir::Error::BoolByte { index, value }) = of_ir {
            return Some((*index, *value));
        }
        cause = error.source();
    }
    None
}

/// Compares the results with the element types and shapes of the rule.
fn compare<B: InnerBackend>(
    spec: &'static OpSpec,
    expected: &[(DataType, Vec<usize>)],
    results: &[B::Tensor],
) -> Result<(), Error> {
    if expected.len() != results.len() {
        return Err(wrong(spec, CheckError::Count { expected: expected.len(), got: results.len() }));
    }
    for (index, ((dtype, shape), y)) in expected.iter().zip(results).enumerate() {
        if *dtype != y.dtype() || shape != y.shape() {
            let error = CheckError::Type {
                index,
                expected_type: *dtype,
                expected_shape: shape.clone(),
                got_type: y.dtype(),
                got_shape: y.shape().to_vec(),
            };
            return Err(wrong(spec, error));
        }
    }
    Ok(())
}

/// Returns the first element with a property, and its row-major index.
fn find(x: &TensorData, has: impl Fn(f64) -> bool) -> Result<Option<(usize, f64)>, Error> {
    let floats = bb_ir::convert::cast(x, DataType::F64, bb_ir::convert::Rounding::default())?;
    Ok(floats.as_slice::<f64>()?.iter().copied().enumerate().find(|(_, x)| has(*x)))
}

impl bb::RegisteredLayer for Check<Erased> {
    const NAME: &'static str = "check";
    const ABOUT: &'static str = "compares the types and extents of results with the rules, and finds the first NaN, infinity or boolean other than 0 and 1";
    const OPTIONS: &'static [OpenOption] = &[OpenOption::Own(OwnOption::new(
        "values",
        OptionDefault::Bool(true),
        "whether elements are looked at",
    ))];

    fn on(inner: Erased, options: &OpenOptions) -> Result<Self, BoxError> {
        Ok(Check::new(inner, options.own("values")?))
    }
}

bb::register_layer!(Check<Erased>);
