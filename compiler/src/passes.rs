//! The passes, in order: reading the two lists from top to bottom is reading what the compiler does.

pub mod graph;
pub mod program;

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::options::Options;
use crate::output::PassTime;
use std::time::Instant;

/// One pass over a stage's form.
pub struct Pass<T> {
    /// A verb phrase; `--stop-after` takes it.
    pub name: &'static str,
    /// Why it stands where it stands.
    pub reason: &'static str,
    /// Changes the form; problems of the model go to the diagnostics.
    pub run: fn(&mut T, &Options, &mut Diagnostics),
}

/// Runs passes until one fails or the one to stop after is done; returns whether all of them ran.
pub fn run<T>(
    passes: &[Pass<T>],
    form: &mut T,
    verify: fn(&T) -> Result<(), String>,
    options: &Options,
    diagnostics: &mut Diagnostics,
    times: &mut Vec<PassTime>,
) -> bool {
    for pass in passes {
        let start = Instant::now();
        (pass.run)(form, options, diagnostics);
        if options.time_passes {
            times.push(PassTime { pass: pass.name, time: start.elapsed() });
        }
        if diagnostics.has_errors() {
            return false;
        }
        if let Err(message) = verify(form) {
            diagnostics.push(Diagnostic::error(&codes::INTERNAL, format!("after pass `{}`: {message}", pass.name)));
            return false;
        }
        if options.stop_after.as_deref() == Some(pass.name) {
            return false;
        }
    }
    true
}
