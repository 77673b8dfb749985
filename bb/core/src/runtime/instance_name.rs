//! Identifies the instances of backends with layers and of combining backends.
//!
//! Different names open the same instance if they differ only in white space, in the order of options, or in options that
//! equal the defaults that a layer or a backend declares.

use super::combined::CombinedRegistration;
use super::stack::LayerRegistration;
use super::{OpenOptions, Registry, named, open};
use crate::OpenOption;

/// The identity of an instance: a name in its normal form, and the options that are not part of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceName {
    pub(super) name: String,
    pub(super) options: OpenOptions,
}

impl InstanceName {
    /// Returns the identity of the instance that a name with options opens.
    ///
    /// A part that is not a valid name keeps its spelling, because opening it is an error.
    pub(super) fn of(registry: &Registry, name: &str, options: &OpenOptions) -> InstanceName {
        let mut parts = named::stack(name);
        let backend = parts.pop().unwrap_or_default();
        let layers = LayerRegistration::all();
        let layer = |part: &str| {
            let of = layers.iter().find(|layer| layer.name == named::backend_of(part));
            normal(part, &OpenOptions::default(), of.map_or(&[], |layer| layer.options))
        };
        let mut normal_parts: Vec<String> =
            parts.into_iter().map(|part| layer(part).unwrap_or_else(|| named::tidy(part))).collect();
        let (backend, options) = base(registry, backend, options);
        normal_parts.push(backend);
        InstanceName { name: normal_parts.join("+"), options }
    }
}

/// Returns the normal form of the backend below all layers, and the options that it does not contain.
fn base(registry: &Registry, name: &str, options: &OpenOptions) -> (String, OpenOptions) {
    if let Some(combined) = CombinedRegistration::of_name(name) {
        let (backends, entries) = named::members(name);
        let backends =
            backends.into_iter().map(|of| InstanceName::of(registry, of, &OpenOptions::default()).name);
        let entries = entries.into_iter().map(|(key, value)| format!("{key}={value}"));
        let members: Vec<String> = backends.chain(entries).collect();
        return (format!("{}({})", combined.name, members.join(",")), options.clone());
    }
    match normal(name, options, registry.takes(name)) {
        Some(normal) => (normal, OpenOptions::default()),
        None => (named::tidy(name), options.clone()),
    }
}

/// Returns the normal form of one part of a name with its options; `None` if the options are not valid.
fn normal(part: &str, options: &OpenOptions, takes: &[OpenOption]) -> Option<String> {
    let (name, options) = named::split(part, options).ok()?;
    Some(named::spelled(name, &open::without_defaults(takes, &options)))
}
