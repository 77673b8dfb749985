//! The backend. Each method of the contract is one call.

use crate::array::Array;
use crate::error::{CpuError, Result};
use crate::kernels::op::{Binary, Reduction, Unary};
use crate::ops::{convert, elementwise, host, join, matmul, power, reduce, views};
use crate::pool::Pool;
use crate::prepare;
use crate::team::{Team, ThreadWork};
use bb::services::{DeviceInfo, DeviceKind};
use bb::{DataType, Kernel, OpenOptions, PrepareStep, RoundMode, TensorData};
use std::sync::Arc;

/// The number of bytes of unused buffers that a pool keeps, unless the builder sets another limit: 1 GiB.
const KEPT: usize = 1 << 30;

/// The CPU backend.
///
/// # Examples
///
/// ```
/// use bb::{Backend, TensorData};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cpu = bb_cpu::Cpu::new();
/// let x = cpu.constant(&TensorData::new(&[2], &[1f32, 2.0])?)?;
/// let y = cpu.add(&x, &x)?;
/// assert_eq!(cpu.to_host(&y)?.as_slice::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, bb::Backend)]
#[bb(name = "cpu", open = Cpu::open)]
#[bb(options(threads, memory, level: str = "" => "instructions: portable, avx2, avx2-vnni or avx512, on ARM portable, dotprod or i8mm; the widest there are if empty"))]
#[bb(extensions(Create, Scalar, Nn, Llm, Index, Bits, Image, Ml, Quant, Train))]
pub struct Cpu {
    pool: Arc<Pool>,
}

/// Builds a [`Cpu`] with settings that differ from [`Cpu::new`].
#[derive(Debug, Clone)]
pub struct CpuBuilder {
    threads: Option<usize>,
    kept: usize,
    limit: Option<u64>,
}

impl CpuBuilder {
    /// Runs kernels on `threads` threads: the one that calls them, and others that belong to this backend. There are at most
    /// [`bb::most_threads`].
    #[must_use]
    pub fn threads(self, threads: usize) -> CpuBuilder {
        CpuBuilder { threads: Some(threads), ..self }
    }

    /// Keeps at most `bytes` bytes of unused buffers.
    #[must_use]
    pub fn pool_limit(self, bytes: usize) -> CpuBuilder {
        CpuBuilder { kept: bytes, ..self }
    }

    /// Allocates at most `bytes` bytes for the buffers of tensors, used and unused ones together.
    ///
    /// Tensors of up to 32 bytes, host tensors that are used in place, and memory packed by kernels are not counted.
    #[must_use]
    pub fn memory_limit(self, bytes: u64) -> CpuBuilder {
        CpuBuilder { limit: Some(bytes), ..self }
    }

    /// Builds the backend.
    ///
    /// # Errors
    ///
    /// [`bb::Error::ThreadCount`] for no threads or too many; [`CpuError::Threads`] if the system cannot start them.
    pub fn build(self) -> Result<Cpu> {
        let threads = match self.threads {
            None => None,
            Some(threads) => {
                bb::check_threads(threads)?;
                let team = Team::new(threads).map_err(|source| CpuError::Threads { threads, source })?;
                Some(Arc::new(team))
            }
        };
        Ok(self.of(threads))
    }

    /// Builds the backend on threads that `start` starts, one less than [`threads`](Self::threads): the caller of a kernel works, too.
    /// They work until the returned [`StartedThreads`] ends them, or until the backend and all its tensors are dropped.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); [`CpuError::Threads`] with the error of `start`.
    pub fn build_on(
        self,
        start: impl FnMut(ThreadWork) -> std::io::Result<()>,
    ) -> Result<(Cpu, StartedThreads)> {
        let threads = self.threads.unwrap_or_else(rayon::current_num_threads);
        bb::check_threads(threads)?;
        let team = Team::started(threads, start).map_err(|source| CpuError::Threads { threads, source })?;
        let team = Arc::new(team);
        Ok((self.of(Some(team.clone())), StartedThreads(team)))
    }

    fn of(self, threads: Option<Arc<Team>>) -> Cpu {
        let pool = Pool::new(self.kept, threads);
        pool.set_limit(self.limit);
        Cpu { pool }
    }
}

/// Threads that others started for a backend, see [`CpuBuilder::build_on`].
#[derive(Debug)]
pub struct StartedThreads(Arc<Team>);

impl StartedThreads {
    /// Ends the threads after their current calls. The backend then computes on the threads of its callers.
    pub fn end(&self) {
        self.0.end();
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu::new()
    }
}

impl Cpu {
    /// Creates a backend that shares one team of threads with all backends of the process that have no threads of their own. The team has
    /// the number of threads of rayon's global pool. The backend keeps at most 1 GiB of unused buffers. Kernels called on one of rayon's
    /// threads run on rayon's threads.
    pub fn new() -> Cpu {
        Cpu { pool: Pool::new(KEPT, None) }
    }

    /// Creates a backend for callers that open it by name. With the option `threads`, it has its own threads; with the option
    /// `memory`, its memory is limited; the option `level` chooses the instructions of the process.
    fn open(options: &OpenOptions) -> Result<Cpu> {
        let level: String = options.own("level")?;
        crate::level::choose(&level)?;
        let threads = options.threads.map(std::num::NonZeroUsize::get);
        CpuBuilder { threads, limit: options.memory, ..Cpu::builder() }.build()
    }

