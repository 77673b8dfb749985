const _: () = {
    #[automatically_derived]
    impl renamed::__private::Declared for Gpu
    where
        for<'it> Gpu: renamed::__private::IsBackend<'it>,
    {
        const NAME: &'static renamed::__private::str = "gpu";
        const VERSION: &'static renamed::__private::str = "1.2.0";
        const PATH: &'static renamed::__private::str = renamed::__private::concat!(
            renamed::__private::module_path!(), "::", "Gpu"
        );
        const FAMILIES: &'static [renamed::__private::FamilyTable<Self>] = &[
            renamed::__family!(table Nn),
            renamed::__family!(table Llm),
        ];
        fn create(
            _: &renamed::__private::OpenOptions,
        ) -> renamed::__private::Result<Self, renamed::__private::BoxError> {
            let new = renamed::__private::NewFunction::<Self, _>::of(Gpu::first_device);
            new.signature().constructs::<Self>();
            renamed::__private::Created::<Self>::created(new.made())
        }
        #[inline(never)]
        fn start(
            self,
            how: renamed::__private::Start,
        ) -> renamed::__private::Arc<renamed::__private::Runtime> {
            renamed::__private::start(self, how)
        }
    }
    renamed::__private::inventory::submit! {
        renamed::__private::of_struct:: < Gpu > ()
    }
    renamed::__families_named! {
        Gpu
    }
};
