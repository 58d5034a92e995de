"""`python -m benchmarks files`: how many rows per second FilesSource reads, in each format, with one task.

All run on one broker and one `ringfence up`, with FileStreamSource on the same lines for comparison: its rate for raw
bytes of one file is the limit for lines of many files.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.parquet

from benchmarks import lines
from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import Numbers, medians, numbers
from benchmarks.rest import Rest
from benchmarks.stand import OURS, Stand
from benchmarks.watch import observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics

PAGE: Final = Path(__file__).resolve().parent / "results" / "files.md"
PARTS: Final = 8
LEAST_LINES, LEAST_PARQUET = 0.9, 300_000
_CONVERTERS: Final = "org.apache.kafka.connect."
BYTES: Final = {"value.converter": f"{_CONVERTERS}converters.ByteArrayConverter"}
JSON: Final = {"value.converter": f"{_CONVERTERS}json.JsonConverter", "value.converter.schemas.enable": "false"}


@dataclass(frozen=True, slots=True)
class Job:
    """format: of PARTS files, or None for FileStreamSource on one file. count: rows."""

    name: str
    title: str
    format: str | None
    count: int
    more: Mapping[str, str] = field(default_factory=dict, hash=False)

    def config(self, input_path: Path, topic: str) -> dict[str, str]:
        common = {
            "tasks.max": "1",
            "topic": topic,
            "exactly.once.support": "required",
            "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": "1000",
            **self.more,
        }
        if self.format is None:
            return {"connector.class": "FileStreamSource", "file": str(input_path), **common}
        return {
            "connector.class": "FilesSource",
            "url": f"file://{input_path}",
            "format": self.format,
            "settle.ms": "0",
            **common,
        }


ANCHOR: Final = Job("one-file", "FileStreamSource, one file, raw bytes", None, 5_000_000, BYTES)
LINES: Final = Job("lines", "lines, raw bytes", "text", 5_000_000, BYTES)
PARQUET: Final = Job("parquet", "Parquet, 5 columns, to JSON", "parquet", 2_000_000, JSON)
JOBS: Final = (
    ANCHOR,
    LINES,
    PARQUET,
    Job("jsonl", "JSON lines, parsed, to JSON", "jsonl", 2_000_000, JSON),
    Job("csv", "CSV, 5 columns, to JSON", "csv", 1_000_000, JSON),
)


def prepare(root: Path, job: Job) -> Path:
    """Return the input, written on first use: a file, or a folder of PARTS files."""
    input_path = root / f"{job.name}-{job.count}"
    if input_path.exists():
        return input_path
    if job.format is None:
        lines.write(input_path, job.count)
        return input_path
    input_path.mkdir()
    each = job.count // PARTS
    for part in range(PARTS):
        path = input_path / f"{part}.{job.format}"
        if job.format == "text":
            lines.write(path, each)
            continue
        rows = range(part * each, (part + 1) * each)
        if job.format == "parquet":
            pyarrow.parquet.write_table(_table(rows), path)
        elif job.format == "jsonl":
            path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in map(_row, rows)))
        else:
            names = ",".join(_row(0))
            body = "".join(",".join(map(str, _row(number).values())) + "\n" for number in rows)
            path.write_text(f"{names}\n{body}")
    return input_path


def _row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "name": f"customer {number % 5000}",
        "price": number / 100,
        "open": number % 2 == 0,
        "note": "abcdefghij" * 3,
    }


def _table(rows: range) -> pa.Table:
    return pa.Table.from_pylist([_row(number) for number in rows])


def measure(stand: Stand, root: Path, job: Job, count: int, number: int) -> Numbers:
    """Run a job with this number of rows."""
    job = Job(job.name, job.title, job.format, count, job.more)
    input_path = prepare(root, job)
    topic = f"files-{job.name}-{number}"
    create_topics(stand.connection, [TopicSpec(topic)], Deadline.after(30))
    side = stand.sides[OURS]
    try:
        with Rest(side.url) as rest:
            rest.create(topic, job.config(input_path, topic))
            try:
                observation = observe(stand.bootstrap, topic, count, side.pid, lambda: rest.trouble(topic), 300.0, 1)
            finally:
                rest.delete(topic)
    finally:
        delete_topics(stand.connection, [topic], Deadline.after(30))
    return numbers(observation, count, interval=True)


def table(results: Mapping[Job, Numbers]) -> str:
    rows = [
        "| job | rows/s | x one file as raw bytes | CPU s a million | task RSS |",
        "|---|--:|--:|--:|--:|",
    ]
    anchor = results[ANCHOR].records_s
    rows += [
        f"| {job.title} | {one.records_s:,.0f} | {one.records_s / anchor:.2f} | {one.cpu_s_per_million:.2f} "
        f"| {one.task_rss_mib:.0f} MiB |"
        for job, one in results.items()
    ]
    return "\n".join(rows)


def targets(results: Mapping[Job, Numbers]) -> str:
    share = results[LINES].records_s / results[ANCHOR].records_s
    parquet = results[PARQUET].records_s
    return "\n".join(
        [
            "| target | measured | reached |",
            "|---|--:|---|",
            f"| lines of {PARTS} files: at least {LEAST_LINES:.0%} of one file as raw bytes | {share:.0%} "
            f"| {'yes' if share >= LEAST_LINES else 'no'} |",
            f"| Parquet to JSON: at least {LEAST_PARQUET:,} rows/s | {parquet:,.0f} "
            f"| {'yes' if parquet >= LEAST_PARQUET else 'no'} |",
        ]
    )


def page(results: Mapping[Job, Numbers], machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/files.md."""
    return f"""\
# Files

`make bench ARGS="files --write"` writes this page. One task reads {PARTS} files of a folder; transactions end every
1000 ms; everything runs on one machine: broker, worker, task. Each row is the median of {rounds} rounds after one that
is not measured. Lines are {lines.LINE_BYTES} bytes long.

{table(results)}

{targets(results)}

{foot(machine)}
"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("files", __doc__, PAGE)
    parser.add_argument("--runs", type=int, default=3, help="measured rounds (3)")
    parser.add_argument("--quick", action="store_true", help="half of the rows, one round")
    args = parser.parse_args(argv)
    rounds, part = (1, 2) if args.quick else (args.runs, 1)
    machine = describe() | {"load before the runs": load()}
    results: dict[Job, Numbers] = {}
    with new_folder("files") as root, Stand(root, who=(OURS,)) as stand:
        for job in JOBS:
            runs = []
            for number in range(rounds + 1):
                one = measure(stand, root, job, job.count // part, number)
                runs.append(one)
                print(f"{job.name} {number}/{rounds} {one.records_s:>9,.0f} rows/s", flush=True)
            results[job] = medians(runs[1:])
    shutil.rmtree(root)
    print(table(results), targets(results), sep="\n\n")
    if args.write:
        write_page(PAGE, page(results, machine, rounds))
    return 0
