//! The backend type and its builder.

use crate::error::{CpuError, Result};
use crate::pool::Pool;
use crate::team::{Team, ThreadWork};
use bb::OpenOptions;
use std::sync::Arc;

/// The default limit for unused buffers that a pool keeps: 1 GiB, in bytes.
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
    /// Runs kernels on `threads` threads: the calling thread and `threads - 1` threads that belong to this backend. The maximum is
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

    /// Allocates at most `bytes` bytes for the buffers of tensors, counting used and unused buffers.
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
    /// [`bb::Error::ThreadCount`] if the number of threads is 0 or too large; [`CpuError::Threads`] if the system cannot start them.
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

    /// Builds the backend with threads that the caller starts. `start` is called once for each thread except one, because the thread that
    /// calls a kernel works too. The threads run until the returned [`StartedThreads`] ends them, or until the backend and all its
    /// tensors are dropped.
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

/// The threads that a caller started for a backend with [`CpuBuilder::build_on`].
#[derive(Debug)]
pub struct StartedThreads(Arc<Team>);

impl StartedThreads {
    /// Ends the threads after their current calls. From then on, the backend computes on the calling threads only.
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

    /// Creates a backend with the options of a caller that opens it by name. `threads` gives the backend its own threads, `memory` limits
    /// its memory, and `level` selects the instruction set for the whole process.
    fn open(options: &OpenOptions) -> std::result::Result<Cpu, bb::BoxError> {
        let level: String = options.own("level")?;
        crate::level::choose(&level)?;
        let threads = options.threads.map(std::num::NonZeroUsize::get);
        Ok(CpuBuilder { threads, limit: options.memory, ..Cpu::builder() }.build()?)
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