    /// Returns the number of threads that kernels may use.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Starts a builder with the settings of [`new`](Self::new).
    pub fn builder() -> CpuBuilder {
        CpuBuilder { threads: None, kept: KEPT, limit: None }
    }

    /// Returns the pool that allocates the buffers of results.
    #[inline]
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl bb::Backend for Cpu {
    type Tensor = Array;
    type Error = CpuError;

    fn wrapped(error: &CpuError) -> Option<&bb::Error> {
        match error {
            CpuError::Bb(error) => Some(error),
            _ => None,
        }
    }

    fn add(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Add, a, b)
    }

    fn sub(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Sub, a, b)
    }

    fn mul(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Mul, a, b)
    }

    fn div(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Div, a, b)
    }

    fn neg(&self, x: &Array) -> Result<Array> {
        elementwise::unary(&self.pool, Unary::Neg, x)
    }

    fn abs(&self, x: &Array) -> Result<Array> {
        elementwise::unary(&self.pool, Unary::Abs, x)
    }

    fn sqrt(&self, x: &Array) -> Result<Array> {
        elementwise::unary(&self.pool, Unary::Sqrt, x)
    }

    fn pow(&self, a: &Array, b: &Array) -> Result<Array> {
        power::pow(&self.pool, a, b)
    }

    fn exp(&self, x: &Array) -> Result<Array> {
        elementwise::unary(&self.pool, Unary::Exp, x)
    }

    fn log(&self, x: &Array) -> Result<Array> {
        elementwise::unary(&self.pool, Unary::Log, x)
    }

    fn matmul(&self, a: &Array, b: &Array) -> Result<Array> {
        matmul::matmul(&self.pool, a, b)
    }

    fn reduce_sum(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(&self.pool, Reduction::Sum, x, axes, keepdims)
    }

    fn reduce_mean(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(&self.pool, Reduction::Mean, x, axes, keepdims)
    }

    fn reduce_max(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(&self.pool, Reduction::Max, x, axes, keepdims)
    }

    fn reduce_min(&self, x: &Array, axes: &[i64], keepdims: bool) -> Result<Array> {
        reduce::reduce(&self.pool, Reduction::Min, x, axes, keepdims)
    }

    fn reshape(&self, x: &Array, shape: &[usize]) -> Result<Array> {
        views::reshape(&self.pool, x, shape)
    }

    fn transpose(&self, x: &Array, perm: &[i64]) -> Result<Array> {
        views::transpose(x, perm)
    }

    fn concat(&self, xs: &[&Array], axis: i64) -> Result<Array> {
        join::concat(&self.pool, xs, axis)
    }

    fn slice(&self, x: &Array, starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]) -> Result<Array> {
        views::slice(x, starts, ends, axes, steps)
    }

    fn split(&self, x: &Array, axis: i64, sizes: &[usize]) -> Result<Vec<Array>> {
        views::split(x, axis, sizes)
    }

    fn squeeze(&self, x: &Array, axes: &[i64]) -> Result<Array> {
        views::squeeze(&self.pool, x, axes)
    }

    fn unsqueeze(&self, x: &Array, axes: &[i64]) -> Result<Array> {
        views::unsqueeze(&self.pool, x, axes)
    }

    fn identity(&self, x: &Array) -> Result<Array> {
        Ok(x.clone())
    }

    fn cast(&self, x: &Array, to: DataType, saturate: bool, round_mode: RoundMode) -> Result<Array> {
        convert::cast(&self.pool, x, to, saturate, round_mode)
    }

    fn equal(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Equal, a, b)
    }

    fn greater(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Greater, a, b)
    }

    fn less(&self, a: &Array, b: &Array) -> Result<Array> {
        elementwise::binary(&self.pool, Binary::Less, a, b)
    }

    fn r#where(&self, condition: &Array, x: &Array, y: &Array) -> Result<Array> {
        elementwise::select(&self.pool, condition, x, y)
    }

    fn constant(&self, value: &TensorData) -> Result<Array> {
        host::constant(&self.pool, value)
    }

    fn gather(&self, data: &Array, indices: &Array, axis: i64) -> Result<Array> {
        join::gather(&self.pool, data, indices, axis)
    }

    fn to_host(&self, x: &Array) -> Result<TensorData> {
        host::to_host(&self.pool, x)
    }

    fn read_into(&self, x: &Array, into: &mut [u8]) -> Result<()> {
        host::read_into(&self.pool, x, into)
    }

    fn prepare(&self, step: &PrepareStep<'_, Array>) -> Result<Option<Box<dyn Kernel<Cpu>>>> {
        prepare::prepare(self, step)
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(DeviceKind::Cpu)
            .with_alignment(crate::pool::ALIGNMENT as u64)
            .with("instructions", crate::level::instructions().name())
            .with("threads", self.threads().to_string())
    }

    fn lifecycle(&self) -> Option<&dyn bb::services::Lifecycle> {
        Some(self)
    }

    fn memory(&self) -> Option<&dyn bb::services::Memory<Array>> {
        Some(self)
    }

    fn kernels(&self) -> Option<&dyn bb::services::Kernels<Array>> {
        Some(self)
    }
}

#[cfg(test)]
mod pace_tests;
