//! An instance whose argument is a misspelt type.

#[derive(bb::Backend, Default)]
#[bb(instances("cpu" = Cpu<f23>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

fn main() {}
