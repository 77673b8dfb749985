impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Array) -> Result<Array, CpuError> {
        kernels::relu(x)
    }
    #[cfg(feature = "softmax")]
    fn softmax(&self, x: &Array, axis: i64) -> Result<Array, CpuError> {
        kernels::softmax(x, axis)
    }
}
bb::__family! {
    natives Nn[] [] [Cpu] [] "relu" #[cfg(feature = "softmax")] "softmax"
}
