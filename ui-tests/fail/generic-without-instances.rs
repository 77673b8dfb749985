//! A generic type, and nothing that says which instances to register.

#[derive(bb::Backend, Default)]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
