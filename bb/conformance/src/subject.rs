//! The backend under test, and the element types that it declares.

use super::Call;
use super::hint::{TypesDeclaration, declared, hint};
use super::host::{Value, host_numbers};
use super::show::shown;
use super::shown_call::ShownCall;
use super::slow::{self, SlowReport, Timed, keep_slowest, timed};
use super::watch::{CurrentCall, CurrentOperand, RunningCalls, Watch};
use bb_core::ext::{ErasedBackend, ErasedError, ErasedTensor, Kernels, WithFamilies};
use bb_core::{Backend, BackendAttrs, DataType, GraphProto, SlotValue, Tensor, TensorData};
use bb_ir::DataTypes;
use bb_ir::infer;
use bb_ir::op::{Param, Primitive};
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of operands whose host data is stored.
const BROUGHT: usize = 16;

/// A backend under test. Its methods are the operations of the backend. It stores the last call, so that a failure can report the call.
///
/// The type of the backend is erased, so that the cases are compiled once, not for each backend. Each operation calls the backend's own
/// method.
pub struct Subject<'a> {
    on: Box<dyn Kernels + 'a>,
    erase: fn(&ErasedTensor) -> Option<Arc<dyn SlotValue>>,
    restore: fn(&Arc<dyn SlotValue>) -> Option<ErasedTensor>,
    wrapped: Box<Wrapped<'a>>,
    types: Vec<DataType>,
    /// Whether the author chose the element types. If not, a failure may suggest which to declare.
    chosen: bool,
    declaration: TypesDeclaration,
    last: Mutex<Option<Last>>,
    /// The tensors that were last created from host data, with the data.
    brought: Mutex<VecDeque<(ErasedTensor, TensorData)>>,
    /// The calls that are running.
    watch: Arc<Watch>,
    started: Instant,
    times: Mutex<CallTimes>,
    /// The error of the first call of the running test that failed because the backend does not run the primitive.
    lacks: Mutex<Option<String>>,
    /// The primitives that the author of the backend did not write.
    unwritten: Vec<Primitive>,
}

/// A function that returns the error of `bb` that an error of the backend wraps.
type Wrapped<'a> = dyn for<'e> Fn(&'e (dyn Error + 'static)) -> Option<&'e bb_core::Error> + Send + Sync + 'a;

/// The end of a test that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestEnd {
    /// All calls of the test have the right results.
    Passed,
    /// The test, or the rest of it, needs a primitive that the backend does not run. The field names the primitive.
    Skipped(String),
}

/// The run times of the calls.
#[derive(Default)]
struct CallTimes {
    sum: Duration,
    slowest: Vec<(Duration, Last)>,
}

/// A stored call, with its operands on the backend.
#[derive(Clone)]
struct Last {
    op: Primitive,
    operands: Vec<ErasedTensor>,
    params: Vec<Param<'static>>,
}

impl Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("types", &self.types).finish_non_exhaustive()
    }
}

impl<'a> Subject<'a> {
    /// Creates a subject for a backend. Cases use all element types that the backend declares ([`Backend::types`]).
    pub fn new<B: Backend>(backend: &'a B) -> Self {
        Self::watched(backend, Arc::default())
    }

    /// Returns the running calls, for a thread that detects calls that hang.
    pub fn running_calls(&self) -> RunningCalls {
        RunningCalls(self.watch.clone())
    }

    /// Creates a subject whose running calls are recorded in `watch`, where another thread reads them.
    pub(super) fn watched<B: Backend>(backend: &'a B, watch: Arc<Watch>) -> Self {
        Subject {
            on: Box::new(WithFamilies::new(backend, &[])),
            erase: |x| x.get::<B::Tensor>().map(Tensor::erase),
            restore: |x| B::Tensor::restore(x).map(ErasedTensor::new),
            wrapped: Box::new(|error| match error.downcast_ref::<ErasedError>() {
                Some(error) => error.wrapped_by(backend),
                None => backend.wrapped_in(error),
            }),
            types: backend.types().iter().collect(),
            chosen: !backend.types().is_all(),
            declaration: TypesDeclaration::RUST,
            last: Mutex::new(None),
            brought: Mutex::default(),
            watch,
            started: Instant::now(),
            times: Mutex::default(),
            lacks: Mutex::default(),
            unwritten: Vec::new(),
        }
    }

