const _: () = {
    #[automatically_derived]
    impl<B> ::bb::__private::Delegate for Checked<B>
    where
        B: ::bb::__private::InnerBackend,
    {
        type Inner = B;
        const VERSION: &'static ::bb::__private::str = ::bb::__private::env!(
            "CARGO_PKG_VERSION"
        );
        const NATIVES: &'static [(::bb::__private::Family, ::bb::__private::OpSet)] = &[
            {
                let table: ::bb::__private::FamilyTable<Self> = ::bb::__family!(
                    table Nn
                );
                (table.family(), table.native())
            },
        ];
        fn inner(&self) -> &Self::Inner {
            &self.inner
        }
    }
    #[automatically_derived]
    impl<B> ::bb::__private::InnerBackend for Checked<B>
    where
        B: ::bb::__private::InnerBackend,
        Checked<B>: ::bb::__private::Layer,
    {
        fn natives(
            &self,
        ) -> ::bb::__private::Vec<(::bb::__private::Family, ::bb::__private::OpSet)> {
            ::bb::__private::layer::layer_natives(self)
        }
        fn native(
            &self,
            spec: &'static ::bb::ir::op::OpSpec,
            inputs: &[::bb::__private::Option<&<Self as ::bb::Backend>::Tensor>],
            params: &[::bb::ir::op::Param<'_>],
        ) -> ::bb::__private::Result<
            ::bb::Outputs<<Self as ::bb::Backend>::Tensor>,
            <Self as ::bb::Backend>::Error,
        > {
            ::bb::__private::layer::layer_native(
                self,
                &[::bb::__family!(table Nn)],
                spec,
                inputs,
                params,
            )
        }
        fn version(&self) -> &'static ::bb::__private::str {
            ::bb::__private::layer::layer_version(self)
        }
    }
    ::bb::__layer! {
        impl < B > ::bb::Backend for Checked < B > where B :
        ::bb::__private::InnerBackend, Checked < B > : ::bb::__private::Layer
    }
};
