impl bb::ext::Nn for Cpu {
    bb::__family! {
        natives Nn "relu" #[cfg(feature = "softmax")] "softmax"
    }
    fn relu(&self, x: &Array) -> Result<Array, CpuError> {
        kernels::relu(x)
    }
    #[cfg(feature = "softmax")]
    fn softmax(&self, x: &Array, axis: i64) -> Result<Array, CpuError> {
        kernels::softmax(x, axis)
    }
}
