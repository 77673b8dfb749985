const _: () = {
    #[automatically_derived]
    impl ::bb::__private::Declared for Cpu<f32>
    where
        for<'it> Cpu<f32>: ::bb::__private::IsBackend<'it>,
    {
        const NAME: &'static ::bb::__private::str = "cpu-f32";
        const VERSION: &'static ::bb::__private::str = ::bb::__private::env!(
            "CARGO_PKG_VERSION"
        );
        const PATH: &'static ::bb::__private::str = ::bb::__private::concat!(
            ::bb::__private::module_path!(), "::", "Cpu<f32>"
        );
        fn create(
            _: &::bb::__private::OpenOptions,
        ) -> ::bb::__private::Result<Self, ::bb::__private::BoxError> {
            ::bb::__private::ByDefault::<Self>::NEW.made()
        }
        #[inline(never)]
        fn start(
            self,
            how: ::bb::__private::Start,
        ) -> ::bb::__private::Arc<dyn ::bb::__private::BackendRuntime> {
            ::bb::__private::start(self, how)
        }
    }
    const _: fn() = || ::bb::__private::Makes::<Cpu<f32>>::NEW.by_default();
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < Cpu < f32 > > ()
    }
    ::bb::__families_named! {
        Cpu < f32 >
    }
    #[automatically_derived]
    impl ::bb::__private::Declared for Cpu<f64>
    where
        for<'it> Cpu<f64>: ::bb::__private::IsBackend<'it>,
    {
        const NAME: &'static ::bb::__private::str = "cpu-f64";
        const VERSION: &'static ::bb::__private::str = ::bb::__private::env!(
            "CARGO_PKG_VERSION"
        );
        const PATH: &'static ::bb::__private::str = ::bb::__private::concat!(
            ::bb::__private::module_path!(), "::", "Cpu<f64>"
        );
        fn create(
            _: &::bb::__private::OpenOptions,
        ) -> ::bb::__private::Result<Self, ::bb::__private::BoxError> {
            ::bb::__private::ByDefault::<Self>::NEW.made()
        }
        #[inline(never)]
        fn start(
            self,
            how: ::bb::__private::Start,
        ) -> ::bb::__private::Arc<dyn ::bb::__private::BackendRuntime> {
            ::bb::__private::start(self, how)
        }
    }
    const _: fn() = || ::bb::__private::Makes::<Cpu<f64>>::NEW.by_default();
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < Cpu < f64 > > ()
    }
    ::bb::__families_named! {
        Cpu < f64 >
    }
};