    /// Sets how messages write a declaration of element types, and whether the author chose the types of the backend.
    #[must_use]
    pub fn with_declaration(mut self, declaration: TypesDeclaration, chosen: bool) -> Self {
        (self.declaration, self.chosen) = (declaration, chosen);
        self
    }

    /// Leaves out the tests of primitives that the author of the backend did not write, and their calls in other tests.
    #[must_use]
    pub fn without(mut self, unwritten: Vec<Primitive>) -> Self {
        self.unwritten = unwritten;
        self
    }

    /// Returns the name of the declaration of element types, as in `fn types`.
    pub(super) fn declaration_name(&self) -> &'static str {
        self.declaration.name
    }

    /// Returns the backend, for calls that must not be stored.
    pub(super) fn backend(&self) -> ErasedBackend<'_> {
        ErasedBackend(&*self.on)
    }

    /// Erases a tensor's type through the backend's tensor type.
    pub(super) fn erase(&self, x: &ErasedTensor) -> Option<Arc<dyn SlotValue>> {
        (self.erase)(x)
    }

    /// Restores a tensor's type through the backend's tensor type.
    pub(super) fn restore(&self, x: &Arc<dyn SlotValue>) -> Option<ErasedTensor> {
        (self.restore)(x)
    }

    /// Runs the test of a primitive or a topic. If the test needs a primitive that the backend does not run, it is skipped or ends early.
    ///
    /// # Panics
    ///
    /// If the test fails.
    #[doc(hidden)]
    pub fn case(&self, name: &str, test: fn(&Subject<'_>)) -> TestEnd {
        let method = name.trim_start_matches("r#");
        let op = Primitive::ALL.iter().find(|op| op.spec().method == method);
        if op.is_some_and(|op| !self.runs(*op)) {
            return TestEnd::Skipped(format!("the backend does not run `{method}`"));
        }
        let lacks = || self.lacks.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One subject runs several tests, and an earlier test must not hide a failure of this one.
        drop(lacks());
        match catch_unwind(AssertUnwindSafe(|| test(self))) {
            Ok(()) => TestEnd::Passed,
            Err(panic) => lacks().map_or_else(|| resume_unwind(panic), TestEnd::Skipped),
        }
    }

    /// Returns the element types that the backend declares.
    pub fn types(&self) -> DataTypes {
        DataTypes::of(&self.types)
    }

    /// Returns whether the backend runs a primitive ([`Backend::runs_primitive`]), and its tests are not left out
    /// ([`without`](Self::without)).
    pub fn runs(&self, op: Primitive) -> bool {
        !self.unwritten.contains(&op) && self.on.runs_primitive(op)
    }

    /// Returns whether the backend supports all of the element types.
    pub fn supports(&self, dtypes: &[DataType]) -> bool {
        dtypes.iter().all(|dtype| self.types.contains(dtype))
    }

    /// Returns the types that an operand of an operation may have, among the supported types.
    pub fn taken(&self, op: Primitive, operand: usize) -> Vec<DataType> {
        let all = DataType::ALL.iter().copied();
        all.filter(|&dtype| infer::accepts(op, operand, dtype) && self.supports(&[dtype])).collect()
    }

    /// Stores a call as the last call.
    pub(super) fn note(&self, op: Primitive, operands: Vec<ErasedTensor>, params: Vec<Param<'static>>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last { op, operands, params });
    }

    /// Records the run time of the last call.
    fn took(&self, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.sum += time;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last {
            keep_slowest(&mut times.slowest, time, || last.clone());
        }
    }

    /// Returns a report of the slowest calls, if the test has taken longer than `limit`.
    fn slow(&self, limit: Duration) -> Option<SlowReport> {
        let took = self.started.elapsed();
        if took < limit {
            return None;
        }
        let test = std::thread::current().name().map_or("a test".to_owned(), |name| format!("`{name}`"));
        let times = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        let reference = slow::reference("");
        let row = |(took, Last { op, operands, params }): (Duration, Last)| {
            let host = operands.iter().map(|x| self.backend().to_host(x).ok()).collect::<Option<Vec<_>>>();
            let typed = |x: &TensorData| format!("{}{:?}", x.dtype(), x.shape());
            let shown = host.iter().flatten().map(typed).collect();
            let inputs: Option<Vec<_>> = host.map(|host| host.into_iter().map(Some).collect());
            let other = reference.as_ref().zip(inputs).and_then(|(on, inputs)| {
                let (result, time) = timed(|| on.try_call(op.spec(), &inputs, &params));
                result.ok().map(|_| time)
            });
            let name = ShownCall { op: op.spec(), operands: shown, params: &params }.to_string();
            Timed { name, took, reference: other }
        };
        let slowest = times.slowest.into_iter().map(row).collect();
        Some(SlowReport { test, what: "calls", took, sum: times.sum, slowest })
    }

    /// Returns the host data of an operand, if it is stored.
    fn origin(&self, x: &ErasedTensor) -> Option<TensorData> {
        let address = x.address();
        let brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(other, _): &&(ErasedTensor, TensorData)| other.address() == address;
        brought.iter().rev().find(same).map(|(_, host)| host.clone())
    }

    /// Formats the last call with its operands and parameters.
    pub(super) fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Last { op, operands, params }) = last else { return "the operation".to_owned() };
        let operand = |x: &ErasedTensor| match self.origin(x).map_or_else(|| self.backend().to_host(x), Ok) {
            Ok(host) => shown(&host),
            Err(error) => format!("(`to_host` failed: {error})"),
        };
        ShownCall { op: op.spec(), operands: operands.iter().map(operand).collect(), params: &params }
            .to_string()
    }

    /// Returns the last call without calling the backend.
    fn current(&self, prefix: &'static str) -> Option<CurrentCall> {
        let Last { op, operands, params } =
            self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let operand = |x: &ErasedTensor| match self.origin(x) {
            Some(host) => CurrentOperand::Data(host),
            None => CurrentOperand::Computed(x.dtype(), x.shape().to_vec()),
        };
        let operands = operands.iter().map(operand).collect();
        Some(CurrentCall { prefix, op: op.spec(), operands, params })
    }

    /// Returns the successful result of the last call.
    ///
    /// # Panics
    ///
    /// If the result is an error. The message contains the call.
    #[track_caller]
    pub(super) fn made<T>(&self, result: Result<T, ErasedError>) -> T {
        result.unwrap_or_else(|error| self.failed(&self.last(), &error))
    }

    /// Runs a call. If the backend panics, panics with a message that contains the call.
    #[track_caller]
    pub(super) fn called<T>(&self, call: CurrentCall, body: impl FnOnce() -> T) -> T {
        let call = Arc::new(call);
        self.watch.run(&call, || bb_core::runtime::catch(body)).unwrap_or_else(|message| {
            // Reading the operands may panic again, for instance because of a poisoned lock.
            let elements = || bb_core::runtime::catch(|| self.last()).ok();
            let whole = if call.is_complete() { None } else { elements() };
            match whole {
                Some(last) => panic!("{}{last} panicked: {message}", call.prefix),
                None => panic!("{call} panicked: {message}"),
            }
        })
    }

    /// Panics with the call and the error. If element types are missing, the message says which types to declare.
    #[track_caller]
    pub(super) fn failed(&self, call: &dyn Display, error: &ErasedError) -> ! {
        let takes = |call: &Call| {
            let tried = bb_core::runtime::catch(|| {
                let results = call.run(self)?;
                results.iter().try_for_each(|x| self.backend().to_host(x).map(drop))
            });
            matches!(tried, Ok(Ok(())))
        };
        let lacks = self.cause(error, |error| {
            matches!(error, bb_core::Error::NoPrimitive { .. } | bb_core::Error::NoMethod { .. })
        });
        if let Some(lacks) = lacks {
            let mut first = self.lacks.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| lacks.to_string());
        }
        let (call, causes) = (call.to_string(), bb_core::error::causes(error));
        let undeclared = if self.chosen { None } else { hint(&self.types, self.declaration, takes) };
        let hint = undeclared.or_else(|| declared(&self.types, self.declaration, &call, &causes));
        panic!("{call} failed: {causes}{}", hint.map_or_else(String::new, |hint| format!("\n{hint}")))
    }

    /// Returns the first error of `bb`, among an error and its causes, that meets a condition.
    pub(super) fn cause<'e>(
        &self,
        error: &'e ErasedError,
        meets: impl Fn(&bb_core::Error) -> bool,
    ) -> Option<&'e bb_core::Error> {
        let chain = std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source());
        let mut own = chain
            .filter_map(|error| error.downcast_ref::<bb_core::Error>().or_else(|| (self.wrapped)(error)));
        own.find(|error| meets(error))
    }

    /// Runs a graph through `dispatch` or `execute` of the backend.
    pub(super) fn run_graph(
        &self,
        graph: &Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
        dispatched: bool,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        match dispatched {
            true => self.on.dispatch(graph.clone(), inputs, attrs).wait(),
            false => self.on.execute(graph, inputs, attrs),
        }
    }

    /// Copies a host tensor to the backend.
    ///
    /// # Panics
    ///
    /// If the backend returns an error.
    #[track_caller]
    pub fn bring(&self, x: &TensorData) -> ErasedTensor {
        let call = CurrentCall::constant(x);
        self.note(Primitive::Constant, Vec::new(), call.params.clone());
        let made = self.called(call, || self.backend().constant(x));
        let made = made.unwrap_or_else(|error| self.failed(&CurrentCall::constant(x), &error));
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        brought.push_back((made.clone(), x.clone()));
        if brought.len() > BROUGHT {
            brought.pop_front();
        }
        made
    }

    /// Returns a view of a tensor with its axes in reverse order; `None` if the backend does not run `transpose`.
    #[track_caller]
    pub(super) fn reversed(&self, x: &ErasedTensor) -> Option<ErasedTensor> {
        self.runs(Primitive::Transpose).then(|| self.made(self.transpose(x, &[])))
    }

    /// Copies a tensor to the host.
    ///
    /// # Panics
    ///
    /// If the backend returns an error.
    #[track_caller]
    pub fn fetch(&self, x: &ErasedTensor) -> TensorData {
        self.fetch_as(x, "`to_host` of a result or an operand of ", &self.last())
    }

    /// Copies the result of a call to the host.
    #[track_caller]
    pub(super) fn fetch_result(&self, x: &ErasedTensor, call: &str) -> TensorData {
        self.fetch_as(x, "`to_host` of a result of ", call)
    }

    #[track_caller]
    fn fetch_as(&self, x: &ErasedTensor, prefix: &'static str, call: &str) -> TensorData {
        let copy = || self.backend().to_host(x);
        let host = match self.current(prefix) {
            Some(current) => self.called(current, copy),
            None => copy(),
        };
        host.unwrap_or_else(|error| panic!("{prefix}{call} failed: {}", bb_core::error::causes(&error)))
    }
}

