"""Formats the report of an exactly-once proof as plain text."""

import json
from datetime import UTC, datetime
from typing import Final

from ringfence.api.proofs import error_of, report_of, state_of
from ringfence.history.models import ProofRun

WORDS: Final = {
    "exact": "Exactly once, as far as it was counted",
    "failed": "Not exactly once: something is missing, doubled or late",
    "incomplete": "Nothing wrong was found, but not everything could be counted",
}


def to_text(run: ProofRun) -> str:
    """Return the report as plain text."""
    report = report_of(run)
    lines = [f"Exactly-once proof {run.number} of connector {run.connector}", ""]
    if report is None:
        return "\n".join([*lines, f"There is no report: {error_of(run) or state_of(run)}", ""])
    cluster = report["cluster"]
    lines += [
        f"Verdict    {report['verdict']}: {WORDS[report['verdict']]}.",
        f"Counted    {_time(run.started_ms)} to {_time(run.ended_ms)}, by worker {run.worker}"
        + (f", asked by {run.user}" if run.user else ""),
        f"Cluster    {cluster['id']} at {cluster['bootstrap']}",
        f"Versions   Ringfence {report['ringfence']}, {report['class']} {report['version']}",
        "",
        "Checks",
    ]
    for check in report["checks"]:
        lines.append(f"  {check['result']:<8} {check['name']}: {check['message']}.")
        if check["remedy"]:
            lines.append(f"           {check['remedy']}.")
    lines += ["", "Counts"]
    lines += [f"  {name.replace('_', ' '):<14} {_number(count)}" for name, count in report["counts"].items()]
    lines += ["", "Topics (first offset, end)"]
    for topic in report["topics"]:
        partitions = [each for each in topic["partitions"] if each["end"] > each["first"]]
        parts = ", ".join(f"{each['partition']}: {each['first']} to {each['end']}" for each in partitions)
        lines.append(f"  {topic['topic']}  {parts or 'empty'}, of {topic['partition_count']} partitions")
    lines += ["", f"Committed source offsets ({report['source_partitions']})"]
    lines += [f"  {json.dumps(each['partition'])}  {json.dumps(each['offset'])}" for each in report["offsets"]]
    lines += ["", "Attempts"]
    for each in report["attempts"]:
        who = f"task {each['task']}, generation {each['generation']}, attempt {each['attempt']}"
        compared = f"{_number(each['counted'])} counted, {_number(each['visible'])} visible"
        lines.append(f"  {who}: {each['transactions']:,} transactions, {compared}")
    return "\n".join([*lines, ""])


def _number(count: int | None) -> str:
    return "cannot be counted" if count is None else f"{count:,}"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
