"""Runs `irc verify` over the cases of a folder with an index: `verify.py IRC FOLDER [--built] [--pattern P] [--sample N]`.

Writes `interpreted.json` or `built.json` beside the index: one JSON object per case and line, sorted. With a pattern or a
sample, only the cases that were run are replaced.
"""

import argparse
import fnmatch
import json
import subprocess
import tempfile
from pathlib import Path


def index(root):
    lines = (root / "index.json").read_text().splitlines()
    return {record["case"]: record for record in map(json.loads, lines)}


def results(root, form):
    path = root / f"{form}.json"
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["case"]: record for record in map(json.loads, lines)}


def run(irc, root, names, arguments, seconds):
    """Outcomes of a batch; a batch that dies or hangs is halved until the guilty case is alone."""
    with tempfile.NamedTemporaryFile() as file:
        command = [irc, "verify", *arguments, "--json", file.name, *(str(root / name) for name in names)]
        problem = None
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
        except subprocess.TimeoutExpired:
            problem = f"no result after {seconds} s"
        outcomes = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
    if len(outcomes) == len(names):
        plain = lambda outcome: outcome["message"].replace(f"{root}/", "")
        return [{**outcome, "case": name, "message": plain(outcome)} for name, outcome in zip(names, outcomes)]
    if len(names) > 1:
        half = len(names) // 2
        parts = names[:half], names[half:]
        return [outcome for part in parts for outcome in run(irc, root, part, arguments, seconds)]
    lines = [] if problem else done.stderr.decode(errors="replace").strip().splitlines()
    message = problem or f"exit status {done.returncode}: {' '.join(lines[-1:])}"
    return [{"case": names[0], "status": "crash", "max_abs": 0.0, "max_rel": 0.0, "message": message}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("irc")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--built", action="store_true", help="build generated Rust instead of interpreting")
    parser.add_argument("--pattern", default="*", help="names of cases, with wildcards")
    parser.add_argument("--sample", type=int, help="only about so many of the cases that pass interpreted, evenly spread")
    parser.add_argument("--batch", type=int, help="cases per run (default 200 interpreted, 60 built)")
    parser.add_argument("--target-dir", help="cargo's target folder for built cases")
    options = parser.parse_args()
    names = sorted(name for name, record in index(options.folder).items() if "skipped" not in record)
    names = [name for name in names if fnmatch.fnmatch(name, options.pattern)]
    if options.sample:
        passed = {name for name, result in results(options.folder, "interpreted").items() if result["status"] == "pass"}
        names = [name for name in names if name in passed]
        names = names[:: max(1, len(names) // options.sample)]
    arguments = [] if options.built else ["--interpret"]
    if options.built and options.target_dir:
        arguments += ["--target-dir", options.target_dir]
    form = "built" if options.built else "interpreted"
    known = results(options.folder, form)
    batch = options.batch or (60 if options.built else 200)
    present = set(index(options.folder))
    ran = []
    for start in range(0, len(names), batch):
        ran += run(options.irc, options.folder, names[start : start + batch], arguments, 3000 if options.built else 300)
        known.update({outcome["case"]: outcome for outcome in ran})
        lines = [json.dumps(known[name]) + "\n" for name in sorted(known) if name in present]
        (options.folder / f"{form}.json").write_text("".join(lines))
    counts = {}
    for outcome in ran:
        counts[outcome["status"]] = counts.get(outcome["status"], 0) + 1
    print(form, ", ".join(f"{count} {status}" for status, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
