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
            normal(part, of.map_or(&[], |layer| layer.options)).unwrap_or_else(|| named::tidy(part))
        };
        let mut normal_parts: Vec<String> = parts.into_iter().map(layer).collect();
        let (backend, options) = base(registry, backend, options);
        normal_parts.push(backend);
        InstanceName { name: normal_parts.join("+"), options }
    }
}

/// Returns the name and the options of the backend below all layers. The options are not joined with the name, because their
/// values may contain any character.
fn base(registry: &Registry, name: &str, options: &OpenOptions) -> (String, OpenOptions) {
    if let Some(combined) = CombinedRegistration::of_name(name) {
        let (backends, entries) = named::members(name);
        let spelled = |of| {
            let InstanceName { name, options } = InstanceName::of(registry, of, &OpenOptions::default());
            named::spelled(&name, &options)
        };
        let backends = backends.into_iter().map(spelled);
        let entries = entries.into_iter().map(|(key, value)| format!("{key}={value}"));
        let members: Vec<String> = backends.chain(entries).collect();
        return (format!("{}({})", combined.name, members.join(",")), options.clone());
    }
    match named::split(name, options) {
        Ok((backend, options)) => {
            (backend.to_owned(), open::without_defaults(registry.takes(name), &options))
        }
        Err(_) => (named::tidy(name), options.clone()),
    }
}

/// Returns the normal form of a layer with the options in its name; `None` if the options are not valid.
fn normal(part: &str, takes: &[OpenOption]) -> Option<String> {
    let (name, options) = named::split(part, &OpenOptions::default()).ok()?;
    Some(named::spelled(name, &open::without_defaults(takes, &options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_separators_are_not_other_options() {
        let registry = Registry::builder().build();
        let of = |name: &str, options: &OpenOptions| InstanceName::of(&registry, name, options);
        let one = OpenOptions::default().with_own("a", "1,b=2");
        let two = OpenOptions::default().with_own("a", "1").with_own("b", "2");
        assert_ne!(of("log+chip", &one), of("log+chip", &two));
        assert_eq!(of("log + chip(b=2, a=1)", &OpenOptions::default()), of("log+chip", &two));
    }
}