/// Tests that a backend declares these element types ([`Backend::types`]), and no others.
///
/// # Panics
///
/// If it declares other types.
#[track_caller]
pub fn assert_types<B: Backend>(backend: &B, listed: &[DataType]) {
    let listed = DataTypes::of(listed);
    let declared = backend.types();
    assert!(
        declared == listed,
        "the tests list the element types {listed}, and `fn types` of the backend declares {declared}\n{}",
        (TypesDeclaration::RUST.source)(&listed.iter().collect::<Vec<_>>())
    );
}

impl Drop for Subject<'_> {
    /// Reports which calls made a test slow.
    fn drop(&mut self) {
        // After a panic, the backend may be the cause, so it is not called again.
        if !std::thread::panicking()
            && let Some(report) = self.slow(slow::SLOW)
        {
            report.print();
        }
    }
}

/// Expands to the Rust type of an operand of each kind.
macro_rules! operand {
    (Tensor) => { &ErasedTensor };
    (Optional) => { Option<&ErasedTensor> };
    (Tensors) => { &[&ErasedTensor] };
}

/// Expands to the operands of each kind as a list.
macro_rules! listed {
    (Tensor, $x:ident) => {
        vec![$x.clone()]
    };
    (Optional, $x:ident) => {
        $x.into_iter().cloned().collect::<Vec<_>>()
    };
    (Tensors, $x:ident) => {
        $x.iter().map(|x| (*x).clone()).collect::<Vec<_>>()
    };
}

