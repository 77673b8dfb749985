::core::compile_error! {
    "unknown option `nme` (did you mean `name`?); expected `name`, `version`, `crate`, `new`, `open`, `options`, `devices`, `extensions`, `vendors`, `instances` or `delegate`"
}
::core::compile_error! {
    "expected a string: write `version = \"1.2.0\"`"
}
const _: () = {
    #[automatically_derived]
    impl ::bb::__private::Declared for Cpu
    where
        for<'it> Cpu: ::bb::__private::IsBackend<'it>,
    {
        const NAME: &'static ::bb::__private::str = "cpu";
        const VERSION: &'static ::bb::__private::str = ::bb::__private::env!(
            "CARGO_PKG_VERSION"
        );
        const PATH: &'static ::bb::__private::str = ::bb::__private::concat!(
            ::bb::__private::module_path!(), "::", "Cpu"
        );
        const FAMILIES: &'static [::bb::__private::FamilyTable<Self>] = &[
            ::bb::__family!(table Nn),
        ];
        fn create(
            _: &::bb::__private::OpenOptions,
        ) -> ::bb::__private::Result<Self, ::bb::__private::BoxError> {
            ::bb::__private::ByDefault::<Self>::NEW.made()
        }
        #[inline(never)]
        fn start(
            self,
            how: ::bb::__private::Start,
        ) -> ::bb::__private::Arc<::bb::__private::Runtime> {
            ::bb::__private::start(self, how)
        }
    }
    const _: fn() = || ::bb::__private::Makes::<Cpu>::NEW.by_default();
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < Cpu > ()
    }
    ::bb::__families_named! {
        Cpu
    }
};
