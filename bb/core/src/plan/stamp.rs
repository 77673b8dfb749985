//! The backend and the processor that a compiled model was built for.

use crate::Error;
use crate::service::Fingerprint;

/// The backend and the processor that a compiled model was built for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The backend's declared name, without the device.
    backend: String,
    version: String,
    fingerprint: Fingerprint,
    architecture: String,
    features: Vec<String>,
}

bb_ir::__compact!(struct Stamp { backend, version, fingerprint, architecture, features });

impl Stamp {
    /// Returns the stamp of a backend on this processor. `name` may include a device.
    pub(crate) fn new(name: &str, version: &str, fingerprint: Fingerprint) -> Stamp {
        Stamp {
            backend: name.split_once(':').map_or(name, |(backend, _)| backend).to_owned(),
            version: version.to_owned(),
            fingerprint,
            architecture: std::env::consts::ARCH.to_owned(),
            features: features(),
        }
    }

    /// Compares the stamp of a compiled model with the stamp of the backend that will run it.
    ///
    /// # Errors
    ///
    /// [`Error::SavedFor`] with the first difference; [`Error::Fingerprint`] with all operations that differ.
    pub(super) fn check(&self, own: &Stamp) -> Result<(), Error> {
        let list = |features: &[String]| features.join(" ");
        let parts = [
            ("backend", own.backend.clone(), self.backend.clone()),
            ("version of the backend", own.version.clone(), self.version.clone()),
            ("processor architecture", own.architecture.clone(), self.architecture.clone()),
            ("set of processor features", list(&own.features), list(&self.features)),
        ];
        match parts.into_iter().find(|(_, expected, got)| expected != got) {
            Some((what, expected, got)) => Err(Error::SavedFor { what, expected, got }),
            None => own.fingerprint.check(&self.fingerprint, "the compiled model"),
        }
    }
}

/// Returns the features of this processor that kernels are selected by.
fn features() -> Vec<String> {
    let mut found = Vec::new();
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        macro_rules! detect {
            ($($feature:tt),*) => { $(
                if std::arch::is_x86_feature_detected!($feature) {
                    found.push($feature.to_owned());
                }
            )* };
        }
        detect!("avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vnni");
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! detect {
            ($($feature:tt),*) => { $(
                if std::arch::is_aarch64_feature_detected!($feature) {
                    found.push($feature.to_owned());
                }
            )* };
        }
        detect!("neon", "fp16", "dotprod", "i8mm");
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named_with_both_sides() {
        let own = Stamp {
            backend: "cpu".to_owned(),
            version: "0.1.0".to_owned(),
            fingerprint: Fingerprint::new("0.1.0", "a::B", []),
            architecture: "x86_64".to_owned(),
            features: vec!["avx2".to_owned(), "fma".to_owned()],
        };
        own.check(&own.clone()).unwrap();
        let refused = |other: Stamp| other.check(&own).unwrap_err().to_string();
        for (other, expected) in [
            (
                Stamp { backend: "gpu".to_owned(), ..own.clone() },
                "the compiled model is for another backend: expected `cpu`, got `gpu`",
            ),
            (
                Stamp { version: "0.2.0".to_owned(), ..own.clone() },
                "the compiled model is for another version of the backend: expected `0.1.0`, got `0.2.0`",
            ),
            (
                Stamp { fingerprint: Fingerprint::new("0.1.0", "a::C", []), ..own.clone() },
                "the fingerprint of the compiled model differs: the type of the backend: expected `a::B`, got `a::C`",
            ),
            (
                Stamp { architecture: "aarch64".to_owned(), ..own.clone() },
                "the compiled model is for another processor architecture: expected `x86_64`, got `aarch64`",
            ),
            (
                Stamp { features: vec!["avx2".to_owned()], ..own.clone() },
                "the compiled model is for another set of processor features: expected `avx2 fma`, got `avx2`",
            ),
        ] {
            assert_eq!(refused(other), expected);
        }
    }
}
