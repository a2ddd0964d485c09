//! A process that runs a model on request: a program with the compiled model, or an engine behind Python.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// A process, and the times of its runs in nanoseconds.
pub struct Participant {
    /// Name in tables.
    pub name: String,
    /// All runs so far.
    pub times: Vec<f64>,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    complaints: Option<JoinHandle<String>>,
}

impl Participant {
    /// Starts the process and waits until it is ready; gives what it says about itself.
    ///
    /// # Errors
    /// It cannot be started, or its model cannot be run.
    pub fn start(name: &str, command: &mut Command) -> Result<(Self, String), String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start `{program}`: {error}"))?;
        let (requests, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stdout = stdout.ok_or_else(|| format!("`{program}` has no output"))?;
        let complaints = stderr.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        let answers = BufReader::new(stdout);
        let mut participant =
            Participant { name: name.to_owned(), times: Vec::new(), child, requests, answers, complaints };
        let ready = participant.answer("ready")?;
        Ok((participant, ready))
    }

    /// Asks and gives the answer, which begins with the first word of the request.
    ///
    /// # Errors
    /// The process says that something failed, or ended.
    pub fn ask(&mut self, request: &str) -> Result<String, String> {
        if let Some(stdin) = &mut self.requests {
            // A process that has ended is noticed when it does not answer.
            let _ = writeln!(stdin, "{request}").and_then(|()| stdin.flush());
        }
        self.answer(request.split(' ').next().unwrap_or(request))
    }

    /// Asks for numbers.
    ///
    /// # Errors
    /// As [`Participant::ask`].
    pub fn numbers(&mut self, request: &str) -> Result<Vec<f64>, String> {
        let answer = self.ask(request)?;
        answer
            .split_whitespace()
            .map(|word| word.parse().map_err(|_| format!("{}: `{word}` is not a number", self.name)))
            .collect()
    }

    /// Runs the model and keeps the times.
    ///
    /// # Errors
    /// As [`Participant::ask`].
    pub fn run(&mut self, count: usize) -> Result<(), String> {
        let times = self.numbers(&format!("run {count}"))?;
        self.times.extend(times);
        Ok(())
    }

    /// Ends the process and gives what it wrote on standard error.
    pub fn finish(mut self) -> String {
        drop(self.requests.take());
        let _ = self.child.wait();
        self.complaints.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }

    fn answer(&mut self, word: &str) -> Result<String, String> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let (head, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
            match head {
                "error" => return Err(format!("{}: {rest}", self.name)),
                head if head == word => return Ok(rest.to_owned()),
                // Engines greet on standard output.
                _ => line.clear(),
            }
        }
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let complaints = self.complaints.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let last = complaints.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(format!("{}: the process ended ({status}) {last}", self.name).trim_end().to_owned())
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        // The end of its requests ends the process.
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}
