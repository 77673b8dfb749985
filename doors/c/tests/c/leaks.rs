//! Tests that libraries stay loaded as long as their objects exist, and that unloading leaks nothing.

use crate::built;
use bb::{Backend, BackendLibrary, ErrorKind, LoadError, OpenOptions, TensorData};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Builds the backend written in C under another name.
fn renamed(name: &str) -> PathBuf {
    let source = fs::read_to_string(built::root().join("examples/plain.c")).unwrap();
    let other = source.replace(r#"TEXT("plain")"#, &format!("TEXT({name:?})"));
    assert_ne!(other, source);
    let file = built::folder().join(format!("{name}.c"));
    fs::write(&file, other).unwrap();
    built::library(name, &file, &[]).canonicalize().unwrap()
}

/// Computes a sum on a backend.
fn works(on: &bb::BackendHandle) {
    let x = on.tensor(&[2], &[1f32, 2.]).unwrap();
    assert_eq!(on.add(&x, &x).unwrap().to_host(64).unwrap().as_slice::<f32>().unwrap(), [2., 4.]);
}

/// Copies the backend written in C to a name that no other test loads.
fn copy(name: &str) -> PathBuf {
    let to = built::folder().join(name);
    fs::copy(built::plain(), &to).unwrap();
    to.canonicalize().unwrap()
}

/// Returns whether a library is mapped.
#[cfg(target_os = "linux")]
fn is_loaded(path: &Path) -> bool {
    fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_stays_as_long_as_what_it_made() {
    let path = copy("libstays.so");
    let on = bb::load_backend(&path).unwrap();
    let x = on.constant(&TensorData::new(&[2], &[1f32, 2.]).unwrap()).unwrap();
    let sum = on.add(&x, &x).unwrap();
    let erased = bb::Tensor::erase(sum);
    drop((on, x));
    assert!(is_loaded(&path), "a tensor of it lives");
    drop(erased);
    assert!(!is_loaded(&path), "nothing of it lives");
}

#[cfg(target_os = "linux")]
#[test]
fn a_removed_library_goes_with_the_last_of_what_was_opened() {
    let path = renamed("leaves");
    for _ in 0..3 {
        BackendLibrary::load(&path).unwrap().register().unwrap();
        let on = bb::backend("leaves").unwrap();
        works(&bb::backend("first_of(leaves, reference)").unwrap());
        assert!(bb::Registry::global().remove("leaves"));
        assert!(bb::backend("leaves").is_err() && bb::backend("first_of(leaves, reference)").is_err());
        works(&on);
        assert!(is_loaded(&path), "a backend of it is open");
        drop(on);
        // Another test may be listing all backends now, which opens this one, too.
        let until = Instant::now() + Duration::from_secs(20);
        while is_loaded(&path) {
            assert!(Instant::now() < until, "nothing of it lives");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Both libraries have the same description. Loading the first one again by another path is allowed.
#[test]
fn a_second_library_with_the_name_of_a_loaded_backend_is_refused() {
    let first = renamed("twin");
    let second = built::folder().join("twin-copy.so");
    fs::copy(&first, &second).unwrap();
    let second = second.canonicalize().unwrap();
    let register = |path: &Path| BackendLibrary::load(path).unwrap().register();
    register(&first).unwrap();
    register(&first.parent().unwrap().join(".").join(first.file_name().unwrap())).unwrap();
    let error = register(&second).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the backend `twin` of the library `{}` cannot be registered, because the library `{}` has registered a backend of this \
             name: load only one of them, or give one of the backends another name",
            second.display(),
            first.display()
        )
    );
    assert!(matches!(error, LoadError::NameTaken { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(bb::Registry::global().remove("twin"));
    register(&second).unwrap();
    assert!(bb::Registry::global().remove("twin"));
}

#[test]
fn a_name_comes_and_goes_while_threads_run_on_it() {
    let path = renamed("comes");
    let (until, ran) = (Instant::now() + Duration::from_secs(2), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while Instant::now() < until {
                    match bb::backend("comes") {
                        Ok(on) => {
                            works(&on);
                            ran.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert!(matches!(error, bb::Error::UnknownBackend { .. }), "{error:?}"),
                    }
                }
            });
        }
        while Instant::now() < until {
            BackendLibrary::load(&path).unwrap().register().unwrap();
            works(&bb::backend("comes").unwrap());
            assert!(bb::Registry::global().remove("comes"));
        }
    });
    assert!(ran.into_inner() > 0);
}

#[cfg(target_os = "linux")]
#[test]
fn loading_and_unloading_leaves_nothing() {
    let path = copy("libgoes.so");
    let once = || {
        let library = BackendLibrary::load(&path).unwrap();
        let on = library.open(&OpenOptions::default()).unwrap();
        let x = on.constant(&TensorData::new(&[256], &[1f32; 256]).unwrap()).unwrap();
        assert_eq!(on.to_host(&on.add(&x, &x).unwrap()).unwrap().as_slice::<f32>().unwrap()[0], 2.);
    };
    let handles = || fs::read_dir("/proc/self/fd").unwrap().count();
    let resident = || -> usize {
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    (0..20).for_each(|_| once());
    let (files, memory) = (handles(), resident());
    (0..500).for_each(|_| once());
    assert!(!is_loaded(&path));
    // The limit has a margin, because other tests of this program run at the same time.
    assert!(handles() < files + 64, "{files} open files became {}", handles());
    assert!(resident() < memory + (64 << 20), "{memory} bytes became {}", resident());
}

/// A Rust library is not unloaded. Loading it again takes no more memory.
#[test]
fn sixteen_threads_load_run_and_drop() {
    let path = copy("libthreads.so");
    let rust = built::exported("reference");
    let shared = bb::load_backend(&path).unwrap();
    let kept = shared.constant(&TensorData::new(&[64], &[3f32; 64]).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (path, rust, shared, kept) = (&path, &rust, &shared, &kept);
            scope.spawn(move || {
                for round in 0..50 {
                    let on = bb::load_backend(if (thread + round) % 2 == 0 { path } else { rust }).unwrap();
                    let value = (thread * 50 + round) as f32;
                    let x = on.constant(&TensorData::new(&[64], &[value; 64]).unwrap()).unwrap();
                    let sum = on.add(&x, &x).unwrap();
                    drop(x);
                    assert_eq!(on.to_host(&sum).unwrap().as_slice::<f32>().unwrap(), [2. * value; 64]);
                    let product = shared.mul(kept, kept).unwrap();
                    assert_eq!(shared.to_host(&product).unwrap().as_slice::<f32>().unwrap(), [9f32; 64]);
                }
            });
        }
    });
}
