//! What `irc bench` prints, for people and for programs.

use super::Measured;
use super::participant::Participant;
use crate::output::StepInfo;
use serde_json::{Value, json};
use std::fmt::Write;

/// Least and median of some times, in milliseconds.
pub fn summary(nanoseconds: &[f64]) -> (f64, f64) {
    let mut sorted = nanoseconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0) / 1e6;
    (at(0), (at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2)) / 2.0)
}

/// One object: the model alone, and the engines it was timed against if there are any.
pub fn json(measured: &Measured, participants: &[Participant]) -> Value {
    let Some((ours, peers)) = participants.split_first() else { return Value::Null };
    let (least, median) = summary(&ours.times);
    let sizes = &measured.program.output.sizes;
    let mut value = json!({
        "model": measured.model, "threads": measured.threads, "isa": measured.start.isa, "runs": ours.times.len(),
        "load_ms": measured.start.load / 1e6, "first_ms": measured.start.first / 1e6, "min_ms": least,
        "median_ms": median, "peak_rss_bytes": measured.memory, "arena_bytes": sizes.arena,
        "weight_bytes": sizes.weights, "code_bytes": measured.program.code_bytes(),
    });
    let peers = peers.iter().map(|peer| {
        let (least, median) = summary(&peer.times);
        json!({ "engine": peer.name, "runs": peer.times.len(), "min_ms": least, "median_ms": median })
    });
    let peers: Vec<Value> = peers.collect();
    if !peers.is_empty() {
        value["against"] = peers.into();
    }
    value
}

/// The times of all participants and how often slower than the first one they are.
pub fn times(measured: &Measured, participants: &[Participant]) -> String {
    let Some(ours) = participants.first() else { return String::new() };
    let sizes = &measured.program.output.sizes;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let threads = if measured.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", measured.threads) };
    let bound = if measured.program.output.steps.iter().any(|step| step.at_most) { "at most " } else { "" };
    let mut text =
        format!("{}: {}, {threads}, {bound}{:.1} MFLOP", measured.model, measured.start.isa, sizes.flops as f64 / 1e6);
    let _ = write!(text, ", load {:.3} ms, first run {:.3} ms", measured.start.load / 1e6, measured.start.first / 1e6);
    for (name, bytes) in [
        ("arena", Some(sizes.arena as u64)),
        ("weights", Some(sizes.weights as u64)),
        ("code", measured.program.code_bytes()),
        ("peak memory", measured.memory),
    ] {
        if let Some(bytes) = bytes {
            let _ = write!(text, ", {name} {:.2} MiB", mebibytes(bytes));
        }
    }
    let (least, median) = summary(&ours.times);
    let _ =
        writeln!(text, "\n\n{:<24} {:>10} {:>10} {:>14} {:>8}", "", "min ms", "median ms", "ratio of min", "median");
    for one in participants {
        let (min, mid) = summary(&one.times);
        let _ = write!(text, "{:<24} {min:>10.4} {mid:>10.4}", one.name);
        if participants.len() > 1 {
            let _ = write!(text, " {:>14.2} {:>8.2}", min / least, mid / median);
        }
        text.push('\n');
    }
    text
}

/// The most expensive steps: least time, share of all and, where their operations are known, speed and share of the peak
/// (operations per second).
pub fn steps(steps: &[StepInfo], times: &[(f64, f64)], peak: f64, rows: usize) -> String {
    let all: f64 = times.iter().map(|(time, _)| time).sum();
    let mut list: Vec<(&StepInfo, f64, f64)> =
        steps.iter().zip(times).map(|(step, (time, count))| (step, *time, *count)).collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = format!(
        "\n{} steps, {:.3} ms when timed one by one; peak {:.1} GFLOP/s\n{:>10} {:>6} {:>9} {:>6}  step\n",
        list.len(),
        all / 1e6,
        peak / 1e9,
        "ms",
        "share",
        "GFLOP/s",
        "peak"
    );
    for (step, time, count) in list.iter().take(rows) {
        // Loops run a step more than once.
        let speed = step.flops as f64 * count / time.max(1.0);
        let share = |part: f64, whole: f64| format!("{:.0}%", 100.0 * part / whole.max(1.0));
        // Of run-time sizes only the bounds are known here.
        let rates = if step.at_most { Default::default() } else { (format!("{speed:.1}"), share(speed * 1e9, peak)) };
        let _ = write!(text, "{:>10.4} {:>6} {:>9} {:>6}  ", time / 1e6, share(*time, all), rates.0, rates.1);
        let _ = writeln!(
            text,
            "{}: {}{}",
            step.kind,
            step.text,
            if *count > 1.0 { format!(" x{count}") } else { String::new() }
        );
    }
    let rest: f64 = list.iter().skip(rows).map(|(_, time, _)| time).sum();
    if list.len() > rows {
        let _ = writeln!(
            text,
            "{:>10.4} {:>5.0}% {:>9} {:>6}  {} more",
            rest / 1e6,
            100.0 * rest / all.max(1.0),
            "",
            "",
            list.len() - rows
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_least_and_middle() {
        assert_eq!(summary(&[3e6, 1e6, 2e6]), (1.0, 2.0));
        assert_eq!(summary(&[4e6, 1e6, 2e6, 3e6]), (1.0, 2.5));
        assert_eq!(summary(&[]), (0.0, 0.0));
    }

    #[test]
    fn the_dearest_step_is_first() {
        let step =
            |text: &str| StepInfo { kind: "nest", text: text.to_owned(), flops: 2_000_000, at_most: text == "open" };
        let text = steps(&[step("cheap"), step("dear"), step("open")], &[(1e6, 1.0), (3e6, 2.0), (2e6, 1.0)], 4e9, 2);
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert!(lines[0].contains("dear x2") && lines[0].contains("50%") && lines[0].contains("1.3"), "{text}");
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["2.0000", "33%", "nest:", "open"], "{text}");
        assert!(lines[2].ends_with("1 more"), "{text}");
    }
}
