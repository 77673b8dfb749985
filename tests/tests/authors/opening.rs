//! Tests opening backends by name, with options and with devices that are found at run time, and which options and
//! names are refused.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use bb::{
    Backend, BackendHandle, Backends, Declared, Deployment, Device, Error, OpenOption, OpenOptions, Outputs,
    Primitive, Registry, Runtime, TensorData, ir::op::Param,
};
use bb_reference::{Reference, Tensor};
use std::num::NonZeroUsize;
use std::sync::{Barrier, LazyLock};
use std::time::Duration;

/// A backend that lists every device of a machine, in any order, as a driver does.
#[derive(bb::Backend)]
#[bb(name = "gpu", open = Gpu::open, options(device, memory), devices = Gpu::list)]
struct Gpu {
    options: OpenOptions,
}

#[derive(Debug)]
struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another process has the device")
    }
}

impl std::error::Error for Busy {}

impl Gpu {
    fn open(options: &OpenOptions) -> Result<Gpu, Busy> {
        assert_eq!(options.threads, None, "it does not take threads");
        match options.device.as_deref() {
            Some("busy") => Err(Busy),
            _ => Ok(Gpu { options: options.clone() }),
        }
    }

    fn list() -> Vec<Device> {
        vec![Device::new("1", "the fast one"), Device::new("busy", ""), Device::new("0", "the old one")]
    }
}

