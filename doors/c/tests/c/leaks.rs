//! Libraries stay as long as what they made, and go without leaving anything.

use crate::built;
use bb::{Backend, BackendLibrary, OpenOptions, TensorData};
use std::fs;
use std::path::PathBuf;

/// Copies the backend in C to a name that no other test loads.
fn copy(name: &str) -> PathBuf {
    let to = built::folder().join(name);
    fs::copy(built::plain(), &to).unwrap();
    to.canonicalize().unwrap()
}

/// Tells whether a library is mapped.
#[cfg(target_os = "linux")]
fn is_loaded(path: &std::path::Path) -> bool {
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
    // Other tests of this program run beside this one.
    assert!(handles() < files + 64, "{files} open files became {}", handles());
    assert!(resident() < memory + (64 << 20), "{memory} bytes became {}", resident());
}

/// A library of Rust is not unloaded, and loading it again takes no more memory.
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
