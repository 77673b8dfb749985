//! The activation functions of recurrent cells, by name and by number.

use crate::Error;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};

/// An element-wise function that a recurrent cell applies to a gate.
///
/// The options of [`Nn::lstm`](crate::ext::Nn::lstm) and of the other cells list the numbers of functions, and their
/// parameters. [`decode`](Activation::decode) decodes both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `alpha * x + beta`.
    Affine {
        /// The factor.
        alpha: f64,
        /// The summand.
        beta: f64,
    },
    /// `x` if it is positive, otherwise `alpha * (exp(x) - 1)`.
    Elu {
        /// The factor.
        alpha: f64,
    },
    /// `alpha * x + beta`, clamped to the range from 0 to 1.
    HardSigmoid {
        /// The factor.
        alpha: f64,
        /// The summand.
        beta: f64,
    },
    /// `x` if it is positive, otherwise `alpha * x`.
    LeakyRelu {
        /// The factor.
        alpha: f64,
    },
    /// `max(x, 0)`.
    Relu,
    /// `alpha * tanh(beta * x)`.
    ScaledTanh {
        /// The factor of the result.
        alpha: f64,
        /// The factor of the argument.
        beta: f64,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `log(1 + exp(x))`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// The hyperbolic tangent.
    Tanh,
    /// `x` if it is at least `alpha`, otherwise 0.
    ThresholdedRelu {
        /// The threshold.
        alpha: f64,
    },
}

/// The functions, in the order of their numbers.
const NUMBERED: [fn(f64, f64) -> Activation; 11] = [
    |alpha, beta| Activation::Affine { alpha, beta },
    |alpha, _| Activation::Elu { alpha },
    |alpha, beta| Activation::HardSigmoid { alpha, beta },
    |alpha, _| Activation::LeakyRelu { alpha },
    |_, _| Activation::Relu,
    |alpha, beta| Activation::ScaledTanh { alpha, beta },
    |_, _| Activation::Sigmoid,
    |_, _| Activation::Softplus,
    |_, _| Activation::Softsign,
    |_, _| Activation::Tanh,
    |alpha, _| Activation::ThresholdedRelu { alpha },
];

impl Activation {
    /// Returns the function with this name, ignoring case. Parameters are taken from the lists; missing ones have their
    /// defaults.
    pub fn new(name: &str, alphas: &mut Parameters<'_>, betas: &mut Parameters<'_>) -> Option<Activation> {
        Some(match name.to_ascii_lowercase().as_str() {
            "affine" => Activation::Affine { alpha: alphas.or(1.0), beta: betas.or(0.0) },
            "elu" => Activation::Elu { alpha: alphas.or(1.0) },
            "hardsigmoid" => Activation::HardSigmoid { alpha: alphas.or(0.2), beta: betas.or(0.5) },
            "leakyrelu" => Activation::LeakyRelu { alpha: alphas.or(0.01) },
            "relu" => Activation::Relu,
            "scaledtanh" => Activation::ScaledTanh { alpha: alphas.or(1.0), beta: betas.or(1.0) },
            "sigmoid" => Activation::Sigmoid,
            "softplus" => Activation::Softplus,
            "softsign" => Activation::Softsign,
            "tanh" => Activation::Tanh,
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: alphas.or(1.0) },
            _ => return None,
        })
    }

    /// Returns the number of the function, and its parameters `alpha` and `beta`. A missing parameter is 0.
    pub fn encode(self) -> (i64, [f64; 2]) {
        match self {
            Activation::Affine { alpha, beta } => (0, [alpha, beta]),
            Activation::Elu { alpha } => (1, [alpha, 0.0]),
            Activation::HardSigmoid { alpha, beta } => (2, [alpha, beta]),
            Activation::LeakyRelu { alpha } => (3, [alpha, 0.0]),
            Activation::Relu => (4, [0.0; 2]),
            Activation::ScaledTanh { alpha, beta } => (5, [alpha, beta]),
            Activation::Sigmoid => (6, [0.0; 2]),
            Activation::Softplus => (7, [0.0; 2]),
            Activation::Softsign => (8, [0.0; 2]),
            Activation::Tanh => (9, [0.0; 2]),
            Activation::ThresholdedRelu { alpha } => (10, [alpha, 0.0]),
        }
    }

    /// Decodes the functions of a cell from the options of its operation: their numbers, and two parameters for each.
    /// If the list of functions is empty, the functions named in `defaults` are used.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if the lengths of the lists do not match, or if there is no function with a number.
    pub fn decode(
        op: &'static str,
        defaults: &[&str],
        functions: &[i64],
        parameters: &[f64],
    ) -> Result<Vec<Activation>, Error> {
        let wrong =
            |part: &'static str, problem| Error::Operator { op: op.to_owned(), part: part.into(), problem };
        if functions.is_empty() {
            return Ok(defaults.iter().filter_map(|name| Activation::named(name, None, None)).collect());
        }
        if functions.len() != defaults.len() {
            let problem = format!("has {} numbers, expected {}", functions.len(), defaults.len());
            return Err(wrong("functions", problem));
        }
        if parameters.len() != 2 * functions.len() {
            let problem = format!("has {} numbers, expected {}", parameters.len(), 2 * functions.len());
            return Err(wrong("parameters", problem));
        }
        let (pairs, _) = parameters.as_chunks::<2>();
        functions
            .iter()
            .zip(pairs)
            .map(|(&number, &[alpha, beta])| {
                let make = usize::try_from(number).ok().and_then(|number| NUMBERED.get(number));
                let make = make.ok_or_else(|| {
                    wrong("functions", format!("has {number}, expected 0 to {}", NUMBERED.len() - 1))
                })?;
                Ok(make(alpha, beta))
            })
            .collect()
    }

    /// Returns the function with this name. Parameters that are `None` have their defaults.
    pub fn named(name: &str, alpha: Option<f32>, beta: Option<f32>) -> Option<Activation> {
        let (alpha, beta) = (alpha.as_slice().iter(), beta.as_slice().iter());
        Activation::new(name, &mut Parameters(alpha), &mut Parameters(beta))
    }

    /// Applies the function.
    pub fn apply(self, on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        let constant = |value| on.scalar_like(x, value);
        match self {
            Activation::Affine { alpha, beta } => on.add(&on.mul(x, &constant(alpha)?)?, &constant(beta)?),
            Activation::Elu { alpha } => on.elu(x, alpha),
            Activation::HardSigmoid { alpha, beta } => on.hard_sigmoid(x, alpha, beta),
            Activation::LeakyRelu { alpha } => on.leaky_relu(x, alpha),
            Activation::Relu => on.relu(x),
            Activation::ScaledTanh { alpha, beta } => {
                on.mul(&on.tanh(&on.mul(x, &constant(beta)?)?)?, &constant(alpha)?)
            }
            Activation::Sigmoid => on.sigmoid(x),
            Activation::Softplus => on.softplus(x),
            Activation::Softsign => on.div(x, &on.add(&on.abs(x)?, &constant(1.0)?)?),
            Activation::Tanh => on.tanh(x),
            Activation::ThresholdedRelu { alpha } => {
                on.r#where(&on.greater_or_equal(x, &constant(alpha)?)?, x, &constant(0.0)?)
            }
        }
    }
}

/// The parameters that an attribute lists, in the order of the functions. Each function consumes the parameters that it
/// has.
pub struct Parameters<'a>(pub std::slice::Iter<'a, f32>);

impl Parameters<'_> {
    fn or(&mut self, default: f64) -> f64 {
        self.0.next().map_or(default, |&v| f64::from(v))
    }
}
