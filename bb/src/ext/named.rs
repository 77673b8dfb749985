//! Families by name, for the macros of `bb-derive`, which know none.

/// Expands a family's name to its table or to its enum of operations.
///
/// One line per family.
#[doc(hidden)]
#[macro_export]
macro_rules! __family {
    ($item:ident Create) => { $crate::__family_item!($item create CreateOp) };
    ($item:ident Llm) => { $crate::__family_item!($item llm LlmOp) };
    ($item:ident Nn) => { $crate::__family_item!($item nn NnOp) };
    ($item:ident Scalar) => { $crate::__family_item!($item scalar ScalarOp) };
    ($item:ident $unknown:ident) => {
        ::core::compile_error!(::core::concat!(
            "no extension family `", ::core::stringify!($unknown), "`; the families are ",
            "`Create`, `Llm`, `Nn` and `Scalar`"
        ))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __family_item {
    (table $module:ident $operations:ident) => { $crate::ext::$module::table() };
    (operation $module:ident $operations:ident) => { $crate::ext::$module::$operations };
}

#[cfg(test)]
mod tests {
    /// Each family's module beside this one has a line above, and its name in the message.
    #[test]
    fn every_family_is_found_by_name() {
        let named = include_str!("named.rs");
        let modules: Vec<&str> =
            include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
        assert!(modules.contains(&"nn"));
        for module in modules {
            let mut letters = module.chars();
            let family: String = letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect();
            assert!(named.contains(&format!("{family}) => {{ $crate::__family_item!($item {module} {family}Op)")));
            assert!(named.contains(&format!("`{family}`")));
        }
    }
}
