//! The layer `trace`, which opens a `tracing` span for each operation.

use bb::{BoxError, Erased, InnerBackend, LayerCall, OpenOptions, Outputs};

/// Opens a `tracing` span around each operation, at the level `TRACE`, with the fields `op`, `prepared` and `operands`.
#[derive(bb::Backend)]
#[bb(delegate = inner, crate = bb)]
pub struct Spans<B> {
    inner: B,
}

impl<B> Spans<B> {
    /// Traces the operations of a backend.
    pub fn new(inner: B) -> Spans<B> {
        Spans { inner }
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Spans<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        let (op, prepared) = (call.spec().method, call.is_prepared());
        let span = tracing::trace_span!("operation", op, prepared, operands = call.operands());
        let outcome = span.in_scope(|| call.run());
        if let Err(error) = &outcome {
            tracing::warn!(op, %error, "an operation failed");
        }
        outcome
    }
}

impl bb::RegisteredLayer for Spans<Erased> {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str = "opens a span of the crate `tracing` around each operation";

    fn on(inner: Erased, _options: &OpenOptions) -> Result<Self, BoxError> {
        Ok(Spans::new(inner))
    }
}

bb::register_layer!(Spans<Erased>);
