const _: () = {
    ::bb::__layer! {
        [< B >] [Checked < B >] [where B : ::bb::__private::InnerBackend] [where B :
        ::bb::__private::InnerBackend, Checked < B > : ::bb::__private::Layer]
        [::bb::__family!(table Nn)] inner : B, ::bb::__private::env!("CARGO_PKG_VERSION")
    }
};
