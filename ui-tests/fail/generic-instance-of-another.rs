//! An instance of another type.

#[derive(bb::Backend, Default)]
#[bb(instances("cpu" = Gpu<f32>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
