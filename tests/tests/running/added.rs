//! Tests backends that a program adds to a registry while it runs, and removes.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::{
    Added, Backend, BackendHandle, BackendOrigin, BoxError, DataType, DataTypes, Declared, Device, Error,
    ErrorKind, InnerBackend, OpenOption, OpenOptions, Registry, TensorData,
};
use bb_cpu::Cpu;
use bb_reference::Reference;
use bb_tests::on_reference::by_reference;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// A backend without native operations, which lives as long as its token.
struct Chip {
    _token: Arc<()>,
    types: DataTypes,
}

impl Backend for Chip {
    type Tensor = bb_reference::Tensor;
    type Error = bb_reference::Error;

    bb::forward_to_call!(by_reference);

    fn to_host(&self, x: &bb_reference::Tensor) -> Result<TensorData, bb_reference::Error> {
        Reference.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.types
    }
}

impl InnerBackend for Chip {}

fn registry() -> Registry {
    Registry::builder().declared::<Cpu>().build()
}

fn called(name: &'static str) -> Added {
    Added { name, version: "3", path: "tests::Chip", options: &[], origin: BackendOrigin::Registered }
}

/// Adds a chip and returns what its instances hold.
fn add(registry: &Registry, name: &'static str) -> Arc<()> {
    let token = Arc::new(());
    let held = token.clone();
    registry
        .add(called(name), move |_| -> Result<_, BoxError> {
            Ok(Chip { _token: held.clone(), types: DataTypes::ALL })
        })
        .unwrap();
    token
}

fn doubled(on: &BackendHandle) -> Vec<f32> {
    let x = on.tensor(&[2], &[1.5f32, -2.0]).unwrap();
    on.to_host(&on.add(&x, &x).unwrap()).unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn names(registry: &Registry) -> Vec<&'static str> {
    registry.entries().map(|of| of.name).collect()
}

#[test]
fn an_added_backend_is_found_and_listed_like_a_linked_one() {
    let registry = registry();
    add(&registry, "zeta");
    add(&registry, "alpha");
    assert_eq!(names(&registry), ["alpha", "cpu", "zeta"]);
    let listed = registry.backends().unwrap();
    let chip = listed.iter().find(|of| of.name == "zeta").unwrap();
    assert_eq!((chip.version, chip.path), ("3", "tests::Chip"));
    let zeta = registry.backend("zeta").unwrap();
    assert_eq!((zeta.name(), zeta.runtime().version(), zeta.runtime().path()), ("zeta", "3", "tests::Chip"));
    assert_eq!(doubled(&zeta), [3.0, -4.0]);
    // Two callers share the instance.
    assert_eq!(registry.backend("zeta").unwrap().owner(), zeta.owner());
    assert!(matches!(registry.backend("zeta:1"), Err(Error::OpenOption { option: OpenOption::Device, .. })));
    // Another registry does not have it.
    assert!(matches!(Registry::builder().build().backend("zeta"), Err(Error::UnknownBackend { .. })));
}

#[test]
fn a_name_is_taken_once_and_cannot_be_read_as_another() {
    let registry = registry();
    add(&registry, "chip");
    let again = |name| registry.add(called(name), |_| Ok(Reference)).unwrap_err();
    let other = "choose another name";
    let remove = "remove that one before, or choose another name";
    let holders = [
        ("cpu", Cpu::PATH, other),
        ("chip", "tests::Chip", remove),
        ("first_of", "a function of backends", other),
    ];
    for (name, by, advice) in holders {
        let taken = again(name);
        assert_eq!(taken.to_string(), format!("the name `{name}` is taken by `{by}`: {advice}"));
        assert!(matches!(&taken, Error::NameTaken { name: of, .. } if of == name), "{taken:?}");
        assert_eq!(taken.kind(), ErrorKind::Configuration);
    }
    for name in ["", "a b", "a+b", "a(b)", "a:1", "a=b", "a,b"] {
        let refused = again(name);
        assert!(matches!(&refused, Error::BackendName { name: of } if of == name), "{refused:?}");
    }
    assert_eq!(names(&registry), ["chip", "cpu"]);
}

