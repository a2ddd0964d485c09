//! Runs a binary with cases: one that dies or hangs costs its present case, and the others go on in a new process.

use crate::cli::verify::Status;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Longest time for one case.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs all cases; returns the ones that did not finish with the reason.
///
/// # Errors
/// The binary cannot be started.
pub fn run(program: &Path, folder: &Path, cases: &[usize]) -> Result<BTreeMap<usize, (Status, String)>, String> {
    let mut problems = BTreeMap::new();
    let mut left: Vec<usize> = cases.to_vec();
    while !left.is_empty() {
        let before = left.len();
        once(program, folder, &mut left, &mut problems)?;
        if left.len() == before {
            for case in left.drain(..) {
                problems.insert(case, (Status::Crash, "the program did not start its work".to_owned()));
            }
        }
    }
    Ok(problems)
}

/// Runs one process to its end and takes off `left` what it finished or died in.
fn once(
    program: &Path,
    folder: &Path,
    left: &mut Vec<usize>,
    problems: &mut BTreeMap<usize, (Status, String)>,
) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg(folder).args(left.iter().map(usize::to_string));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let complaints = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.map(|mut err| err.read_to_string(&mut text));
        text
    });
    let mut current = None;
    let mut late = false;
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => note(&line, &mut current, left, problems),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                late = true;
                let _ = child.kill();
                break;
            }
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let _ = reader.join();
    let complaints = complaints.join().unwrap_or_default();
    if let Some(case) = current {
        left.retain(|number| *number != case);
        let last = complaints.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        let reason =
            if late { format!("no result after {} s", PATIENCE.as_secs()) } else { format!("{status} {last}") };
        problems.insert(case, (Status::Crash, reason.trim().to_owned()));
    }
    Ok(())
}

/// Understands one line of the harness.
fn note(
    line: &str,
    current: &mut Option<usize>,
    left: &mut Vec<usize>,
    problems: &mut BTreeMap<usize, (Status, String)>,
) {
    let mut words = line.splitn(3, ' ');
    let word = words.next().unwrap_or("");
    let Some(number) = words.next().and_then(|number| number.parse().ok()) else { return };
    match word {
        "start" => *current = Some(number),
        "done" | "error" => {
            *current = None;
            left.retain(|case| *case != number);
            if word == "error" {
                problems.insert(number, (Status::Rejected, words.next().unwrap_or("").to_owned()));
            }
        }
        _ => {}
    }
}
