//! A backend that counts live tensors and operations; the reference backend computes.

use bb::{Backend, DataType, Outputs, Primitive, TensorData, ir::op::Param};
use bb_reference::Reference;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Inner = <Reference as Backend>::Tensor;

/// The counters of a backend.
#[derive(Debug, Default)]
pub struct Counts {
    alive: AtomicUsize,
    most: AtomicUsize,
    operations: AtomicUsize,
}

impl Counts {
    /// Returns how many tensors are alive.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// Returns the greatest number of tensors that were alive at the same time.
    pub fn most_alive(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Returns how many operations ran.
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }
}

/// A tensor that counts as alive as long as any clone of it exists.
#[derive(Clone)]
pub struct Counted(Arc<Token>);

struct Token {
    tensor: Inner,
    counts: Arc<Counts>,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.counts.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl bb::Tensor for Counted {
    fn dtype(&self) -> DataType {
        self.0.tensor.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.tensor.shape()
    }
}

/// The backend.
#[derive(Debug, Default)]
pub struct Counting(Arc<Counts>);

impl Counting {
    /// Returns the counters.
    pub fn counts(&self) -> Arc<Counts> {
        self.0.clone()
    }

    fn count(&self, tensor: Inner) -> Counted {
        let alive = self.0.alive.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(alive, Ordering::SeqCst);
        Counted(Arc::new(Token { tensor, counts: self.0.clone() }))
    }

    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&Counted>],
        params: &[Param<'_>],
    ) -> Result<Outputs<Counted>, bb_reference::Error> {
        self.0.operations.fetch_add(1, Ordering::SeqCst);
        let inputs: Vec<Option<&Inner>> = inputs.iter().map(|x| x.map(|x| &x.0.tensor)).collect();
        let results = bb::call_primitive(&Reference, op, &inputs, params)?;
        Ok(results.into_iter().map(|x| self.count(x)).collect())
    }
}

impl Backend for Counting {
    type Tensor = Counted;
    type Error = bb_reference::Error;

    bb::forward_to_call!(Self::apply);

    fn to_host(&self, x: &Counted) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(&x.0.tensor)
    }
}
