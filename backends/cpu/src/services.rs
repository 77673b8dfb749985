//! The services of the backend: lifecycle, memory, and Rust functions as kernels.

use crate::array::Array;
use crate::cpu::Cpu;
use crate::kernels::op::{Binary, Unary};
use crate::ops::host::sole_bytes;
use crate::ops::{aligned, duplicate, elementwise};
use bb::ir::op::{Family, OpSpec, Param};
use bb::services::{
    ForeignBuffer, HostArguments, HostKernel, KernelCall, KernelFormat, KernelLimits, KernelProblem,
    KernelSource, Kernels, Lifecycle, LoadedKernel, Memory, MemoryStatistics, PoolStatistics,
    PressureCallback, ServiceError, UserKernel,
};
use bb::{Backend, DataType, Primitive, Tensor, TensorData};
use bb_dlpack::Managed;
use bytes::Bytes;

/// The maximum number of bindings of a kernel.
const BINDINGS: usize = 64;

/// Operations complete before their calls return, so synchronization is a no-op.
impl Lifecycle for Cpu {
    fn shut_down(&self) -> Result<(), ServiceError> {
        self.pool().trim(0);
        Ok(())
    }

    fn queued(&self) -> Option<u64> {
        Some(0)
    }
}

impl Memory<Array> for Cpu {
    fn statistics(&self) -> MemoryStatistics {
        self.pool().statistics().with_available(system_memory())
    }

    fn set_limit(&self, bytes: Option<u64>) -> Result<(), ServiceError> {
        self.pool().set_limit(bytes);
        Ok(())
    }

    fn trim(&self, keep: u64) -> Result<u64, ServiceError> {
        Ok(self.pool().trim(usize::try_from(keep).unwrap_or(usize::MAX)) as u64)
    }

    fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), ServiceError> {
        self.pool().set_callback(callback);
        Ok(())
    }

    /// Imports a DLPack [`Managed`] or a [`TensorData`]. Contiguous elements are shared; others are copied.
    fn import(&self, buffer: ForeignBuffer) -> Result<Array, ServiceError> {
        let ForeignBuffer { dtype, shape, handle } = buffer;
        let foreign = |problem: String| ServiceError::Foreign { problem };
        let data = match handle.downcast::<Managed>() {
            Ok(managed) => managed.into_tensor().map_err(|error| foreign(error.to_string()))?,
            Err(other) => *other
                .downcast::<TensorData>()
                .map_err(|_| foreign("expected `bb_dlpack::Managed` or `bb::TensorData`".to_owned()))?,
        };
        if data.dtype() != dtype || *data.shape() != *shape {
            let (got, found) = (data.dtype(), data.shape());
            return Err(foreign(format!("expected {dtype}{shape:?}, got {got}{found:?}")));
        }
        self.constant(&data).map_err(ServiceError::own)
    }

    /// Exports the tensor as a DLPack [`Managed`], which shares the elements if they are contiguous.
    fn export(&self, tensor: &Array) -> Result<ForeignBuffer, ServiceError> {
        let data = self.to_host(tensor).map_err(ServiceError::own)?;
        let managed =
            Managed::new(&data).map_err(|error| ServiceError::Foreign { problem: error.to_string() })?;
        Ok(ForeignBuffer::new(data.dtype(), data.shape(), managed))
    }

    /// Returns one pool for each block size that has unused blocks.
    fn pools(&self) -> Vec<PoolStatistics> {
        let sizes = self.pool().kept_by_size();
        let pool = |(block, bytes): (u64, u64)| {
            PoolStatistics::new(format!("blocks of {block} bytes"), None, bytes).with_block(block)
        };
        sizes.into_iter().map(pool).collect()
    }

    fn defragment(&self) -> Result<u64, ServiceError> {
        Err(ServiceError::NotNeeded {
            what: "defragmentation",
            reason: "a block of the pool holds one tensor, and is kept for others of its size or given back to the system",
        })
    }

    fn allocate(&self, dtype: DataType, shape: &[usize], alignment: u64) -> Result<Array, ServiceError> {
        let alignment = usize::try_from(alignment).map_err(ServiceError::own)?;
        aligned(self.pool(), dtype, shape, alignment).map_err(ServiceError::own)
    }

    fn map(&self, tensor: &Array, body: &mut dyn FnMut(&[u8])) -> Result<(), ServiceError> {
        let data = self.to_host(tensor).map_err(ServiceError::own)?;
        body(data.unaligned_bytes().map_err(ServiceError::own)?);
        Ok(())
    }

    /// Fails for element types of less than 8 bits, because the array stores each element in a byte of its own
    /// instead of packed.
    fn map_mut(&self, tensor: &mut Array, body: &mut dyn FnMut(&mut [u8])) -> Result<(), ServiceError> {
        if tensor.dtype().is_sub_byte() || tensor.dtype() == DataType::String {
            return Err(ServiceError::Unsupported { what: "mapping elements that are not of whole bytes" });
        }
        if let Some(bytes) = sole_bytes(tensor) {
            body(bytes);
            return Ok(());
        }
        let mut copy = duplicate(self.pool(), tensor).map_err(ServiceError::own)?;
        if let Some(bytes) = sole_bytes(&mut copy) {
            body(bytes);
        }
        *tensor = copy;
        Ok(())
    }

    /// Computes element-wise primitives directly into the memory of `out`.
    fn call_into(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&Array>],
        params: &[Param<'_>],
        out: &mut Array,
    ) -> Result<bool, ServiceError> {
        let primitive = Primitive::from_index(op.index).filter(|_| op.family == Family::Primitive);
        let (Some(primitive), []) = (primitive, params) else { return Ok(false) };
        let done = match *inputs {
            [Some(x)] => match unary(primitive) {
                Some(op) => elementwise::unary_into(self.pool(), op, x, out),
                None => return Ok(false),
            },
            [Some(a), Some(b)] => match binary(primitive) {
                Some(op) => elementwise::binary_into(self.pool(), op, [a, b], out),
                None => return Ok(false),
            },
            _ => return Ok(false),
        };
        done.map_err(ServiceError::own)
    }
}