/// Implements the contract with the reference backend.
macro_rules! computes {
    ($($backend:ident)*) => {
        $(
            impl $backend {
                fn call(
                    &self,
                    op: Primitive,
                    inputs: &[Option<&Tensor>],
                    params: &[Param<'_>],
                ) -> Result<Outputs<Tensor>, bb_reference::Error> {
                    bb::call_primitive(&Reference, op, inputs, params)
                }
            }

            impl Backend for $backend {
                type Tensor = Tensor;
                type Error = bb_reference::Error;

                bb::forward_to_call!(Self::call);

                fn to_host(&self, x: &Tensor) -> Result<TensorData, bb_reference::Error> {
                    Reference.to_host(x)
                }
            }
        )*
    };
}

computes! { Gpu Twins Spaced Lost Panics Named }

/// A backend whose devices have names that are no numbers.
#[derive(bb::Backend)]
#[bb(open = Named::open, options(device), devices = Named::list)]
struct Named;

impl Named {
    fn open(_: &OpenOptions) -> Named {
        Named
    }

    fn list() -> Vec<Device> {
        vec![Device::new("right", ""), Device::new("left", "")]
    }
}

/// A backend whose driver lists two devices with the same name.
#[derive(bb::Backend)]
#[bb(open = Twins::open, options(device), devices = Twins::list)]
struct Twins;

impl Twins {
    fn open(_: &OpenOptions) -> Twins {
        Twins
    }

    fn list() -> Vec<Device> {
        vec![Device::new("0", "one"), Device::new("0", "another")]
    }
}

/// A backend whose driver lists a device with a name that users cannot write.
#[derive(bb::Backend)]
#[bb(open = Spaced::open, options(device), devices = Spaced::list)]
struct Spaced;

impl Spaced {
    fn open(_: &OpenOptions) -> Spaced {
        Spaced
    }

    fn list() -> Vec<Device> {
        vec![Device::new("GPU 0", "")]
    }
}

/// A backend whose driver panics while it lists the devices.
#[derive(bb::Backend)]
#[bb(open = Lost::open, options(device), devices = Lost::list)]
struct Lost;

impl Lost {
    fn open(_: &OpenOptions) -> Lost {
        Lost
    }

    fn list() -> Result<Vec<Device>, Busy> {
        panic!("the driver is gone")
    }
}

/// A backend whose constructor panics.
#[derive(bb::Backend)]
#[bb(new = Panics::new)]
struct Panics;

impl Panics {
    fn new() -> Panics {
        panic!("no driver")
    }
}

fn threads(threads: usize) -> OpenOptions {
    OpenOptions::default().with_threads(NonZeroUsize::new(threads).unwrap())
}

fn gpus() -> Registry {
    Registry::builder().declared::<Gpu>().declared::<Reference>().declared::<bb_cpu::Cpu>().build()
}

#[test]
fn each_device_has_its_own_instance_and_name() {
    let registry = gpus();
    let (any, one) = (registry.backend("gpu").unwrap(), registry.backend("gpu:1").unwrap());
    assert_eq!((any.name(), one.name()), ("gpu", "gpu:1"));
    assert_ne!(any.owner(), one.owner());
    let on = one.typed::<Gpu>().unwrap();
    assert_eq!(on.options.device.as_deref(), Some("1"));
    // All ways to select the device lead to the same instance.
    let same = registry.backend_with("gpu", &OpenOptions::default().with_device("1")).unwrap();
    assert_eq!(same.owner(), one.owner());
    assert_eq!(registry.backend("gpu:1").unwrap().owner(), one.owner());
    // A plan saved for one device runs on the others.
    assert_eq!(any.runtime().abi_fingerprint(), one.runtime().abi_fingerprint());
    let backends = Backends::new([any, one.clone()]);
    assert_eq!(backends.named("gpu:1").unwrap().owner(), one.owner());
}

#[test]
fn an_option_reaches_the_constructor_and_instances_are_shared_by_options() {
    let registry = gpus();
    let small = OpenOptions::default().with_memory(1 << 20);
    let one = registry.backend_with("gpu:0", &small).unwrap();
    assert_eq!(one.typed::<Gpu>().unwrap().options, small.clone().with_device("0"));
    assert_eq!(registry.backend_with("gpu:0", &small).unwrap().owner(), one.owner());
    assert_ne!(registry.backend("gpu:0").unwrap().owner(), one.owner());
}

#[test]
fn an_unsupported_option_is_refused_before_the_backend_is_opened() {
    let registry = gpus();
    let error = registry.backend_with("gpu", &threads(2)).unwrap_err();
    assert!(matches!(error, Error::OpenOption { backend: "gpu", option: OpenOption::Threads, .. }));
    assert_eq!(
        error.to_string(),
        "backend `gpu` does not take the option `threads`; it takes `device`, `memory`, and `narrow_floats` if it lacks a float type"
    );
    let error = registry.backend("reference:0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `reference` does not take the option `device`; it takes only `narrow_floats`, if it lacks a float type"
    );
    let error = registry.backend("cpu:0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `cpu` does not take the option `device`; it takes `threads`, `memory`, `level`, and `narrow_floats` if it lacks a float type"
    );
    assert!(Runtime::open_with::<Reference>(&threads(1)).is_err());
    let running = Registry::builder().running(Runtime::new(Reference)).build();
    assert!(matches!(running.backend_with("reference", &threads(1)), Err(Error::OpenOption { .. })));
}

#[test]
fn an_unknown_device_is_refused_with_a_list_of_devices() {
    let registry = gpus();
    let error = registry.backend("gpu:7").unwrap_err();
    assert_eq!(error.to_string(), r#"backend `gpu` has no device `7`; its devices are ["0", "1", "busy"]"#);
    assert!(matches!(registry.backend("gpu:"), Err(Error::DeviceName { .. })));
    let two = registry.backend_with("gpu:0", &OpenOptions::default().with_device("1")).unwrap_err();
    assert!(matches!(two, Error::TwoDevices { .. }));
    assert!(matches!(registry.backend("gpu:busy"), Err(Error::Unavailable { backend: "gpu", .. })));
    assert!(matches!(registry.backend("npu:0"), Err(Error::UnknownBackend { name, .. }) if name == "npu:0"));
}

#[test]
fn a_device_is_selected_by_position_if_none_has_this_name() {
    let registry = Registry::builder().declared::<Named>().build();
    let by_position = registry.backend("named:1").unwrap();
    assert_eq!(by_position.name(), "named:right");
    assert_eq!(registry.backend("named:right").unwrap().owner(), by_position.owner());
    assert_eq!(registry.backend("named:0").unwrap().name(), "named:left");
    assert!(matches!(registry.backend("named:2"), Err(Error::UnknownDevice { device, .. }) if device == "2"));
}

#[test]
fn devices_are_listed_by_name_or_with_an_error() {
    let listed = gpus().backends().unwrap();
    let gpu = listed.iter().find(|l| l.name == "gpu").unwrap();
    assert_eq!(gpu.options, Gpu::OPTIONS);
    let devices = gpu.devices.as_ref().unwrap();
    let described: Vec<_> = devices.iter().map(|d| (&*d.name, &*d.description)).collect();
    assert_eq!(described, [("0", "the old one"), ("1", "the fast one"), ("busy", "")]);
    let cpu = listed.iter().find(|l| l.name == "cpu").unwrap();
    let names: Vec<&str> = cpu.options.iter().map(|option| option.name()).collect();
    assert_eq!(names, ["threads", "memory", "level"]);
    assert!(cpu.devices.as_ref().unwrap().is_empty());

    let wrong = Registry::builder().declared::<Twins>().declared::<Spaced>().declared::<Lost>().build();
    let listed = wrong.backends().unwrap();
    let errors: Vec<_> = listed.iter().map(|l| l.devices.as_ref().unwrap_err()).collect();
    // The backends themselves are available, because no device was requested.
    assert!(listed.iter().all(|l| l.backend.is_ok()));
    assert!(matches!(errors.first(), Some(Error::Unavailable { backend: "lost", .. })));
    assert!(matches!(errors.get(1), Some(Error::DeviceName { backend: "spaced", .. })));
    assert!(matches!(errors.get(2), Some(Error::DuplicateDevice { backend: "twins", .. })));
    assert!(matches!(wrong.backend("twins:0"), Err(Error::DuplicateDevice { .. })));
}

#[test]
fn a_backend_whose_constructor_panics_is_unavailable() {
    let registry = Registry::builder().declared::<Panics>().declared::<Reference>().build();
    for _ in 0..2 {
        let Err(Error::Unavailable { backend: "panics", source, .. }) = registry.backend("panics") else {
            panic!("it is available")
        };
        assert!(source.to_string().contains("no driver"), "{source}");
    }
    assert!(registry.backend("reference").is_ok());
}

#[test]
fn two_versions_of_one_backend_are_distinguished() {
    let old = bb::Registration { version: "0.0.9", ..bb::Registration::of::<Reference>() };
    let registry = Registry::builder().declared::<Reference>().registration(old).build();
    let error = registry.backend("reference").unwrap_err().to_string();
    assert!(error.contains("`bb_reference::Reference 0.0.9`"), "{error}");
}

#[test]
fn the_cpu_backend_computes_on_as_many_threads_as_it_is_opened_with() {
    let registry = gpus();
    for count in [1, 3] {
        let cpu = registry.backend_with("cpu", &threads(count)).unwrap();
        assert_eq!(cpu.name(), "cpu");
        assert_eq!(cpu.typed::<bb_cpu::Cpu>().unwrap().threads(), count);
        let x = cpu.tensor(&[2], &[1f32, 2.0]).unwrap();
        let y = cpu.add(&x, &x).unwrap().to_host(64).unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap(), [2.0, 4.0]);
    }
}

#[test]
fn the_error_for_an_unbound_backend_says_how_to_bind_it() {
    let backends = Backends::new([BackendHandle::new(Runtime::new(Reference))]);
    let error = backends.named("cpu").unwrap_err();
    assert_eq!(
        error.to_string(),
        "backend `cpu` is not bound here, where `reference` is bound: write \
         `.backend(bb::backend(\"cpu\")?)` before `.ready()`"
    );
    let error = backends.named("gpu:1").unwrap_err();
    assert!(matches!(error, Error::NotBound { name, .. } if name == "gpu:1"));
    let error = Backends::default().default_backend().unwrap_err().to_string();
    assert!(error.contains("`.backend(bb::backend(") && error.contains("`cpu`"), "{error}");
    let built = Deployment::builder()
        .model(
            "m",
            bb_tests::model::model(
                &[("x", &[1])],
                vec![bb_tests::model::node("Neg", &["x"], &["y"])],
                &[("y", &[1])],
            ),
        )
        .backend(BackendHandle::new(Runtime::new(Reference)))
        .bind_op("Neg", "cpu")
        .ready();
    let Err(Error::NotReady { problems }) = built else { panic!("expected what is wrong") };
    let [bb::Problem::UnknownBackend { by, source }] = problems.0.as_slice() else { panic!("{problems}") };
    assert_eq!(by, ".bind_op(\"Neg\", \"cpu\")");
    assert!(matches!(&**source, Error::NotBound { name, bound } if name == "cpu" && *bound == ["reference"]));
}

#[test]
fn an_unknown_backend_names_the_derive() {
    let error = bb::backend("mine").unwrap_err().to_string();
    assert!(error.contains("#[derive(bb::Backend)]") && error.contains("use the_crate as _;"), "{error}");
    let error = Registry::builder().build().backend("mine").unwrap_err().to_string();
    assert!(error.contains("none is linked") && error.contains("#[derive(bb::Backend)]"), "{error}");
}

/// Declares a backend whose constructor is a function, and which computes like the reference backend.
macro_rules! constructed {
    ($($backend:ident = $construct:expr;)*) => {
        computes! { $($backend)* }
        $(
            #[derive(bb::Backend)]
            #[bb(new = $backend::new)]
            struct $backend;

            impl $backend {
                fn new() -> Result<$backend, Error> {
                    let construct: fn() -> Result<(), Error> = $construct;
                    construct().map(|()| $backend)
                }
            }
        )*
    };
}

constructed! {
    Selfish = || curious().backend("selfish").map(drop);
    First = || curious().backend("second").map(drop);
    Second = || curious().backend("first").map(drop);
    Asks = || {
        let listed = curious().backends()?;
        assert!(listed.iter().any(|found| found.name == "asks" && found.backend.is_err()));
        assert!(listed.iter().any(|found| found.name == "reference" && found.backend.is_ok()));
        Ok(())
    };
    Uses = || curious().backend("reference").map(drop);
    Left = || meet("right");
    Right = || meet("left");
}

/// A registry of backends whose constructors ask it.
fn curious() -> &'static Registry {
    static CURIOUS: LazyLock<Registry> = LazyLock::new(|| {
        let builder = Registry::builder().declared::<Reference>().declared::<Selfish>().declared::<First>();
        builder.declared::<Second>().declared::<Asks>().declared::<Uses>().build()
    });
    &CURIOUS
}

