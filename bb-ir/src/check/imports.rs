//! Reads the versions of the operator sets that a model or a function imports.
//!
//! ONNX requires exactly one import of each domain. Some programs write two, for instance ONNX's own version converter; others
//! write none for the domains that ONNX Runtime knows. ONNX Runtime runs these models. This crate runs them with the same
//! meaning, and adds a [`Warning`].

use crate::Error;
use crate::graph::Warning;
use crate::opset::{domain_name, supported_opsets};
use crate::proto::OperatorSetIdProto;
use std::collections::BTreeMap;

/// The operator sets that a model or a function imports.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// The version of each domain's operators; `""` is ONNX's own domain.
    pub(super) versions: BTreeMap<String, i64>,
    /// Warnings about domains that are imported in several versions.
    pub(super) warnings: Vec<Warning>,
}

impl Imports {
    /// Reads the imports of a model, or of the function `function`. If a domain is imported several times, the last import is
    /// used.
    ///
    /// # Errors
    ///
    /// [`Error::Opset`] if the version that is used is not supported.
    pub(super) fn read(imports: &[OperatorSetIdProto], function: Option<&str>) -> Result<Imports, Error> {
        let mut versions = BTreeMap::new();
        let mut others: BTreeMap<String, i64> = BTreeMap::new();
        for entry in imports {
            let (domain, version) = (domain_name(entry.domain()), entry.version());
            match versions.insert(domain.to_owned(), version) {
                Some(before) if before != version => {
                    others.insert(domain.to_owned(), before);
                }
                _ => {}
            }
        }
        for (domain, &version) in &versions {
            let (oldest, newest) = supported_opsets(domain);
            if !(oldest..=newest).contains(&version) {
                return Err(Error::Opset { domain: domain.clone(), version, oldest, newest });
            }
        }
        let warning = |(domain, other): (String, i64)| {
            let used = *versions.get(&domain)?;
            Some(Warning::ImportedTwice { function: function.map(str::to_owned), domain, other, used })
        };
        let warnings = others.into_iter().filter_map(warning).collect();
        Ok(Imports { versions, warnings })
    }
}
