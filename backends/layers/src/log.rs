//! The layer `log`, which writes a line for each operation.

use bb::{
    BoxError, Erased, InnerBackend, LayerCall, OpenOption, OpenOptions, OptionDefault, Outputs, OwnOption,
    Tensor,
};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Writes a line for each operation, with its operands, its results or error, and its duration.
///
/// ```text
/// matmul(f32[2, 3], -) -> f32[2, 4] in 12 µs, prepared
/// ```
///
/// An operand that a prepared kernel has packed is written as `-`.
#[derive(bb::Backend)]
#[bb(delegate = inner)]
#[bb(crate = bb)]
pub struct Log<B> {
    inner: B,
    to: Mutex<Box<dyn Write + Send>>,
}

impl<B> Log<B> {
    /// Logs the operations of a backend.
    pub fn new(inner: B, to: impl Write + Send + 'static) -> Log<B> {
        Log { inner, to: Mutex::new(Box::new(to)) }
    }
}

#[bb::layer]
impl<B: InnerBackend> bb::Layer for Log<B> {
    fn operation(&self, call: LayerCall<'_, Self>) -> Result<Outputs<B::Tensor>, B::Error> {
        let mut line = format!("{}(", call.spec().method);
        for index in 0..call.operands() {
            line.push_str(if index == 0 { "" } else { ", " });
            match call.operand(index) {
                Some(x) => written(&mut line, x),
                None => line.push('-'),
            }
        }
        line.push(')');
        let prepared = if call.is_prepared() { ", prepared" } else { "" };
        let start = Instant::now();
        let outcome = call.run();
        let took = start.elapsed();
        match &outcome {
            Ok(results) => {
                line.push_str(" -> ");
                for (index, x) in results.iter().enumerate() {
                    line.push_str(if index == 0 { "" } else { ", " });
                    written(&mut line, x);
                }
            }
            Err(error) => _ = write!(line, " failed: {error}"),
        }
        // Ignore an error of the log, because it must not fail the operation.
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let _unwritten = writeln!(to, "{line} in {} µs{prepared}", took.as_micros());
        outcome
    }
}

fn written(line: &mut String, x: &impl Tensor) {
    let _infallible = write!(line, "{}{:?}", x.dtype(), x.shape());
}

impl bb::RegisteredLayer for Log<Erased> {
    const NAME: &'static str = "log";
    const ABOUT: &'static str = "writes a line for each operation";
    const OPTIONS: &'static [OpenOption] = &[OpenOption::Own(OwnOption::new(
        "to",
        OptionDefault::Text(""),
        "the file; standard error without it",
    ))];

    fn on(inner: Erased, options: &OpenOptions) -> Result<Self, BoxError> {
        let path: PathBuf = options.own("to")?;
        if path.as_os_str().is_empty() {
            return Ok(Log::new(inner, std::io::stderr()));
        }
        let file = File::create(&path).map_err(|error| crate::refused_file("to", &path, error))?;
        Ok(Log::new(inner, file))
    }
}

bb::register_layer!(Log<Erased>);
