//! As `native-not-adopted`, for a generic type: the instances that the derive registers are checked.

use ui_tests::Handle;

#[derive(bb::Backend, Default)]
#[bb(instances("cpu-f32" = Cpu<f32>))]
struct Cpu<T>(std::marker::PhantomData<T>);

ui_tests::backend!(<T> Cpu<T>);

#[bb::native]
impl<T: Send + Sync> bb::ext::Nn for Cpu<T> {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
