"""Writes docs/conformance.md from the results: `report.py NODE_FOLDER [MODEL_FOLDER]`."""

import sys
from pathlib import Path

import verify

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "conformance.md"
TYPES = {"Const": "Constant", "ReLU": "Relu", "SoftMax": "Softmax", "PReLU": "PRelu"}
STATUSES = ["pass", "mismatch", "unsupported", "rejected", "crash"]


class Row:
    """A version of an operation and what happened to the cases that hold it."""

    def __init__(self, line):
        self.name, self.version, self.opsets = line.split("\t")
        self.first, self.last = (int(part) for part in (self.opsets.split(",")[-1].split("-") * 2)[:2])
        self.first = int(self.opsets.replace(",", "-").split("-")[0])
        self.implemented = False
        self.total = self.passed = self.skipped = 0
        self.absolute = self.relative = 0.0

    def rate(self):
        counted = self.total - self.skipped
        return f"{100 * self.passed / counted:.1f} %" if counted else ""


def rows():
    """All rows, with what docs/ops.md says of them."""
    table = [Row(line) for line in (HERE / "opsets.tsv").read_text().splitlines()[1:]]
    status = {}
    for line in (DOCUMENT.parent / "ops.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7:
            status[cells[0], cells[1], cells[2]] = cells[3]
    for row in table:
        row.implemented = status[row.name, row.version, row.opsets] in ("full", "partial")
    return table


def find(table, kind, opset):
    kind = TYPES.get(kind, kind).lower()
    number = int(opset.removeprefix("opset")) if opset.startswith("opset") else 6
    if (kind, number) in (("mvn", 1), ("roipooling", 1), ("reorgyolo", 1)):
        number = 2
    return next((r for r in table if r.name.lower() == kind and r.first <= number <= r.last), None)


def count(table, index, results):
    for name, record in index.items():
        if "skipped" in record or name not in results:
            continue
        result = results[name]
        for row in {find(table, kind, opset) for kind, opset in record["operations"]} - {None}:
            row.total += 1
            row.skipped += is_skipped(record, result)
            if result["status"] == "pass":
                row.passed += 1
                row.absolute = max(row.absolute, result["max_abs"])
                row.relative = max(row.relative, result["max_rel"])


def is_skipped(record, result):
    """OpenVINO itself does not get ONNX's values from this file, and neither do we: the file does not mean the test."""
    return result["status"] != "pass" and record["openvino"] != "agrees"


def number(value):
    return f"{value:.2g}" if value else "0"


def cell(text):
    text = " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= 220 else text[:217] + "..."


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def counts(index, results):
    cases = {name: results[name] for name, record in index.items() if "skipped" not in record and name in results}
    passed = sum(result["status"] == "pass" for result in cases.values())
    skipped = sum(is_skipped(index[name], result) for name, result in cases.items())
    return cases, passed, skipped


def summary(out, table, index, forms):
    covered = sum(row.implemented for row in table)
    out.append(f"**Coverage** {covered} of {len(table)} operation versions: {percent(covered, len(table))}.\n")
    tests = {name.split(".")[0] for name in index}
    converted = {name.split(".")[0] for name, record in index.items() if "skipped" not in record}
    cases = sum("skipped" not in record for record in index.values())
    agree = sum(record.get("openvino") == "agrees" for record in index.values())
    out.append(
        f"The `onnx` package makes {len(tests)} node tests; OpenVINO converts {len(converted)} of them, which gives {cases} "
        f"cases. OpenVINO's own CPU plugin agrees with ONNX in {agree} ({percent(agree, cases)}).\n"
    )
    out.append("| form | cases | " + " | ".join(STATUSES) + " | skipped | pass rate |")
    out.append("|---|---|" + "---|" * (len(STATUSES) + 2))
    for form, results in forms:
        ran, passed, skipped = counts(index, results)
        if ran:
            by_status = [sum(result["status"] == status for result in ran.values()) for status in STATUSES]
            line = " | ".join(map(str, [form, len(ran), *by_status, skipped]))
            out.append(f"| {line} | {percent(passed, len(ran) - skipped)} |")
    out.append("")


def by_opset(out, table):
    out.append("## By opset\n")
    out.append("An operation version counts for the opset in which it appeared.\n")
    out.append("| opset | versions | implemented | coverage | cases | passed | skipped | pass rate |")
    out.append("|---|---|---|---|---|---|---|---|")
    for opset in range(1, 17):
        group = [row for row in table if row.first == opset]
        total, passed, skipped = (sum(getattr(row, key) for row in group) for key in ("total", "passed", "skipped"))
        implemented = sum(row.implemented for row in group)
        line = [opset, len(group), implemented, percent(implemented, len(group)), total, passed, skipped]
        out.append(f"| {' | '.join(map(str, line))} | {percent(passed, total - skipped)} |")
    out.append("")


def by_operation(out, table):
    out.append("## By operation\n")
    out.append("Cases that hold the operation, alone or among others. The errors are the largest of those that pass.\n")
    out.append("| operation | opsets | implemented | cases | passed | skipped | pass rate | largest abs error | rel error |")
    out.append("|---|---|---|---|---|---|---|---|---|")
    for row in table:
        line = [f"{row.name}-{row.version}", row.opsets, "yes" if row.implemented else "**no**"]
        if row.total:
            line += [row.total, row.passed, row.skipped, row.rate(), number(row.absolute), number(row.relative)]
        out.append(f"| {' | '.join(map(str, line + [''] * (9 - len(line))))} |")
    out.append("")


def not_passing(out, index, forms):
    out.append("## Cases that do not pass\n")
    for form, results in forms:
        failing = {n: r for n, r in results.items() if n in index and r["status"] != "pass"}
        for title, skipped in [("counted", False), ("skipped: OpenVINO's CPU plugin does not get ONNX's values either", True)]:
            chosen = sorted(n for n, r in failing.items() if is_skipped(index[n], r) == skipped)
            if not chosen:
                continue
            out.append(f"### {form}, {title} ({len(chosen)})\n")
            out.append("| case | status | reason | OpenVINO |")
            out.append("|---|---|---|---|")
            for name in chosen:
                result, openvino = failing[name], index[name]["openvino"]
                out.append(f"| {name} | {result['status']} | {cell(result['message'])} | {cell(openvino)} |")
            out.append("")


def not_converted(out, index):
    reasons = {}
    for name, record in index.items():
        if "skipped" in record:
            reasons.setdefault(record["skipped"], []).append(name)
    out.append(f"## Tests that OpenVINO does not convert ({sum(map(len, reasons.values()))})\n")
    out.append("| reason | tests |")
    out.append("|---|---|")
    for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        out.append(f"| {cell(reason)} | {', '.join(sorted(names))} |")
    out.append("")


def whole_models(out, root):
    index = verify.index(root)
    forms = {form: verify.results(root, form) for form in ("interpreted", "built")}
    out.append("## Whole models\n")
    out.append(
        "Well-known architectures with random weights and small inputs. Expected values are those of the framework in which "
        "the model was made,\nor, where it says so, of OpenVINO's CPU plugin. Errors are those of the built form, where there is one.\n"
        "Architectures that are defined but were not run are not listed.\n"
    )
    out.append("| model | layers | expected from | interpreted | built | largest abs error | rel error | largest expected |")
    out.append("|---|---|---|---|---|---|---|---|")
    missing = []
    for name, record in sorted(index.items()):
        if "skipped" in record:
            missing.append((name, record["skipped"], ""))
            continue
        got = {form: results.get(name) for form, results in forms.items()}
        if not any(got.values()):
            continue
        status = [result["status"] if result else "" for result in got.values()]
        shown = got["built"] or got["interpreted"]
        errors = [number(shown["max_abs"]), number(shown["max_rel"])] if shown and shown["status"] == "pass" else ["", ""]
        line = [name, record["layers"], record["oracle"], *status, *errors, number(record["scale"])]
        out.append(f"| {' | '.join(map(str, line))} |")
        for form, result in got.items():
            if result and result["status"] != "pass":
                missing.append((name, f"{form}: {result['status']}", result["message"]))
    out.append("")
    if missing:
        out.append("| does not pass | how | reason |")
        out.append("|---|---|---|")
        out.extend(f"| {name} | {cell(how)} | {cell(why)} |" for name, how, why in missing)
        out.append("")


def main(nodes, models=None):
    table, index = rows(), verify.index(nodes)
    forms = [("interpreted", verify.results(nodes, "interpreted")), ("built", verify.results(nodes, "built"))]
    count(table, index, forms[0][1])
    out = [(HERE / "preface.md").read_text()]
    summary(out, table, index, forms)
    by_opset(out, table)
    by_operation(out, table)
    if models:
        whole_models(out, models)
    not_passing(out, index, forms)
    not_converted(out, index)
    DOCUMENT.write_text("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
