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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    #[test]
    fn programs_share_as_many_processors_as_they_have_threads() {
        // Of this thread, and of what it starts: other tests run on others.
        share(1);
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        let text = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert!(list.trim().parse::<usize>().is_ok(), "{list}");
    }
}
