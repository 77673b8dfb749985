//! A generic type with a name and with instances.

#[derive(bb::Backend, Default)]
#[bb(name = "cpu", instances("cpu-f32" = Cpu<f32>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
