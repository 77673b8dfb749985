//! A generic type without a list of instances.

#[derive(bb::Backend, Default)]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
