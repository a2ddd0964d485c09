//! A team of threads that shares the parts of one step at a time.
//!
//! Entering a thread pool costs microseconds, and a model has a hundred steps per millisecond. The threads of a team
//! therefore wait in a loop for the next step, and go to sleep only when none comes for a while. A step is a number of
//! parts, of which every thread has a share: the first thread the first parts, and so on, so that what a thread computed
//! in one step is in its cache when it reads it in the next. Who has done his share takes parts of the others': the thread
//! that runs the model never waits for one that is late, only for parts that were taken.
//!
//! # Why this is sound
//! A job lends workers a closure that lives on the leader's stack, so no worker may touch it once `Team::run` returns.
//! Everything follows from the word `state` = (epoch, `OPEN`, number of workers inside), which changes in three ways only:
//! 1. the leader, who holds `busy`, opens: from (e, closed, 0) to (e + 1, open, 0);
//! 2. a worker enters: from (e, open, n) to (e, open, n + 1), by compare-exchange, so never while closed; and leaves: n - 1;
//! 3. the leader closes: clears `OPEN`, then waits until n is 0.
//!
//! `job` is written before 1 and read between entering and leaving. Behind 3 nobody is inside and nobody can enter, so
//! writes and reads of `job` exclude each other, and so do the closure's life and its use. Opening releases what the
//! leader wrote (inputs of the step) to those who enter; leaving releases what workers wrote to the leader's wait. That
//! the compare-exchange succeeds on a word of a later epoch that happens to be equal does no harm: it is open now.
//! Guards close and leave on unwinding too. A worker that goes to sleep and a leader that opens cannot miss each other:
//! each first writes (`asleep`, `state`) and then reads what the other wrote, sequentially consistent; and if they did,
//! the leader would do all parts itself.

use core::ops::Range;
use std::boxed::Box;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::vec::Vec;

/// Bit of `state`: workers may enter.
const OPEN: usize = 1 << 15;
/// Bits of `state`: workers inside.
const INSIDE: usize = OPEN - 1;
/// One epoch in `state`.
const EPOCH: usize = OPEN << 1;
/// Most threads of a team.
const MOST: usize = 1024;

/// How long a worker looks for the next step without giving up its processor ...
const SPIN: Duration = Duration::from_micros(50);
/// ... and how long it looks at all before it sleeps.
const PATIENCE: Duration = Duration::from_micros(300);

/// Threads among which models split their steps: cheap to clone, and free to be shared by models in any threads.
///
/// One model at a time has the team's help, step by step; another that runs meanwhile computes its step alone. Results are
/// the same bits for every number of threads.
#[derive(Clone)]
pub struct Team(Arc<Crew>);

/// The threads; they end when the last clone of the team is gone.
struct Crew {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    threads: usize,
}

/// A value on cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    parts: usize,
    /// Shares are taken from the last part to the first.
    back: bool,
}

struct Shared {
    state: Apart<AtomicUsize>,
    /// By thread: the next part of its share that nobody has taken. The thread that leads is the first.
    next: Box<[Apart<AtomicUsize>]>,
    job: UnsafeCell<Job>,
    /// Somebody leads.
    busy: AtomicBool,
    stop: AtomicBool,
    asleep: AtomicUsize,
    bed: Mutex<()>,
    alarm: Condvar,
    spin: Duration,
}

// SAFETY: `job` is written and read by turns, as the module's documentation shows; its closure is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing else in it belongs to a thread.
unsafe impl Send for Shared {}

impl core::fmt::Debug for Team {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Team of {}", self.threads())
    }
}

impl Team {
    /// A team of `threads` threads, the one that runs the model included. What the system refuses to start is missing.
    #[must_use]
    pub fn new(threads: usize) -> Team {
        let mut handles = Vec::new();
        let mut crew = Crew::start(threads, |worker| {
            let thread = std::thread::Builder::new().name("include-ir".into());
            let started = thread.spawn(worker);
            started.map(|handle| handles.push(handle)).is_ok()
        });
        crew.workers = handles;
        Team(Arc::new(crew))
    }

    /// A team whose `threads - 1` workers are started by `spawn`, which says whether it did: threads with an affinity or
    /// priority of yours, or of another pool: `Team::spawned_by(4, |worker| { pool.spawn(worker); true })` for rayon.
    ///
    /// A worker occupies its thread until the team is gone.
    #[must_use]
    pub fn spawned_by(threads: usize, spawn: impl FnMut(Box<dyn FnOnce() + Send>) -> bool) -> Team {
        Team(Arc::new(Crew::start(threads, spawn)))
    }

    /// Threads that work at once, at most.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.threads
    }

    /// Does all `parts`, each once, on this thread and on workers that are free. `false`, and nothing is done, if the team
    /// helps somebody else or there is nobody to help.
    pub(crate) fn run(&self, parts: usize, back: bool, work: &(dyn Fn(usize) + Sync)) -> bool {
        let shared = &*self.0.shared;
        if self.0.threads < 2
            || shared.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        // SAFETY: only the lifetime changes. `Lead` closes the job before `work` ends, and nobody is inside a closed job.
        let work = unsafe { core::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(work) };
        let job = Job { work, parts, back };
        // SAFETY: we hold `busy` and the job is closed with nobody inside, so nobody else uses the cell.
        unsafe { *shared.job.get() = job };
        for (thread, next) in shared.next.iter().enumerate() {
            next.0.store(shared.share(parts, thread).start, Ordering::Relaxed);
        }
        let lead = Lead(shared);
        shared.open();
        shared.take_parts(&job, 0);
        drop(lead);
        true
    }
}

