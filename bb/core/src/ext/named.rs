//! Looks up families by name, for the macros of `bb-derive`, which do not know the families.

/// Expands a family's name to its table, or to the `impl` that lists the native methods.
///
/// There is one line for each family.
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
    ($backend:ty, $operations:path) => {
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

#[cfg(test)]
mod tests {
    /// Each family module must have a line above, and its name must be in the error message.
    #[test]
    fn every_family_is_found_by_name() {
        let named = include_str!("named.rs");
        // Modules with `#[doc(hidden)]` are not families.
        let lines: Vec<&str> = include_str!("mod.rs").lines().collect();
        let shown = lines.windows(2).filter(|pair| !matches!(pair, ["#[doc(hidden)]", _]));
        let modules: Vec<&str> =
            shown.filter_map(|pair| pair.last()?.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
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
