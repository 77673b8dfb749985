//! The functions that recurrent cells apply, by the names and parameters that their attributes list.

use crate::Error;
pub(in crate::onnx) use crate::ext::cell::Activation;
use crate::onnx::Call;

impl Activation {
    /// Makes the function called `name`, in any case of letters; parameters come from the lists, or are the defaults.
    fn new(name: &str, alphas: &mut Parameters<'_>, betas: &mut Parameters<'_>) -> Option<Activation> {
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

    /// Makes the function called `name`; parameters that are not given are the defaults.
    pub(in crate::onnx) fn named(name: &str, alpha: Option<f32>, beta: Option<f32>) -> Option<Activation> {
        let (alpha, beta) = (alpha.as_slice().iter(), beta.as_slice().iter());
        Activation::new(name, &mut Parameters(alpha), &mut Parameters(beta))
    }
}

/// Parameters that an attribute lists; each function takes as many as it has.
struct Parameters<'a>(std::slice::Iter<'a, f32>);

impl Parameters<'_> {
    fn or(&mut self, default: f64) -> f64 {
        self.0.next().map_or(default, |&v| f64::from(v))
    }
}

/// Reads the functions of all directions, `defaults` for each direction if none are named.
pub(super) fn activations<T>(
    call: &Call<'_, T>,
    defaults: &[&str],
    directions: usize,
) -> Result<Vec<Activation>, Error> {
    let mut alphas = Parameters(call.floats("activation_alpha")?.unwrap_or_default().iter());
    let mut betas = Parameters(call.floats("activation_beta")?.unwrap_or_default().iter());
    let mut named = |name: &str| {
        Activation::new(name, &mut alphas, &mut betas)
            .ok_or_else(|| call.wrong("activations", format!("has `{name}`, which names no activation")))
    };
    let Some(names) = call.texts("activations")? else {
        return defaults.iter().cycle().take(defaults.len() * directions).map(|name| named(name)).collect();
    };
    if names.len() != defaults.len() * directions {
        let problem = format!("has {} names, expected {}", names.len(), defaults.len() * directions);
        return Err(call.wrong("activations", problem));
    }
    names.iter().map(|name| named(&String::from_utf8_lossy(name))).collect()
}
