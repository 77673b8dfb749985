//! One name for all instances of a generic type.

#[derive(bb::Backend, Default)]
#[bb(name = "cpu")]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
