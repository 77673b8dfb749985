//! A generic type registers the instances that it lists.
#![deny(warnings)]
#![expect(clippy::indexing_slicing, reason = "a test")]

use bb::Declared;
use std::marker::PhantomData;

#[derive(bb::Backend, Default)]
#[bb(instances("cpu-f32" = Cpu<f32>, "cpu-f64" = Cpu<f64>), extensions(Nn))]
struct Cpu<T>(PhantomData<T>);
ui_tests::backend!(<T> Cpu<T>);

#[bb::native]
impl<T> bb::ext::Nn for Cpu<T>
where
    T: Send + Sync,
{
    fn softmax(&self, x: &ui_tests::Handle, _axis: i64) -> Result<ui_tests::Handle, bb::Error> {
        Ok(x.clone())
    }
}

#[derive(bb::Backend)]
#[bb(new = Borrowing::new, instances("borrowing" = Borrowing<'static, 4>))]
struct Borrowing<'a, const LANES: usize>(&'a [u8; LANES]);
ui_tests::backend!(Borrowing<'_, 4>);

impl<'a, const LANES: usize> Borrowing<'a, LANES> {
    fn new() -> Self {
        Borrowing(&[0; LANES])
    }
}

fn main() {
    assert_eq!((Cpu::<f32>::NAME, Cpu::<f64>::NAME), ("cpu-f32", "cpu-f64"));
    assert!(Cpu::<f32>::PATH.ends_with("::Cpu<f32>"));
    assert!(Cpu::<f64>::FAMILIES[0].native().contains(bb::ext::NnOp::Softmax as u16));
    assert!(Borrowing::create(&bb::OpenOptions::default()).is_ok_and(|b| b.0.len() == 4));
    let names: Vec<_> = bb::Registry::global().entries().map(|entry| entry.name).collect();
    assert_eq!(names, ["borrowing", "cpu-f32", "cpu-f64"]);
}