#[test]
fn of_threads_that_add_one_name_one_succeeds() {
    let registry = registry();
    let (start, added) = (Barrier::new(8), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                match registry.add(called("chip"), |_| Ok(Reference)) {
                    Ok(()) => _ = added.fetch_add(1, Ordering::Relaxed),
                    Err(error) => assert!(matches!(error, Error::NameTaken { .. }), "{error:?}"),
                }
            });
        }
    });
    assert_eq!((added.into_inner(), names(&registry)), (1, vec!["chip", "cpu"]));
}

#[test]
fn a_removed_backend_is_not_found_and_ends_with_its_last_instance() {
    let registry = registry();
    let token = add(&registry, "chip");
    let (chip, both) = (registry.backend("chip").unwrap(), registry.backend("first_of(chip, cpu)").unwrap());
    assert_eq!(doubled(&both), [3.0, -4.0]);
    drop(both);
    assert!(registry.remove("chip") && !registry.remove("chip"));
    assert_eq!(names(&registry), ["cpu"]);
    for name in ["chip", "first_of(chip, cpu)"] {
        assert!(registry.backend(name).is_err(), "{name}");
    }
    // An existing instance stays usable.
    assert_eq!(doubled(&chip), [3.0, -4.0]);
    drop(chip);
    assert_eq!(Arc::strong_count(&token), 1);
    // The name is free, and combined backends that use the name are created again.
    let other = add(&registry, "chip");
    let both = registry.backend("first_of(chip, cpu)").unwrap();
    assert_eq!(doubled(&both), [3.0, -4.0]);
    assert!(Arc::strong_count(&other) > 2);
}

#[test]
fn only_added_backends_are_removed() {
    let registry = registry();
    assert!(!registry.remove("cpu") && !registry.remove("first_of") && !registry.remove(""));
    assert!(registry.backend("cpu").is_ok());
}

