//! Opens files below a folder. A symbolic link that is created in the folder at the same time cannot lead out of it.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens `path`, which must be resolved: it contains no symbolic links and no `..`, and is below `folder`.
///
/// Each component of the path is opened relative to the folder before it, and a symbolic link is an error. So the call fails
/// if a component was replaced by a link after the path was resolved. Opening a pipe does not block until the pipe has a
/// writer. Systems other than Unix open the path directly.
///
/// # Errors
///
/// The system's error; [`io::ErrorKind::NotADirectory`] for a symbolic link in the path; [`io::ErrorKind::InvalidInput`] if
/// the path is not below the folder.
pub(crate) fn open_beneath(folder: &Path, path: &Path) -> io::Result<File> {
    let below = path.strip_prefix(folder).map_err(|_| io::ErrorKind::InvalidInput)?;
    open(folder, below)
}

#[cfg(unix)]
fn open(folder: &Path, below: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open, openat};
    use std::path::Component;
    // With these flags, no permission to list the folder is needed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const PASS: OFlags = OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const PASS: OFlags = OFlags::RDONLY;
    let through = PASS.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let (Some(parents), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // Systems report a link in the path by different errors; this maps them to one error.
    let met = |errno| {
        if errno == rustix::io::Errno::LOOP {
            io::ErrorKind::NotADirectory.into()
        } else {
            io::Error::from(errno)
        }
    };
    let mut at = open(folder, through, Mode::empty())?;
    for part in parents.components() {
        let Component::Normal(part) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        at = openat(&at, part, through | OFlags::NOFOLLOW, Mode::empty()).map_err(met)?;
    }
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(&at, name, read, Mode::empty()).map_err(met)?.into())
}

#[cfg(not(unix))]
fn open(folder: &Path, below: &Path) -> io::Result<File> {
    File::open(folder.join(below))
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A folder that contains `in/deep/w.bin` and `secret/w.bin`.
    fn folder(name: &str) -> PathBuf {
        let root = std::env::temp_dir()
            .canonicalize()
            .unwrap()
            .join(format!("bb-beneath-{name}-{}", std::process::id()));
        let _absent = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("in/deep")).unwrap();
        fs::create_dir_all(root.join("secret")).unwrap();
        fs::write(root.join("in/deep/w.bin"), "weights").unwrap();
        fs::write(root.join("secret/w.bin"), "secret").unwrap();
        root
    }

    fn text(mut file: File) -> String {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn links_on_the_way_or_at_its_end_are_not_followed() {
        let root = folder("links");
        let inside = root.join("in");
        assert_eq!(text(open_beneath(&inside, &inside.join("deep/w.bin")).unwrap()), "weights");
        symlink(root.join("secret"), inside.join("way")).unwrap();
        symlink(root.join("secret/w.bin"), inside.join("deep/end.bin")).unwrap();
        for path in
            ["way/w.bin", "deep/end.bin", "../secret/w.bin", "deep/../../secret/w.bin", "", "deep/absent"]
        {
            assert!(open_beneath(&inside, &inside.join(path)).is_err(), "{path}");
        }
        assert!(open_beneath(&inside, &root.join("secret/w.bin")).is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn whoever_exchanges_a_folder_for_a_link_meanwhile_gains_nothing() {
        let root = folder("race");
        let inside = root.join("in");
        let (deep, kept, link) = (inside.join("deep"), inside.join("kept"), inside.join("link"));
        symlink(root.join("secret"), &link).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::rename(&deep, &kept).unwrap();
                    fs::rename(&link, &deep).unwrap();
                    fs::rename(&deep, &link).unwrap();
                    fs::rename(&kept, &deep).unwrap();
                }
            });
            for _ in 0..20_000 {
                if let Ok(file) = open_beneath(&inside, &deep.join("w.bin")) {
                    assert_eq!(text(file), "weights");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        fs::remove_dir_all(root).unwrap();
    }
}
