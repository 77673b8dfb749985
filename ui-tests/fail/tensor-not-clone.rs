//! A tensor must be `Clone`.

struct Array {
    shape: Vec<usize>,
}

impl bb::Tensor for Array {
    fn dtype(&self) -> bb::DataType {
        bb::DataType::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

fn main() {}