fn unary(op: Primitive) -> Option<Unary> {
    match op {
        Primitive::Neg => Some(Unary::Neg),
        Primitive::Abs => Some(Unary::Abs),
        Primitive::Sqrt => Some(Unary::Sqrt),
        Primitive::Exp => Some(Unary::Exp),
        Primitive::Log => Some(Unary::Log),
        _ => None,
    }
}

fn binary(op: Primitive) -> Option<Binary> {
    match op {
        Primitive::Add => Some(Binary::Add),
        Primitive::Sub => Some(Binary::Sub),
        Primitive::Mul => Some(Binary::Mul),
        Primitive::Div => Some(Binary::Div),
        Primitive::Equal => Some(Binary::Equal),
        Primitive::Greater => Some(Binary::Greater),
        Primitive::Less => Some(Binary::Less),
        _ => None,
    }
}

impl Kernels<Array> for Cpu {
    fn limits(&self) -> KernelLimits {
        KernelLimits::webgpu(vec![KernelFormat::Host])
            .with_bindings(BINDINGS)
            .with_binding_bytes(isize::MAX as u64)
            .with_grid([u32::MAX; 3])
    }

    fn load(&self, kernel: &UserKernel) -> Result<Box<dyn LoadedKernel<Array>>, ServiceError> {
        match &kernel.source {
            KernelSource::Host(run) => Ok(Box::new(Function { on: self.clone(), run: run.clone() })),
            other => Err(ServiceError::Kernel {
                name: kernel.name.clone(),
                problem: KernelProblem::Format { got: other.format(), expected: self.limits().formats },
            }),
        }
    }
}

/// Returns the number of bytes that the system can still allocate; `None` if the system does not report it.
fn system_memory() -> Option<u64> {
    // Linux: "An estimate of how much memory is available for starting new applications, without swapping", in KiB.
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A Rust function that runs as a kernel.
struct Function {
    on: Cpu,
    run: HostKernel,
}

impl LoadedKernel<Array> for Function {
    fn run(&self, call: &KernelCall<'_, Array>) -> Result<Vec<Array>, ServiceError> {
        let to_host = |x: &&Array| self.on.to_host(x).map_err(ServiceError::own);
        let inputs: Vec<TensorData> = call.inputs.iter().map(to_host).collect::<Result<_, _>>()?;
        let inputs: Vec<&[u8]> = inputs
            .iter()
            .map(|data| Ok(&data.bytes().map_err(ServiceError::own)?[..]))
            .collect::<Result<_, _>>()?;
        let mut outputs = Vec::new();
        for output in call.outputs {
            let zeros =
                TensorData::zeros(output.dtype, &output.shape, usize::MAX).map_err(ServiceError::own)?;
            outputs.push(
                zeros
                    .bytes()
                    .and_then(|zeros| bb::ir::memory::copied("kernel", zeros))
                    .map_err(ServiceError::own)?,
            );
        }
        if !call.grid.contains(&0) {
            (self.run)(HostArguments::new(&inputs, &mut outputs, call.immediates, call.grid))
                .map_err(ServiceError::Backend)?;
        }
        let made = call.outputs.iter().zip(outputs);
        made.map(|(output, bytes)| {
            let data = TensorData::adopt(output.dtype, &output.shape, Bytes::from(bytes))
                .map_err(ServiceError::own)?;
            self.on.constant(&data).map_err(ServiceError::own)
        })
        .collect()
    }
}
