//! Two instances of one name.

#[derive(bb::Backend, Default)]
#[bb(instances("cpu" = Cpu<f32>, "cpu" = Cpu<f64>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