/// A registry of two backends whose constructors open each other, at the same time.
fn meeting() -> &'static Registry {
    static MEETING: LazyLock<Registry> =
        LazyLock::new(|| Registry::builder().declared::<Left>().declared::<Right>().build());
    &MEETING
}

/// Opens a backend once both constructors run.
fn meet(other: &str) -> Result<(), Error> {
    static BOTH: Barrier = Barrier::new(2);
    BOTH.wait();
    // If the other backend reports the cycle, this one can be used without it.
    let opened = meeting().backend(other);
    assert!(matches!(opened, Err(Error::OpenCycle { .. } | Error::Unavailable { .. })) || opened.is_ok());
    Ok(())
}

/// Runs a function on another thread; fails if it does not end.
fn ends<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(run()));
    receive.recv_timeout(Duration::from_secs(60)).expect("the call ends")
}

/// Returns the path of the cycle among the causes of an error.
fn cycle(error: &Error) -> Vec<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(Error::OpenCycle { path, .. }) = found.downcast_ref() {
            return path.clone();
        }
        cause = found.source();
    }
    panic!("{error:?}")
}

#[test]
fn a_constructor_that_opens_its_own_backend_is_an_error() {
    for _ in 0..2 {
        let error = ends(|| curious().backend("selfish").unwrap_err());
        assert!(matches!(error, Error::Unavailable { backend: "selfish", .. }));
        assert_eq!(cycle(&error), ["selfish", "selfish"]);
    }
    let error = ends(|| curious().backend("second").unwrap_err());
    assert_eq!(cycle(&error), ["second", "first", "second"]);
    let error = Error::OpenCycle { backend: "second", path: cycle(&error) };
    assert_eq!(
        error.to_string(),
        "backend `second` is opened by its own constructor, through `second`, `first`, `second`"
    );
}

#[test]
fn a_constructor_may_list_backends_and_open_others() {
    assert!(ends(|| curious().backend("asks").is_ok()));
    assert!(ends(|| curious().backend("uses").is_ok()));
}

#[test]
fn constructors_that_wait_for_each_other_in_two_threads_end() {
    let opened = ends(|| {
        let left = std::thread::spawn(|| meeting().backend("left").is_ok());
        let right = std::thread::spawn(|| meeting().backend("right").is_ok());
        (left.join().unwrap(), right.join().unwrap())
    });
    assert_eq!(opened, (true, true));
}
