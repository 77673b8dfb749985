//! Creates a `FirstOf` from a name: `first_of(gpu, cpu, Softmax=cpu, fallback=lost, place=cost)`.

use super::settings::{Fallback, NAME};
use super::several::FirstOf;
use crate::{BackendHandle, CombinedRegistration, Error};
use bb_core::__private::inventory;
use bb_core::Combined;

/// The keys of settings. Every other entry is a pin.
const KEYS: [&str; 2] = ["fallback", "place"];

inventory::submit! { CombinedRegistration::of::<FirstOf>() }

impl Combined for FirstOf {
    const NAME: &'static str = NAME;

    const ABOUT: &'static str =
        "runs each operation on the backend that suits it, the first of those in parentheses if several do";

    fn of(backends: Vec<BackendHandle>, entries: &[(&str, &str)]) -> Result<FirstOf, Error> {
        let mut made = FirstOf::new(backends)?;
        for &(key, value) in entries {
            made = match key {
                "fallback" => made.with_fallback(fallback(value)?),
                "place" if is_order(value)? => made.with_order(),
                "place" => made,
                pinned => match bb_ir::nearest(pinned, KEYS) {
                    Some(nearest) if !made.backends().iter().any(|on| on.name() == value) => {
                        return Err(Error::UnknownOption {
                            backend: Some(NAME),
                            option: pinned.to_owned(),
                            nearest: Some(nearest.to_owned()),
                            takes: KEYS.map(str::to_owned).to_vec(),
                        });
                    }
                    _ => made.with_pin(pinned, value)?,
                },
            };
        }
        Ok(made)
    }
}

fn is_order(value: &str) -> Result<bool, Error> {
    let (option, got) = (|| "place".to_owned(), || value.to_owned());
    match value {
        "order" => Ok(true),
        "cost" => Ok(false),
        _ => Err(Error::OptionValue { option: option(), expected: "`cost` or `order`", got: got() }),
    }
}

fn fallback(value: &str) -> Result<Fallback, Error> {
    match value {
        "never" => Ok(Fallback::Never),
        "lost" => Ok(Fallback::WhenLost),
        "failed" => Ok(Fallback::WhenFailed),
        _ => Err(Error::OptionValue {
            option: "fallback".to_owned(),
            expected: "`never`, `lost` or `failed`",
            got: value.to_owned(),
        }),
    }
}
