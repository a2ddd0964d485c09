//! A progress line for long work, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A counter that appears on standard error once the work has taken a second.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// Starts work of `steps` steps; nothing is shown unless standard error is a terminal.
    pub fn new(what: &str, steps: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress { bar, start: Instant::now() }
    }

    /// One more step is done.
    pub fn step(&self) {
        self.bar.inc(1);
        let slow = self.start.elapsed() > Duration::from_secs(1);
        if slow && self.bar.is_hidden() && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
