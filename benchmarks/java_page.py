"""The jobs of the Java benchmark, with their targets, and the page of its results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.machine import foot
from benchmarks.numbers import Numbers, yes_or_no
from benchmarks.stand import CONNECT, OURS
from benchmarks.starts_of_java import Memories, Start

FIRST, NEW, WARM = "first task of a worker", "new task", "warm task"
"""What is measured: the first records of the first task of workers that have just started, and of a task of workers
that have run others before; and as many records of that task after some more have passed.
"""


@dataclass(frozen=True, slots=True)
class Job:
    """least, most: the targets of records/s and of CPU, both times Kafka Connect's; between: how many records pass
    unmeasured before the task is warm.
    """

    name: str
    title: str
    count: int
    between: int
    least: float
    most: float

    @property
    def total(self) -> int:
        """Of a run that is measured twice."""
        return 2 * self.count + self.between


SHARED = "Ringfence, shared JVM"
"""The same worker, with java.process=shared."""
JOBS = (
    Job("file", "FileStreamSource, lines of 99 bytes, transactions of 1 s", 6_000_000, 1_000_000, 1.5, 0.5),
    Job("poll", "the same, a transaction each poll of 4,000 lines", 2_000_000, 1_000_000, 1.5, 0.5),
    Job("snapshot", "Debezium, snapshot of rows of 5 columns", 100_000, 200_000, 1.0, 1.0),
    Job("stream", "Debezium, inserts of 5 columns", 100_000, 200_000, 1.0, 1.0),
)
FILES, STREAMS = ("file", "poll"), ("stream",)
"""Names of jobs."""
SMALL_SECONDS, SMALL_MIB, DEBEZIUM_MIB = 1.5, 130, 220
Results = Mapping[Job, Mapping[str, Numbers]]
"""By the worker's kind."""
All = Mapping[str, Results]
"""By FIRST, NEW and WARM."""


def tables(results_by_kind: All) -> str:
    """One for each that was measured."""
    titles = {
        FIRST: "The first task after a start of the worker",
        NEW: "A new task of a worker that has run others",
        WARM: "The same task, warm",
    }
    return "\n\n".join(
        f"### {title}\n\n{_table(results_by_kind[kind], first=kind != WARM)}"
        for kind, title in titles.items()
        if results_by_kind[kind]
    )


def _table(results_by_kind: Results, *, first: bool = False) -> str:
    """Each job with both sides, and the ratios; with `first`, also when the first record came, and the memory."""
    rows = [
        "| job | who | records/s | x Connect | CPU s a million | x Connect |",
        "|---|---|--:|--:|--:|--:|",
    ]
    if first:
        rows = [rows[0] + " first record | tree PSS |", rows[1] + "--:|--:|"]
    for job, sides in results_by_kind.items():
        for side, one in sides.items():
            peer = sides[CONNECT]
            rows.append(
                f"| {job.title} | {side} | {one.records_s:,.0f} | {one.records_s / peer.records_s:.2f} "
                f"| {one.cpu_s_per_million:.2f} | {one.cpu_s_per_million / peer.cpu_s_per_million:.2f} |"
                + (f" {one.first_s:.2f} s | {one.tree_pss_mib:.0f} MiB |" if first else "")
            )
    return "\n".join(rows)


def targets(results_by_kind: All, starts: Sequence[Start], java_mib: Mapping[str, float]) -> str:
    """The targets, and whether they were reached."""
    rows = ["| target | measured | reached |", "|---|--:|---|"]
    for kind, results in results_by_kind.items():
        for job, sides in results.items():
            for side in (OURS, SHARED):
                if side in sides:
                    rows += _targets(
                        f"{kind}{', shared JVM' if side == SHARED else ''}", job, sides[side], sides[CONNECT]
                    )
    for start in starts:
        if start.name == "FileStreamSource":
            reached = start.seconds < SMALL_SECONDS
            rows.append(
                f"| a small task is ready in {SMALL_SECONDS:g} s | {start.seconds:.2f} s | {yes_or_no(reached)} |"
            )
        most = SMALL_MIB if start.name == "FileStreamSource" else DEBEZIUM_MIB
        mib = max([start.mib, *(size for name, size in java_mib.items() if (name in FILES) == (most == SMALL_MIB))])
        rows.append(f"| {start.name}: its JVM stays below {most} MiB RSS | {mib:.0f} MiB | {yes_or_no(mib < most)} |")
    return "\n".join(rows)


