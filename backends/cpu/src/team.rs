//! A thread pool whose threads stay awake for a while after each call.
//!
//! Waking a thread takes longer than many kernels run, above all in a virtual machine, whose processors also sleep. So a thread that has
//! worked polls for more work for about as long as waking it would take, and only then sleeps. The calling thread works too: a team of two
//! has one thread besides the caller's, so that one caller never occupies more threads than there are processors.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, thread};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The time that an idle thread polls for work before it sleeps.
const AWAKE: Duration = Duration::from_micros(100);

/// The number of polls before a thread yields its processor and reads the clock.
const LOOKS: usize = if cfg!(all(test, bb_model)) { 1 } else { 32 };

thread_local! {
    /// The index of this thread in its team.
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the index of this thread in its team, counted from 1; `None` if the thread belongs to no team.
pub(crate) fn place() -> Option<usize> {
    PLACE.get()
}

/// The work of a thread that is started for a backend. It returns when the backend ends its threads.
pub type ThreadWork = Box<dyn FnOnce() + Send>;

/// A call that a thread of a team runs.
type Call = Box<dyn FnOnce() + Send>;

/// A fixed number of threads, including the caller's.
#[derive(Debug)]
pub(crate) struct Team {
    count: usize,
    asked: Arc<Asked>,
}

/// The queue of calls that no thread of the team has begun.
#[derive(Default)]
struct Asked {
    /// The number of calls in `calls`, which threads can poll without the lock.
    number: AtomicUsize,
    /// The number of threads that poll for work.
    looking: AtomicUsize,
    calls: Mutex<Calls>,
    come: Condvar,
}

#[derive(Default)]
struct Calls {
    waiting: VecDeque<Call>,
    /// The number of threads that sleep until a call is queued.
    asleep: usize,
    /// Whether the threads must end.
    over: bool,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Team {
    /// Starts a team of `count` threads, where `count` is at least 1 and includes the caller's thread.
    ///
    /// # Errors
    ///
    /// The system's error if it cannot start the threads.
    pub(crate) fn new(count: usize) -> io::Result<Team> {
        Team::started(count, |serve| thread::Builder::new().name("bb-cpu".into()).spawn(serve).map(drop))
    }

    /// Creates a team as [`new`](Self::new) does, with threads that `start` starts.
    ///
    /// # Errors
    ///
    /// The errors of `start`. The threads that were already started end.
    pub(crate) fn started(
        count: usize,
        mut start: impl FnMut(ThreadWork) -> io::Result<()>,
    ) -> io::Result<Team> {
        let mut team = Team { count: 1, asked: Arc::default() };
        while team.count < count {
            team.start(&mut start)?;
        }
        Ok(team)
    }

    /// Returns the team that all backends without their own threads share. The first call starts it with the number of
    /// threads of rayon's current pool, or with fewer if the system cannot start all of them.
    pub(crate) fn of_process() -> &'static Arc<Team> {
        static TEAM: OnceLock<Arc<Team>> = OnceLock::new();
        TEAM.get_or_init(|| {
            let mut team = Team { count: 1, asked: Arc::default() };
            let mut start = |serve| thread::Builder::new().name("bb-cpu".into()).spawn(serve).map(drop);
            while team.count < rayon::current_num_threads() && team.start(&mut start).is_ok() {}
            Arc::new(team)
        })
    }

    fn start(&mut self, start: &mut impl FnMut(ThreadWork) -> io::Result<()>) -> io::Result<()> {
        let (asked, place) = (self.asked.clone(), self.count);
        let serve = move || {
            PLACE.set(Some(place));
            asked.serve();
        };
        start(Box::new(serve))?;
        self.count += 1;
        Ok(())
    }

    /// Ends the threads after all queued calls. Later calls run on their calling thread.
    pub(crate) fn end(&self) {
        self.asked.lock().over = true;
        self.asked.come.notify_all();
    }

    /// Returns the number of threads, including the caller's.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether a thread is awake and polls for work.
    pub(crate) fn is_looking(&self) -> bool {
        self.asked.looking.load(Ordering::Relaxed) > 0
    }

    /// Queues a call, which the next free thread runs. After [`end`](Self::end), the calling thread runs it immediately.
    pub(crate) fn ask(&self, call: impl FnOnce() + Send + 'static) {
        let mut calls = self.asked.lock();
        if calls.over {
            drop(calls);
            return call();
        }
        calls.waiting.push_back(Box::new(call));
        self.asked.number.fetch_add(1, Ordering::Relaxed);
        // Threads that poll see `number`. Wake a sleeping thread only if they are too few, because waking costs this thread some time.
        let sleeper = calls.asleep > 0 && self.asked.looking.load(Ordering::Relaxed) < calls.waiting.len();
        drop(calls);
        if sleeper {
            self.asked.come.notify_one();
        }
    }
}

impl Drop for Team {
    /// Ends the threads after the queued calls. It does not join the threads, because in a forked process they do not exist.
    fn drop(&mut self) {
        self.end();
    }
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs calls until the team ends.
    fn serve(&self) {
        while let Some(call) = self.next() {
            call();
        }
    }

    /// Removes and returns the next call, and blocks until there is one. Returns `None` if the team ends.
    fn next(&self) -> Option<Call> {
        self.looking.fetch_add(1, Ordering::Relaxed);
        let from = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if self.number.load(Ordering::Relaxed) > 0
                    && let Some(call) = self.take(&mut self.lock())
                {
                    self.looking.fetch_sub(1, Ordering::Relaxed);
                    return Some(call);
                }
                std::hint::spin_loop();
            }
            if cfg!(all(test, bb_model)) || from.elapsed() >= AWAKE {
                break;
            }
            thread::yield_now();
        }
        let mut calls = self.lock();
        // Decrement under the lock, so that a caller counts this thread either as polling or as asleep.
        self.looking.fetch_sub(1, Ordering::Relaxed);
        loop {
            if let Some(call) = self.take(&mut calls) {
                return Some(call);
            }
            if calls.over {
                return None;
            }
            calls.asleep += 1;
            calls = self.come.wait(calls).unwrap_or_else(PoisonError::into_inner);
            calls.asleep -= 1;
        }
    }

    fn take(&self, calls: &mut Calls) -> Option<Call> {
        let call = calls.waiting.pop_front()?;
        self.number.fetch_sub(1, Ordering::Relaxed);
        Some(call)
    }
}

