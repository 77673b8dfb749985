//! An instance without a name.

#[derive(bb::Backend, Default)]
#[bb(instances(Cpu<f32>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