impl Crew {
    /// Starts workers, as many as `spawn` says.
    fn start(threads: usize, mut spawn: impl FnMut(Box<dyn FnOnce() + Send>) -> bool) -> Crew {
        let threads = threads.clamp(1, MOST);
        // Threads that share processors must not spin.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            state: Apart(AtomicUsize::new(0)),
            next: (0..threads).map(|_| Apart(AtomicUsize::new(0))).collect(),
            job: UnsafeCell::new(Job { work: &|_| {}, parts: 0, back: false }),
            busy: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            bed: Mutex::new(()),
            alarm: Condvar::new(),
            spin: if threads <= processors { SPIN } else { Duration::ZERO },
        });
        let mut started = 1;
        for thread in 1..threads {
            let worker = Arc::clone(&shared);
            started += usize::from(spawn(Box::new(move || worker.serve(thread))));
        }
        Crew { shared, workers: Vec::new(), threads: started }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

/// A job that is open, or was; its end closes it and waits for the workers inside.
struct Lead<'a>(&'a Shared);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut turns = 0u32;
        while self.0.state.0.load(Ordering::Acquire) & INSIDE != 0 {
            wait(&mut turns);
        }
        self.0.busy.store(false, Ordering::Release);
    }
}

/// A worker inside a job; its end leaves.
struct Inside<'a>(&'a Shared);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.state.0.fetch_sub(1, Ordering::Release);
    }
}

/// One turn of a short wait; gives up the processor if it gets longer.
fn wait(turns: &mut u32) {
    *turns = turns.saturating_add(1);
    if *turns < 200 { core::hint::spin_loop() } else { std::thread::yield_now() }
}

impl Shared {
    /// Opens the job that was written.
    fn open(&self) {
        let state = self.state.0.load(Ordering::Relaxed);
        self.state.0.store((state & !(EPOCH - 1)).wrapping_add(EPOCH) | OPEN, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        // Taking the lock waits for those who are about to sleep.
        drop(self.bed.lock().unwrap_or_else(PoisonError::into_inner));
        self.alarm.notify_all();
    }

    /// The parts that a thread takes first.
    fn share(&self, parts: usize, thread: usize) -> Range<usize> {
        let threads = self.next.len();
        let start = |thread: usize| parts / threads * thread + parts % threads * thread / threads;
        start(thread)..start(thread + 1)
    }

    /// Takes parts until none is left: those of a thread's own share, then those of the next threads.
    fn take_parts(&self, job: &Job, thread: usize) {
        let (before, from) = self.next.split_at(thread.min(self.next.len()));
        for (owner, next) in (thread..).zip(from).chain((0..).zip(before)) {
            let Range { start, end } = self.share(job.parts, owner);
            loop {
                let part = next.0.fetch_add(1, Ordering::Relaxed);
                if part >= end {
                    break;
                }
                let part = if job.back { start + (end - 1 - part) } else { part };
                // SAFETY: we are inside the job, or lead it, so the closure lives.
                unsafe { (*job.work)(part) };
            }
        }
    }

    /// The life of a worker.
    fn serve(&self, thread: usize) {
        let mut done = 0;
        while let Some(state) = self.next_job(done) {
            let entered = self.state.0.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed);
            if entered.is_ok() {
                let inside = Inside(self);
                // SAFETY: the job is open and we are inside, so nobody writes it.
                let job = unsafe { *self.job.get() };
                self.take_parts(&job, thread);
                done = state & !(EPOCH - 1);
                drop(inside);
            }
        }
    }

    /// Waits for an open job of another epoch than `done`; `None` when the team ends.
    fn next_job(&self, done: usize) -> Option<usize> {
        let fresh = |state: usize| state & OPEN != 0 && state & !(EPOCH - 1) != done;
        let (start, mut turns) = (Instant::now(), 0u32);
        loop {
            let state = self.state.0.load(Ordering::Acquire);
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if fresh(state) {
                return Some(state);
            }
            turns = turns.wrapping_add(1);
            // Looking at the clock takes longer than looking at the state.
            match if turns % 32 == 0 { start.elapsed() } else { Duration::ZERO } {
                Duration::ZERO if !self.spin.is_zero() => core::hint::spin_loop(),
                time if time < self.spin => core::hint::spin_loop(),
                time if time < PATIENCE => std::thread::yield_now(),
                _ => self.sleep(&fresh),
            }
        }
    }

    /// Sleeps until a job may be there.
    fn sleep(&self, fresh: &dyn Fn(usize) -> bool) {
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while !fresh(self.state.0.load(Ordering::SeqCst)) && !self.stop.load(Ordering::SeqCst) {
            bed = self.alarm.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "team_tests.rs"]
mod tests;
