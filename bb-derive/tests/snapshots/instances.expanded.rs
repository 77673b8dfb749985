const _: () = {
    type __Instance0 = Cpu<f32>;
    #[automatically_derived]
    impl ::bb::__private::Declared for __Instance0
    where
        for<'it> __Instance0: ::bb::__private::IsBackend<'it>,
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
        ) -> ::bb::__private::Arc<::bb::__private::Runtime> {
            ::bb::__private::start(self, how)
        }
    }
    const _: fn() = || ::bb::__private::Makes::<__Instance0>::NEW.by_default();
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < __Instance0 > ()
    }
    ::bb::__families_named! {
        __Instance0
    }
    type __Instance1 = Cpu<f64>;
    #[automatically_derived]
    impl ::bb::__private::Declared for __Instance1
    where
        for<'it> __Instance1: ::bb::__private::IsBackend<'it>,
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
        ) -> ::bb::__private::Arc<::bb::__private::Runtime> {
            ::bb::__private::start(self, how)
        }
    }
    const _: fn() = || ::bb::__private::Makes::<__Instance1>::NEW.by_default();
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < __Instance1 > ()
    }
    ::bb::__families_named! {
        __Instance1
    }
};
