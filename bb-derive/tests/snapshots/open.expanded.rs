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
        const OPTIONS: &'static [::bb::__private::OpenOption] = &[
            ::bb::__open_option!(device),
            ::bb::__open_option!(memory),
        ];
        fn create(
            options: &::bb::__private::OpenOptions,
        ) -> ::bb::__private::Result<Self, ::bb::__private::BoxError> {
            ::bb::__private::Created::<
                Self,
            >::created(::bb::__private::opened_by(Gpu::open, options))
        }
        #[inline(never)]
        fn start(
            self,
            how: ::bb::__private::Start,
        ) -> ::bb::__private::Arc<::bb::__private::Runtime> {
            ::bb::__private::start(self, how)
        }
        const LISTS_DEVICES: ::bb::__private::bool = true;
        fn devices() -> ::bb::__private::Result<
            ::bb::__private::Vec<::bb::__private::Device>,
            ::bb::__private::BoxError,
        > {
            ::bb::__private::Listed::listed(Gpu::list())
        }
    }
    ::bb::__private::inventory::submit! {
        ::bb::__private::of_struct:: < Gpu > ()
    }
    ::bb::__families_named! {
        Gpu
    }
};
