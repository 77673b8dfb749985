//! The backend `replay`, which answers from a recording.

use crate::host::{self, HostTensor};
use crate::recording::{self, Header, Outcome, RecordedCall, ReplayError, is_constant};
use bb::Primitive;
use bb::ext::OpSet;
use bb::ir::op::{Family, OpSpec, Param};
use bb::{
    Backend, BackendHandle, BackendOrigin, DataTypes, Erased, Error, ErrorKind, InnerBackend, OpenOption,
    OpenOptions, OptionDefault, Outputs, OwnOption, Registration, TensorData,
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Answers from a recording that the layer `record` wrote.
///
/// Calls may come in another order, for example from several threads. Each recorded call answers one
/// call.
#[derive(Debug)]
pub struct Replay {
    header: Header,
    calls: Mutex<Calls>,
}

/// The recorded calls, each with a flag for whether it has been made.
#[derive(Debug)]
struct Calls {
    all: Vec<(RecordedCall, bool)>,
    /// The index of the first call that has not been made.
    next: usize,
}

impl Calls {
    /// Finds the first equal call that has not been made, and marks it as made.
    fn make(&mut self, call: &RecordedCall) -> Option<&RecordedCall> {
        let left = self.all.iter().enumerate().skip(self.next);
        let (at, _) = left.filter(|(_, (_, made))| !made).find(|(_, (entry, _))| entry.is_call(call))?;
        self.all.get_mut(at)?.1 = true;
        while self.all.get(self.next).is_some_and(|(_, made)| *made) {
            self.next += 1;
        }
        self.all.get(at).map(|(entry, _)| entry)
    }
}

impl Replay {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Read`], [`ReplayError::Form`], [`ReplayError::Version`].
    pub fn open(path: &Path) -> Result<Replay, ReplayError> {
        let (header, entries) = recording::read(path, &bb::Limits::default())?;
        let expected = env!("CARGO_PKG_VERSION");
        if header.bb != expected {
            return Err(ReplayError::Version { expected: expected.to_owned(), got: header.bb });
        }
        let entries = entries.into_iter().map(|entry| (entry, false)).collect();
        Ok(Replay { header, calls: Mutex::new(Calls { all: entries, next: 0 }) })
    }

    /// Returns the number of recorded calls that have not been made.
    pub fn left(&self) -> usize {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.all.iter().filter(|(_, made)| !made).count()
    }

    fn answer(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&HostTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<HostTensor>, Error> {
        let mut operands = Vec::with_capacity(inputs.len());
        for x in inputs {
            operands.push(x.map(|x| recording::RecordedOperand::of(&x.0)).transpose()?);
        }
        let call = RecordedCall::of(spec, operands, params)?;
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |kind, error: ReplayError| Error::layer("replay", spec.method, kind, error);
        let (number, recorded) = (calls.next + 1, calls.all.len());
        let Some(entry) = calls.make(&call) else {
            let got = call.to_string();
            let error = match calls.all.get(calls.next) {
                Some((expected, _)) => ReplayError::Differs { number, expected: expected.to_string(), got },
                None => ReplayError::Ended { calls: recorded, got },
            };
            return Err(failed(ErrorKind::WrongInput, error));
        };
        match (&entry.outcome, params) {
            (Outcome::Failed(message), _) => {
                Err(failed(ErrorKind::Device, ReplayError::Failed { message: message.clone() }))
            }
            (Outcome::Results(_), [Param::Data(data)]) if is_constant(spec) => {
                Ok(Outputs::from_iter([HostTensor(data.as_ref().clone())]))
            }
            (Outcome::Results(results), _) => Ok(results.iter().cloned().map(HostTensor).collect()),
        }
    }

    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&HostTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<HostTensor>, Error> {
        self.answer(op.spec(), inputs, params)
    }
}

impl Backend for Replay {
    type Tensor = HostTensor;
    type Error = Error;

    bb::forward_to_call!(Self::primitive);

    fn types(&self) -> DataTypes {
        self.header.types.iter().copied().collect()
    }

    fn wrapped(error: &Error) -> Option<&Error> {
        Some(error)
    }

    fn to_host(&self, x: &HostTensor) -> Result<TensorData, Error> {
        Ok(x.0.clone())
    }
}

impl InnerBackend for Replay {
    fn natives(&self) -> Vec<(Family, OpSet)> {
        let mut all = Vec::new();
        for (family, index) in self.header.natives.iter().filter_map(recording::native) {
            host::add_native(&mut all, family, index);
        }
        all
    }

    fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&HostTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<HostTensor>, Error> {
        self.answer(spec, inputs, params)
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

fn opened(options: &OpenOptions) -> Result<Replay, Error> {
    let path: PathBuf = options.own("from")?;
    Replay::open(&path).map_err(|error| Error::Unavailable {
        backend: "replay",
        origin: BackendOrigin::Linked,
        source: crate::refused_file("from", &path, error).into(),
    })
}

inventory::submit! {
    Registration {
        name: "replay",
        version: env!("CARGO_PKG_VERSION"),
        path: "bb_layers::Replay",
        options: &[OpenOption::Own(OwnOption::new("from", OptionDefault::Text("bb.recording"), "the recording"))],
        open: |options| Ok(BackendHandle::start("replay", opened(options)?).runtime().clone()),
        erased: |options| Ok(Erased::new(opened(options)?)),
        lists_devices: false,
        listed: false,
        devices: || Ok(Vec::new()),
    }
}
