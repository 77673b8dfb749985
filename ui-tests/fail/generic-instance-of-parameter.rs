//! Instances whose arguments are a parameter of the type and a lifetime.

#[derive(bb::Backend, Default)]
#[bb(instances("cpu" = Cpu<T>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

#[derive(bb::Backend, Default)]
#[bb(instances("gpu" = Gpu<'a>))]
struct Gpu<'a>(std::marker::PhantomData<&'a ()>);

ui_tests::backend!(Gpu<'static>);

fn main() {}