/// Expands to the Rust type of a result of each kind.
macro_rules! results {
    (Tensor) => { ErasedTensor };
    (Tensors) => { Vec<ErasedTensor> };
}

macro_rules! kept {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        /// The primitives. Each call is stored and passed on to the backend.
        #[allow(missing_docs, reason = "the contract documents them")]
        impl Subject<'_> {
            $(
                #[track_caller]
                #[allow(clippy::missing_errors_doc, reason = "the contract documents them")]
                pub fn $method(&self $(, $input: operand!($kind))* $($(, $param: bb_ir::param_type!($pkind))+)?)
                    -> Result<results!($output), ErasedError> {
                    let operands: Vec<Vec<ErasedTensor>> = vec![$( listed!($kind, $input) ),*];
                    let params = vec![$($( bb_ir::param_value!($pkind, $param).into_owned() ),+)?];
                    self.note(Primitive::$name, operands.concat(), params);
                    let call = || self.backend().$method($($input,)* $($($param),+)?);
                    let (results, time) = timed(|| match self.current("") {
                        Some(current) => self.called(current, call),
                        None => call(),
                    });
                    self.took(time);
                    results
                }
            )*
        }
    };
}

bb_ir::for_each_primitive!(kept);

/// Creates a tensor on the backend from values, whose Rust type determines the element type.
///
/// # Panics
///
/// If the backend returns an error, or the number of values does not match the shape.
#[track_caller]
pub fn tensor<T: Value>(
    on: &Subject<'_>,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[T]>,
) -> ErasedTensor {
    on.bring(&T::host(shape.as_ref(), values.as_ref()))
}

