//! Finds families by name, for the macros of `bb-derive`, which have no list of the families. Also checks that a
//! backend's derive names every family that the backend implements.

use super::Declared;
use crate::contract::{Native, OpSet};
use crate::ext::vendor::VendorOp;
use crate::layer::Delegate;
use bb_ir::op::Family;
use std::marker::PhantomData;

/// Expands a family's name to its table, or to the `impl` that lists the native methods.
///
/// There is one rule for each family.
#[doc(hidden)]
#[macro_export]
macro_rules! __family {
    ($item:ident Bits $($with:tt)*) => { $crate::__family_item! { $item bits BitsOp $($with)* } };
    ($item:ident Create $($with:tt)*) => { $crate::__family_item! { $item create CreateOp $($with)* } };
    ($item:ident Image $($with:tt)*) => { $crate::__family_item! { $item image ImageOp $($with)* } };
    ($item:ident Index $($with:tt)*) => { $crate::__family_item! { $item index IndexOp $($with)* } };
    ($item:ident Llm $($with:tt)*) => { $crate::__family_item! { $item llm LlmOp $($with)* } };
    ($item:ident Ml $($with:tt)*) => { $crate::__family_item! { $item ml MlOp $($with)* } };
    ($item:ident Nn $($with:tt)*) => { $crate::__family_item! { $item nn NnOp $($with)* } };
    ($item:ident Quant $($with:tt)*) => { $crate::__family_item! { $item quant QuantOp $($with)* } };
    ($item:ident Scalar $($with:tt)*) => { $crate::__family_item! { $item scalar ScalarOp $($with)* } };
    ($item:ident Train $($with:tt)*) => { $crate::__family_item! { $item train TrainOp $($with)* } };
    // Without this `impl`, rustc would also report that the vendor's operations are implemented without
    // `#[bb::native]`.
    (natives $unknown:ident [$($attribute:tt)*] [] [$($on:tt)*] [] $($method:tt)*) => {
        $crate::__family! { unknown $unknown }

        impl<Operation: $crate::__private::VendorOp> $crate::ext::Native<Operation> for $($on)* {
            const NATIVE: &'static [Operation] = &[];
        }
    };
    ($item:ident $unknown:ident $($with:tt)*) => {
        ::core::compile_error! { ::core::concat!(
            "no extension family `", ::core::stringify!($unknown), "`; the families are ",
            "`Bits`, `Create`, `Image`, `Index`, `Llm`, `Ml`, `Nn`, `Quant`, `Scalar` and `Train`; for the operations of a vendor \
             write `#[bb(vendors(path::to::", ::core::stringify!($unknown), "))]` and \
             `#[bb::native(operations = path::to::", ::core::stringify!($unknown), "Op)]`"
        )}
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __family_item {
    (table $module:ident $operations:ident) => { $crate::ext::$module::table() };
    (
        natives $module:ident $operations:ident
        [$($attribute:tt)*] [$($generics:tt)*] [$($on:tt)*] [$($bounds:tt)*]
        $( $(#[$condition:meta])* $method:literal )*
    ) => {
        $($attribute)*
        #[automatically_derived]
        impl $($generics)* $crate::ext::Native<$crate::ext::$module::$operations> for $($on)* $($bounds)* {
            const NATIVE: &'static [$crate::ext::$module::$operations] = &[
                $( $(#[$condition])* $crate::ext::$module::$operations::written($method) ),*
            ];
        }
    };
}

/// Reports the methods of a layer's `impl bb::Layer` that are operations of a family.
#[doc(hidden)]
#[macro_export]
macro_rules! __layer_methods {
    () => {};
    ($($method:ident)+) => {
        $crate::__private::ir::for_each_family!($crate::__private::not_of_layer, [$($method)+]);
    };
}

/// Asserts that the derive of a backend names every family that the backend implements.
#[doc(hidden)]
#[macro_export]
macro_rules! __families_named {
    (@each $kind:ident $backend:ty) => {
        $crate::__families_named! { @ $kind $backend;
            Bits bits BitsOp, Create create CreateOp, Image image ImageOp, Index index IndexOp, Llm llm LlmOp,
            Ml ml MlOp, Nn nn NnOp, Quant quant QuantOp, Scalar scalar ScalarOp, Train train TrainOp
        }
    };
    // This rule is used inside a generic `impl`, where the bounds of the layer hold.
    (@ layer $layer:ty; $($family:ident $module:ident $operations:ident),*) => {{
        #[allow(unused_imports, reason = "a layer that implements all families does not need it")]
        use $crate::__private::NotWritten as _;
        $(
            ::core::assert!(
                !$crate::__private::Written::<$layer, $crate::ext::$module::$operations>::WRITTEN
                    || $crate::__private::lists_family(
                        <$layer as $crate::__private::Delegate>::NATIVES,
                        $crate::ir::op::Family::$family,
                    ),
                ::core::concat!(
                    "the family `", ::core::stringify!($family), "` is implemented but not adopted, so that no plan \
                     would call it: write `extensions(", ::core::stringify!($family), ")` beside `delegate` in `#[bb(…)]`"
                )
            );
        )*
    }};
    (@ backend $backend:ty; $($family:ident $module:ident $operations:ident),*) => {
        $(
            const _: () = {
                #[allow(unused_imports, reason = "a backend that implements the family does not need it")]
                use $crate::__private::{NoBackend as _, NotWritten as _};
                const KEY: u64 = $crate::__private::family_key($crate::ir::op::Family::$family);
                ::core::assert!(
                    !$crate::__private::Written::<$backend, $crate::ext::$module::$operations>::WRITTEN
                        || $crate::__private::NamedFamily::<$backend, KEY>::NAMED,
                    ::core::concat!(
                        "the family `", ::core::stringify!($family), "` is implemented but not adopted, so that no plan \
                         would call it: write `#[bb(extensions(", ::core::stringify!($family), "))]`"
                    )
                );
            };
        )*
    };
    ($backend:ty) => {
        $crate::__families_named! { @each backend $backend }
    };
}

/// Asserts that the derive of a backend names a vendor's family that the backend implements.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_named {
    // The layer is checked on an inner backend of any type, because a generic constant is only evaluated where it is used.
    (generic $inner:ident $layer:ty, $operations:path) => {
        const _: () = {
            type VendorLayer<$inner> = $layer;
            $crate::__vendor_named! { @layer VendorLayer<$crate::Erased>, $operations }
        };
    };
    (@layer $layer:ty, $operations:path) => {
        const _: () = {
            #[allow(unused_imports, reason = "a layer does not need it")]
            use $crate::__private::NoLayer as _;
            ::core::assert!(
                $crate::__private::LayerVendor::<$layer, $operations>::NAMED,
                "the operations of a vendor are implemented but not adopted, so that no plan would call them: name their trait \
                 in `vendors(…)` beside `delegate` in `#[bb(…)]`"
            );
        };
    };
    ($backend:ty, $operations:path) => {
        $crate::__vendor_named! { @layer $backend, $operations }
        const _: () = {
            #[allow(unused_imports, reason = "a backend that a derive registers does not need it")]
            use $crate::__private::NotRegistered as _;
            ::core::assert!(
                $crate::__private::NamedVendor::<$backend, $operations>::NAMED,
                "the operations of a vendor are implemented but not adopted, so that no plan would call them: name their trait \
                 in `#[bb(vendors(…))]`"
            );
        };
    };
}

/// A compile-time check whether a backend implements a family. `Operation` is the family's enum of operations.
///
/// If the bounds of the inherent `impl` hold, its constant takes precedence over the constant of [`NotWritten`].
#[derive(Debug)]
pub struct Written<B, Operation>(PhantomData<(B, Operation)>);

impl<B: Native<Operation>, Operation: 'static> Written<B, Operation> {
    /// Always true, because the bounds of this `impl` require that the backend implements the family.
    pub const WRITTEN: bool = true;
}

/// The constant of [`Written`] for backends that do not implement the family.
pub trait NotWritten {
    /// Always false.
    const WRITTEN: bool = false;
}

impl<B, Operation> NotWritten for Written<B, Operation> {}

/// Returns true if the derive of a backend lists a family.
pub const fn names_family<B: Declared>(family: Family) -> bool {
    let mut tables = B::FAMILIES;
    while let [first, rest @ ..] = tables {
        if first.family().is(family) {
            return true;
        }
        tables = rest;
    }
    false
}

/// Returns whether a list of native operations contains a family.
pub const fn lists_family(natives: &[(Family, OpSet)], family: Family) -> bool {
    let mut natives = natives;
    while let [first, rest @ ..] = natives {
        if first.0.is(family) {
            return true;
        }
        natives = rest;
    }
    false
}

/// Returns a hash of the family's name, for the parameter `KEY` of [`NamedFamily`].
pub const fn family_key(family: Family) -> u64 {
    bb_ir::wire::hash_name(family.name())
}

/// A compile-time check whether the derive of a backend names a family. `KEY` is the family's [`family_key`].
#[derive(Debug)]
pub struct NamedFamily<B, const KEY: u64>(PhantomData<B>);

impl<B: Declared, const KEY: u64> NamedFamily<B, KEY> {
    /// Whether the derive names the family.
    pub const NAMED: bool = {
        let (mut tables, mut named) = (B::FAMILIES, false);
        while let [first, rest @ ..] = tables {
            named = named || family_key(first.family()) == KEY;
            tables = rest;
        }
        named
    };
}

/// The constant of [`NamedFamily`] for types that are no declared backends. Another error reports these types.
pub trait NoBackend {
    /// Always true, so that no second error is reported.
    const NAMED: bool = true;
}

impl<B, const KEY: u64> NoBackend for NamedFamily<B, KEY> {}

/// A compile-time check whether the derive of a backend names a vendor's family.
#[derive(Debug)]
pub struct NamedVendor<B, Operation>(PhantomData<(B, Operation)>);

impl<B: Declared, Operation: VendorOp> NamedVendor<B, Operation> {
    /// Whether the derive names the family.
    pub const NAMED: bool = names_family::<B>(Operation::FAMILY);
}

/// The constant of [`NamedVendor`] for types that no derive registers. For these types, no derive has to name the
/// family.
pub trait NotRegistered {
    /// Always true, so that no error is reported.
    const NAMED: bool = true;
}

impl<B, Operation> NotRegistered for NamedVendor<B, Operation> {}

/// A compile-time check whether the derive of a layer names a vendor's family.
#[derive(Debug)]
pub struct LayerVendor<L, Operation>(PhantomData<(L, Operation)>);

impl<L: Delegate, Operation: VendorOp> LayerVendor<L, Operation> {
    /// Whether the derive names the family.
    pub const NAMED: bool = lists_family(L::NATIVES, Operation::FAMILY);
}

/// The constant of [`LayerVendor`] for types that are no layers.
pub trait NoLayer {
    /// Always true, so that no error is reported.
    const NAMED: bool = true;
}

impl<L, Operation> NoLayer for LayerVendor<L, Operation> {}

#[cfg(test)]
mod tests {
    /// Checks that each family module has a rule in the macro above, and that its name is in the error message.
    #[test]
    fn every_family_is_found_by_name() {
        let named = include_str!("adopted.rs");
        let lines = include_str!("../family/mod.rs").lines();
        let modules: Vec<&str> =
            lines.filter_map(|line| line.strip_prefix("pub(crate) mod ")?.strip_suffix(" {")).collect();
        assert!(modules.contains(&"nn"));
        for module in modules {
            let mut letters = module.chars();
            let family: String =
                letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect();
            assert!(named.contains(&format!(
                "{family} $($with:tt)*) => {{ $crate::__family_item! {{ $item {module} {family}Op "
            )));
            assert!(named.contains(&format!("`{family}`")));
            let families = named.split("__families_named").nth(2).expect("the list").replace('\n', " ");
            assert!(families.contains(&format!("{family} {module} {family}Op")), "{family}");
        }
    }
}