def _targets(kind: str, job: Job, one: Numbers, peer: Numbers) -> list[str]:
    speed, cpu = one.records_s / peer.records_s, one.cpu_s_per_million / peer.cpu_s_per_million
    return [
        f"| {kind}: {job.title}: at least {job.least:g} x Connect's records/s | {speed:.2f} x "
        f"| {yes_or_no(speed >= job.least)} |",
        f"| {kind}: {job.title}: at most {job.most:g} x its CPU | {cpu:.2f} x | {yes_or_no(cpu <= job.most)} |",
    ]


def page(
    results_by_kind: All,
    starts: Sequence[Start],
    memories: Sequence[Memories],
    java_mib: Mapping[str, float],
    machine: Mapping[str, str],
) -> str:
    """benchmarks/results/java.md."""
    readiness = "\n".join(
        f"| {one.name} | {one.seconds:.2f} s | {one.cpu_s:.2f} s | {one.mib:.0f} MiB |" for one in starts
    )
    return f"""\
# Kafka Connect's own plugins, here and there

`make bench ARGS="java --write"` writes this page. The real Kafka Connect 4.3.0 and Ringfence run side by side on one
broker, both exactly once, with the same plugins and the same configuration. Each job runs on one and then on the other,
as often as the last table says; the tables show the medians. CPU and memory are those of the whole worker with
everything that it started. [docs/benchmarks.md](../../docs/benchmarks.md) explains how they are measured.

A JVM compiles a connector's code while the first records pass. Each task of Ringfence has a JVM of its own, so each new
task does that. All tasks of a Kafka Connect worker share one JVM: it compiles for the first task after a start, and
later ones find the code compiled. So do tasks of Ringfence whose connectors set `java.process=shared`. So the first
records of a task are measured twice: with workers that have just started, and with workers, and a shared JVM, that have
run tasks of this kind and others before. The latter run each job once unmeasured.

The first 100,000 rows take three seconds, but streams live for days and tables have millions of rows. So as many
records of the same task are measured again, after some that are not.

- measured each time: {_counts(NEW)} records
- in between: {_counts(WARM)}

Where the load, in the last table, says that others used the machine, compare the two sides, which ran in turns, rather
than the figures themselves. Its jobs are named in the order of the first table.

{tables(results_by_kind)}

A Java task by itself, from the start of its JVM until the connector's `start` has returned (the median of five), with
the JVM's CPU and memory at that time; and the memory of the JVMs of so many of them at once:

| connector | ready after | CPU | RSS of the JVM |
|---|--:|--:|--:|
{readiness}

{_memory_table(memories)}

## Targets

Memory here is the largest of the JVM in all runs.

{targets(results_by_kind, starts, java_mib)}

{foot(machine)}"""


def _memory_table(memories: Sequence[Memories]) -> str:
    rows = ["| connector | tasks | PSS, a JVM each | PSS, one JVM |", "|---|--:|--:|--:|"]
    return "\n".join(
        rows + [f"| {one.name} | {one.tasks} | {one.own_mib:.0f} MiB | {one.shared_mib:.0f} MiB |" for one in memories]
    )


def _counts(kind: str) -> str:
    """Such as "file: 2,000,000, poll: 1,000,000"."""
    counts = {job.name: job.count if kind == NEW else job.between for job in JOBS}
    return ", ".join(f"`{name}`: {count:,}" for name, count in counts.items() if count)
