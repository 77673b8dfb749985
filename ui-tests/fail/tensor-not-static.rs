//! A tensor must be `'static`.

#[derive(Clone)]
struct Array<'a> {
    shape: &'a [usize],
}

impl<'a> bb::Tensor for Array<'a> {
    fn dtype(&self) -> bb::DataType {
        bb::DataType::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }
}

fn main() {}
