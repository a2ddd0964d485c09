//! Where timed programs run.

/// Keeps all programs that are started from here on to the same processors, one for each thread: neighbours on a shared
/// machine may slow one processor and not the other. Elsewhere than on Linux, and where the system refuses, they run anywhere.
pub fn share(threads: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let mut chosen = CpuSet::new();
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        cpus.take(threads).for_each(|cpu| chosen.set(cpu));
        let _ = sched_setaffinity(None, &chosen);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = threads;
}
