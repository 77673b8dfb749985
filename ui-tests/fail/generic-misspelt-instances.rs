//! A generic type with a misspelt `instances`.

#[derive(bb::Backend, Default)]
#[bb(instnces("cpu" = Cpu<f32>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