#[test]
fn what_is_made_while_its_backend_is_removed_is_not_kept() {
    let registry = Arc::new(registry());
    let (begun, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let token = Arc::new(());
    let (held, meet) = (token.clone(), (begun.clone(), go_on.clone()));
    registry
        .add(called("slow"), move |_| -> Result<_, BoxError> {
            meet.0.wait();
            meet.1.wait();
            Ok(Chip { _token: held.clone(), types: DataTypes::ALL })
        })
        .unwrap();
    let opening = std::thread::spawn({
        let registry = registry.clone();
        move || registry.backend("first_of(slow, cpu)").map(|on| doubled(&on))
    });
    begun.wait();
    assert!(registry.remove("slow"));
    go_on.wait();
    assert_eq!(opening.join().unwrap().unwrap(), [3.0, -4.0]);
    assert!(registry.backend("first_of(slow, cpu)").is_err());
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_constructor_gets_the_options_and_its_failure_is_that_of_opening() {
    let registry = registry();
    let of = Added { options: &[OpenOption::Threads], ..called("chip") };
    let token = Arc::new(());
    registry
        .add(of, move |options: &OpenOptions| {
            let types = DataTypes::of(&[DataType::F32, DataType::I32, DataType::Bool]);
            match options.threads {
                Some(_) => Ok(Chip { _token: token.clone(), types }),
                None => Err("no threads".into()),
            }
        })
        .unwrap();
    let failed = registry.backend("chip").unwrap_err();
    let Error::Unavailable { backend: "chip", source, .. } = &failed else { panic!("{failed:?}") };
    assert_eq!(failed.to_string(), "backend `chip` is registered, but not available");
    assert_eq!(source.to_string(), "no threads");
    // Narrow types are widened as for a linked backend.
    let one = registry.backend("chip(threads=1)").unwrap();
    let x = one.tensor(&[1], &[7i64]).unwrap();
    assert_eq!(one.to_host(&one.neg(&x).unwrap()).unwrap().as_slice::<i64>().unwrap(), [-7]);
    // A wide float is an error where it is computed with, unless it may be narrowed.
    let tenth = |name| {
        let on = registry.backend(name).unwrap();
        let x = on.tensor(&[1], &[0.1f64])?;
        on.neg(&x)
    };
    assert_eq!(tenth("chip(threads=1)").unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(tenth("chip(threads=1, narrow_floats)").is_ok());
    // On a backend with every type, the option would have no effect.
    registry.add(called("wide"), |_| Ok(Reference)).unwrap();
    let refused = registry.backend("wide(narrow_floats)").unwrap_err();
    assert!(matches!(refused, Error::OpenOption { option: OpenOption::NarrowFloats, .. }), "{refused:?}");
}

#[test]
fn a_backend_of_a_library_that_fails_names_the_library() {
    let registry = registry();
    let of = Added { origin: BackendOrigin::Loaded("lib/libchip.so"), ..called("chip") };
    let failed = || -> Result<Vec<Device>, BoxError> { Err("no driver".into()) };
    registry
        .add_with_devices(of, failed, |_| -> Result<Reference, BoxError> { Err("no chip".into()) })
        .unwrap();
    let expected = "backend `chip` is loaded from `lib/libchip.so`, but not available";
    for name in ["chip", "metrics+chip"] {
        assert_eq!(registry.backend(name).unwrap_err().to_string(), expected, "{name}");
    }
    let listed = registry.backends().unwrap();
    let chip = listed.iter().find(|listed| listed.name == "chip").unwrap();
    assert_eq!(chip.devices.as_ref().unwrap_err().to_string(), expected);
}

#[test]
fn listed_devices_are_opened_by_name_and_position() {
    let registry = registry();
    let of = Added { options: &[OpenOption::Device], ..called("chip") };
    let devices = || Ok(vec![Device::new("right", "the second"), Device::new("left", "the first")]);
    registry.add_with_devices(of, devices, |_| Ok(Reference)).unwrap();
    let listed = registry.backends().unwrap();
    let chip = listed.iter().find(|of| of.name == "chip").unwrap();
    let names: Vec<&str> = chip.devices.as_ref().unwrap().iter().map(|device| &*device.name).collect();
    assert_eq!(names, ["left", "right"]);
    for (name, supported) in
        [("chip:right", true), ("chip:1", true), ("chip:2", false), ("chip:up", false), ("cpu:left", false)]
    {
        assert_eq!(registry.supports_device(name), supported, "{name}");
    }
    assert_eq!(registry.backend("chip:1").unwrap().name(), "chip:right");
    for name in ["chip:up", "metrics+chip:2", "first_of(chip:up, cpu)"] {
        assert!(registry.backend(name).is_err(), "{name}");
    }
    let unknown = registry.backend("chip:up").unwrap_err();
    assert!(
        matches!(&unknown, Error::UnknownDevice { backend: "chip", device, found } if device == "up" && found == &["left", "right"]),
        "{unknown:?}"
    );
    // Lists that no name could choose from.
    for (name, twice) in [("twice", true), ("blank", false)] {
        let list = move || Ok(if twice { vec![Device::new("a", ""); 2] } else { vec![Device::new(" ", "")] });
        registry.add_with_devices(Added { name, ..of }, list, |_| Ok(Reference)).unwrap();
        let listed = registry.backends().unwrap();
        let error = listed.iter().find(|of| of.name == name).unwrap().devices.as_ref().unwrap_err();
        match twice {
            true => assert!(matches!(error, Error::DuplicateDevice { .. }), "{error:?}"),
            false => assert!(matches!(error, Error::DeviceName { .. }), "{error:?}"),
        }
    }
}
