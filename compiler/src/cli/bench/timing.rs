//! Times a compiled model on request; part of a generated crate, not of the compiler.
//!
//! Requests are lines on standard input, answers are lines on standard output: `run N` gives the nanoseconds of N runs,
//! `steps` what every step took and how often it ran, `peak N` the speed of N threads, `memory` the most memory so far.

use include_ir::__private::v1::{Cx, Isa, Simd, WithSimd};
use std::cell::RefCell;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

thread_local! {
    static STEPS: RefCell<Steps> = const { RefCell::new(Steps { current: None, run: Vec::new(), best: Vec::new() }) };
}

/// Nanoseconds and executions by step: of the present run, and the least of all runs.
struct Steps {
    current: Option<(usize, Instant)>,
    run: Vec<(u64, u64)>,
    best: Vec<(u64, u64)>,
}

impl Steps {
    fn end(&mut self, now: Instant) {
        let Some((number, start)) = self.current.take() else { return };
        if self.run.len() <= number {
            self.run.resize(number + 1, (0, 0));
        }
        let (time, count) = self.run[number];
        self.run[number] = (time + (now - start).as_nanos() as u64, count + 1);
    }

    fn end_run(&mut self, now: Instant) {
        self.end(now);
        self.best.resize(self.run.len().max(self.best.len()), (u64::MAX, 0));
        for (best, run) in self.best.iter_mut().zip(&mut self.run) {
            *best = (*best).min(*run);
            *run = (0, 0);
        }
    }
}

/// Every step of the profiled copy of a model calls this first.
pub fn step(number: usize) {
    let now = Instant::now();
    STEPS.with_borrow_mut(|steps| {
        steps.end(now);
        steps.current = Some((number, Instant::now()));
    });
}

/// One run under the clock.
pub fn clock<T>(run: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = run();
    let end = Instant::now();
    black_box(result);
    STEPS.with_borrow_mut(|steps| steps.end_run(end));
    end - start
}

/// Answers requests until there are no more. `once` is a run of the model, which took `load` to make.
pub fn serve(load: Duration, isas: &[Isa], mut once: impl FnMut() -> Result<Duration, String>) -> Result<(), String> {
    let isa = match isas {
        [] => Isa::detect(),
        isas => isas.iter().filter(|isa| isa.is_available()).max().copied().unwrap_or(Isa::Scalar),
    };
    let first = once()?;
    say(&format!("ready {} {} {}", isa.name(), load.as_nanos(), first.as_nanos()));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (request, count) = line.split_once(' ').unwrap_or((&line, "1"));
        let count = count.parse().unwrap_or(1);
        match request {
            "run" => {
                let times: Result<Vec<String>, String> =
                    (0..count).map(|_| Ok(once()?.as_nanos().to_string())).collect();
                say(&format!("run {}", times?.join(" ")));
            }
            "steps" => {
                let best = STEPS.with_borrow(|steps| steps.best.clone());
                let list: Vec<String> = best.iter().map(|(time, count)| format!("{} {count}", time % u64::MAX)).collect();
                say(&format!("steps {}", list.join(" ")));
            }
            "peak" => say(&format!("peak {}", peak(isa, count))),
            _ => say(&format!("memory {}", memory())),
        }
    }
    Ok(())
}

/// Prints a line at once.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Most bytes of memory this process had in use; 0 where the system does not say.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// Independent multiply-adds that never leave registers.
struct Chains;

impl WithSimd for Chains {
    type Output = u64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        const LENGTH: u64 = 200_000;
        let factor = s.splat(black_box(0.999));
        let mut chains = [s.splat(1.0); 12];
        for _ in 0..LENGTH {
            for chain in &mut chains {
                *chain = s.mul_add(*chain, factor, factor);
            }
        }
        for chain in chains {
            black_box(s.sum(chain));
        }
        LENGTH * 12 * 2 * S::LANES as u64
    }
}

/// Operations per second that the instruction set can do on this many threads at once.
fn peak(isa: Isa, threads: u64) -> f64 {
    let one = || {
        let cx = Cx::with_isa(isa).unwrap_or(Cx::detect());
        let best = |_| {
            let start = Instant::now();
            let work = cx.dispatch(Chains);
            work as f64 / start.elapsed().as_secs_f64()
        };
        (0..20).map(best).fold(0.0, f64::max)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0.0)).sum()
    })
}