#[cfg(all(test, bb_model))]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_of_others_work_until_they_end() {
        let mut threads = Vec::new();
        let start = |work: ThreadWork| {
            threads.push(std::thread::Builder::new().spawn(work)?);
            Ok(())
        };
        let team = Team::started(3, start).expect("threads");
        assert_eq!((team.count(), threads.len()), (3, 2));
        let (done, answers) = mpsc::channel();
        let ids: Vec<_> = threads.iter().map(|thread| thread.thread().id()).collect();
        let here = std::thread::current().id();
        let tell = done.clone();
        team.ask(move || tell.send(std::thread::current().id()).expect("the test waits"));
        assert!(ids.contains(&answers.recv().expect("an answer")));
        team.end();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        team.ask(move || done.send(std::thread::current().id()).expect("the test waits"));
        assert_eq!(answers.recv().expect("an answer"), here);
    }

    #[test]
    fn calls_are_made_by_threads_that_are_awake_or_asleep() {
        let team = Team::new(3).expect("threads");
        assert_eq!(team.count(), 3);
        for round in 0..20 {
            let (made, calls) = mpsc::channel();
            for i in 0..50 {
                let made = made.clone();
                team.ask(move || made.send((i, std::thread::current().id())).expect("somebody waits"));
            }
            drop(made);
            let mut all: Vec<_> = calls.into_iter().collect();
            all.sort_by_key(|(i, _)| *i);
            assert!(all.iter().map(|(i, _)| *i).eq(0..50), "{all:?}");
            assert!(all.iter().all(|(_, made)| *made != std::thread::current().id()));
            if round % 5 == 0 {
                std::thread::sleep(3 * AWAKE);
            }
        }
    }

    #[test]
    fn a_team_of_one_has_no_thread() {
        let team = Team::new(1).expect("no thread");
        assert_eq!((team.count(), Arc::strong_count(&team.asked)), (1, 1));
    }

    #[test]
    fn threads_sleep_when_nothing_comes() {
        let team = Team::new(3).expect("threads");
        while team.asked.lock().asleep < 2 {
            std::thread::sleep(AWAKE);
        }
        assert!(!team.is_looking());
    }

    /// Queued calls run before the threads end, and a call may own the last handle to its team.
    #[test]
    fn a_team_ends_after_its_calls() {
        let (made, calls) = mpsc::channel();
        let team = Team::new(2).expect("a thread");
        let asked = Arc::downgrade(&team.asked);
        for i in 0..10 {
            let made = made.clone();
            team.ask(move || made.send(i).expect("somebody waits"));
        }
        drop(team);
        assert!(calls.iter().take(10).eq(0..10));
        while asked.strong_count() > 0 {
            std::thread::sleep(AWAKE);
        }
        let team = Arc::new(Team::new(2).expect("a thread"));
        let (held, last) = (team.clone(), mpsc::channel::<()>());
        team.ask(move || {
            last.1.recv().expect_err("the sender is dropped");
            drop(held);
            made.send(10).expect("somebody waits");
        });
        drop(team);
        drop(last.0);
        assert_eq!(calls.recv(), Ok(10));
    }
}
