const _: () = {
    ::bb::__layer! {
        [< B >] [Checked < B >] [where for < 'held > B : ::bb::__private::Held < 'held >]
        [where for < 'held > B : ::bb::__private::Held < 'held >, for < 'layer > Checked
        < B > : ::bb::__private::IsLayer < 'layer >] [::bb::__family!(table Nn)] inner :
        B, ::bb::__private::env!("CARGO_PKG_VERSION")
    }
};
