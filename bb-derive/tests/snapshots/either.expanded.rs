::bb::__either! {
    [pub Any, AnyTensor, AnyError, AnyCompiled] Fast(Cpu), Plain(reference::Reference)
}
const _: () = {};
