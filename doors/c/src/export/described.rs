//! The functions that describe a library's backend.

use crate::abi::{Description, Devices, Failure, Items, OptionSpec, Raw, Status, Text};
use crate::failure::{Failed, guarded};
use bb_core::{DataTypes, Declared, OpenOption};
use bb_ir::op::Family;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// The lists of a description. They live as long as the library.
#[derive(Clone, Copy)]
struct DescriptionTexts {
    options: &'static [OptionSpec],
    natives: &'static [Text],
}

// SAFETY: the strings are constants, which are never modified.
unsafe impl Send for DescriptionTexts {}

/// Returns the lists of a backend. They are created once per backend.
fn kept<B: Declared>() -> DescriptionTexts {
    static KEPT: Mutex<BTreeMap<&'static str, DescriptionTexts>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    *kept.entry(B::PATH).or_insert_with(|| {
        let options: Vec<OptionSpec> = B::OPTIONS.iter().map(option).collect();
        // Operations of vendors are left out, because the program that loads the library may not have their domain.
        let tables = B::FAMILIES.iter().filter(|table| !matches!(table.family(), Family::Vendor(_)));
        let names = tables.flat_map(|table| {
            let native = table.native();
            let rows = bb_core::layer::rows(table.family()).into_iter();
            rows.filter(move |row| native.contains(row.index)).map(|row| Text::new(row.method))
        });
        DescriptionTexts { options: options.leak(), natives: names.collect::<Vec<_>>().leak() }
    })
}

fn option(option: &OpenOption) -> OptionSpec {
    let name = option.name();
    match option.own() {
        None => OptionSpec {
            name: Text::new(name),
            kind: Text::new(name),
            initial: Text::new(""),
            about: Text::new(""),
        },
        Some(own) => OptionSpec {
            name: Text::new(name),
            kind: Text::new(own.default.type_name()),
            initial: Text::new(own.default.to_string().leak()),
            about: Text::new(own.about),
        },
    }
}

fn description<B: Declared>() -> Description {
    let DescriptionTexts { options, natives } = kept::<B>();
    let own = [B::VERSION, B::PATH, env!("CARGO_PKG_VERSION")];
    Description {
        size: size_of::<Description>(),
        name: Text::new(B::NAME),
        version: Text::new(B::VERSION),
        path: Text::new(B::PATH),
        types: 0,
        fingerprint: bb_ir::op::fingerprint(own, []),
        options: Items::of(options),
        natives: Items::of(natives),
    }
}

/// `bb_library.describe`.
pub(super) unsafe extern "C" fn describe<B: Declared>(into: *mut Description, error: *mut Failure) -> Status {
    let body = || {
        // SAFETY: the host lends the structure for the call, and its first field is its size in bytes.
        unsafe { super::fill(into, &description::<B>()) };
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}

/// Encodes a set of element types as bits.
fn bits(types: DataTypes) -> u64 {
    types.iter().fold(0, |bits, dtype| bits | 1 << dtype.to_onnx())
}

/// `bb_library.types`.
pub(super) unsafe extern "C" fn types(backend: *mut Raw) -> u64 {
    // SAFETY: `open` created the backend.
    let opened = unsafe { super::opened(backend) };
    let types =
        opened.map(|opened| bb_core::runtime::catch(|| bits(bb_core::Backend::types(&opened.erased))));
    types.map_or(0, |types| types.unwrap_or(0))
}

/// `bb_library.devices`.
pub(super) unsafe extern "C" fn devices<B: Declared>(
    device: Devices,
    context: *mut c_void,
    error: *mut Failure,
) -> Status {
    let body = || {
        let found = B::devices().map_err(|e| Failed::caused(bb_ir::ErrorKind::Device, &*e))?;
        let Some(device) = device else { return Ok(()) };
        for of in found {
            // SAFETY: the host passes its function with its context, and the strings live during the call.
            unsafe { device(context, Text::new(&of.name), Text::new(&of.description)) };
        }
        Ok(())
    };
    // SAFETY: the host lends `error` for the call.
    unsafe { guarded(error, body) }
}
