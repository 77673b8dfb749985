//! Returns memory that requests have freed to the system.
//!
//! The allocator of glibc creates up to eight arenas for each processor. Each arena keeps freed memory: up to 64 MiB at its end, and
//! everything between allocations that are still in use. Large requests that run on different threads in turn fill all arenas, so the
//! process takes much more memory than its requests use at any time.

pub(crate) use glibc::share_areas;

use crate::infer::Shared;
use std::sync::Weak;
use std::time::Duration;

/// The time between two checks.
const PERIOD: Duration = Duration::from_millis(500);

/// The number of bytes that requests must have used in total before freed memory is returned while other requests run.
const MANY: usize = 32 << 20;

/// Returns freed memory to the system periodically, until the server has ended.
pub(crate) async fn return_to_system(shared: Weak<Shared>) {
    if cfg!(not(all(target_os = "linux", target_env = "gnu"))) {
        return;
    }
    let mut returned = 0;
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(shared) = shared.upgrade() else { return };
        let held = &shared.held_bytes;
        let taken = held.taken();
        let since = taken.wrapping_sub(returned);
        if since >= MANY || (since > 0 && held.held() == 0) {
            returned = taken;
            // The task fails only if the server is shutting down.
            let _ended = tokio::task::spawn_blocking(glibc::trim).await;
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "functions of the C library")]
mod glibc {
    /// Limits the allocator of this process to one arena for each processor, but at least four. The call has no effect once glibc has
    /// computed the limit itself, which happens when a program has used eight arenas.
    pub(crate) fn share_areas() {
        let processors = std::thread::available_parallelism().map_or(4, |n| n.get().max(4));
        let most = libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX);
        // SAFETY: Rust's runtime has allocated memory, so the allocator is initialized. `mallopt` holds the lock of the main arena while it
        // stores the limit, which is one aligned word. Another thread that creates an arena reads the old or the new limit, and
        // either is valid.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
    }

    /// Returns free pages of all arenas to the system.
    pub(super) fn trim() {
        // SAFETY: glibc documents the function as safe for calls from any thread.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod glibc {
    pub(crate) fn share_areas() {}

    pub(super) fn trim() {}
}