/// Creates a tensor of any compute type from small numbers, each converted to the type.
///
/// # Panics
///
/// If the backend returns an error, or `dtype` is a storage type.
#[track_caller]
pub fn numbers(
    on: &Subject<'_>,
    dtype: DataType,
    shape: impl AsRef<[usize]>,
    values: impl AsRef<[f64]>,
) -> ErasedTensor {
    on.bring(&host_numbers(dtype, shape.as_ref(), values.as_ref()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::check::refused;
    use bb_core::{Error, Outputs};

    #[derive(Clone)]
    struct Host(TensorData);

    impl Tensor for Host {
        fn dtype(&self) -> DataType {
            self.0.dtype()
        }

        fn shape(&self) -> &[usize] {
            self.0.shape()
        }
    }

    /// A backend whose operations return their first operand or their constant.
    struct First;

    impl First {
        fn call(
            &self,
            _: Primitive,
            inputs: &[Option<&Host>],
            params: &[Param<'_>],
        ) -> Result<Outputs<Host>, Error> {
            match (inputs, params) {
                ([Some(x), ..], _) => Ok(Outputs::from_buf([(*x).clone()])),
                (_, [Param::Data(value)]) => Ok(Outputs::from_buf([Host(value.as_ref().clone())])),
                _ => Err(Error::Abandoned),
            }
        }
    }

    impl Backend for First {
        type Tensor = Host;
        type Error = Error;

        bb_core::forward_to_call!(Self::call);

        fn to_host(&self, x: &Host) -> Result<TensorData, Error> {
            Ok(x.0.clone())
        }
    }

    #[test]
    fn primitives_that_are_not_written_do_not_run() {
        let on = Subject::new(&First).without(vec![Primitive::Exp]);
        assert!(!on.runs(Primitive::Exp) && on.runs(Primitive::Log));
    }

    /// A backend that lacks transpositions. Its error type wraps the errors of `bb`. Refusals of `gather` break a promise.
    struct Lacking;

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct LackingError(#[from] Error);

    impl Lacking {
        fn call(
            &self,
            op: Primitive,
            inputs: &[Option<&Host>],
            params: &[Param<'_>],
        ) -> Result<Outputs<Host>, LackingError> {
            let values = || ("null".to_owned(), "a tensor".to_owned());
            match op {
                Primitive::Transpose => Err(Error::NoPrimitive { op: "transpose" }.into()),
                Primitive::Gather => {
                    let broken =
                        bb_core::BrokenPromise::new("lacking", "gather", "result 0".to_owned(), values());
                    Err(Error::from(broken).into())
                }
                _ => Ok(First.call(op, inputs, params)?),
            }
        }
    }

    impl Backend for Lacking {
        type Tensor = Host;
        type Error = LackingError;

        bb_core::forward_to_call!(Self::call);

        fn wrapped(error: &LackingError) -> Option<&Error> {
            Some(&error.0)
        }

        fn to_host(&self, x: &Host) -> Result<TensorData, LackingError> {
            Ok(x.0.clone())
        }
    }

    fn turns(on: &Subject<'_>) {
        let x = tensor(on, [2], [1f32, 2.0]);
        on.made(on.transpose(&x, &[]));
    }

    #[test]
    fn a_test_that_needs_a_missing_primitive_is_skipped_and_hides_no_later_failure() {
        let on = Subject::new(&Lacking);
        let skipped = TestEnd::Skipped("the backend does not run `transpose`".to_owned());
        assert_eq!(on.case("add", turns), skipped);
        let failed = bb_core::runtime::catch(|| on.case("add", |_| panic!("another sum")));
        assert_eq!(failed.unwrap_err(), "another sum");
        assert_eq!(on.case("add", |_| ()), TestEnd::Passed);
    }

    #[test]
    fn a_refusal_that_breaks_a_promise_fails() {
        let on = Subject::new(&Lacking);
        let x = tensor(&on, [2], [1f32, 2.0]);
        let failed =
            bb_core::runtime::catch(|| refused(&on, on.gather(&x, &x, 0), "index 3 is out of range"));
        let message = failed.unwrap_err();
        assert!(message.contains("broke a promise of the interface in `gather`"), "{message}");
    }

    #[test]
    fn a_slow_test_names_its_calls() {
        let on = Subject::new(&First);
        let x = tensor(&on, [2], [1f32, 2.0]);
        on.add(&x, &x).unwrap();
        on.transpose(&x, &[0]).unwrap();
        assert!(on.slow(slow::SLOW).is_none());
        let report = on.slow(Duration::ZERO).unwrap();
        let mut names: Vec<&str> = report.slowest.iter().map(|row| row.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["add(f32[2], f32[2])", "transpose(f32[2]; perm = [0])"]);
        assert!(report.sum <= report.took);
    }
}
