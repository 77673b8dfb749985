const _: () = {
    #[automatically_derived]
    impl ::bb::__private::Declared for Gpu
    where
        for<'it> Gpu: ::bb::__private::IsBackend<'it>,
    {
        const NAME: &'static ::bb::__private::str = "gpu";
        const VERSION: &'static ::bb::__private::str = ::bb::__private::env!(
            "CARGO_PKG_VERSION"
        );
        const PATH: &'static ::bb::__private::str = ::bb::__private::concat!(
            ::bb::__private::module_path!(), "::", "Gpu"
        );
        const FAMILIES: &'static [::bb::__private::FamilyTable<Self>] = &[
            ::bb::__family!(table Nn),
            acme::Acme::<Self>(),
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
    const _: fn() = || ::bb::__private::Makes::<Gpu>::NEW.by_default();
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < Gpu > ()
    }
    ::bb::__families_named! {
        Gpu
    }
};
