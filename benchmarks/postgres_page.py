"""The page benchmarks/results/postgres.md with the results of `benchmarks.postgres`. Pure."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.numbers import Numbers
from benchmarks.stand import CONNECT, OURS

PAGE = Path(__file__).resolve().parent / "results" / "postgres.md"
IN_ONE = 100
"""Rows per source transaction of the stream."""
RATE = 200
"""Source transactions per second for the measurement of latency."""
FASTER, CPU, SHARE, P99_MS = 3.0, 0.4, 0.6, 150.0


@dataclass(frozen=True, slots=True)
class Latency:
    """From the insert's own clock to the arrival at a read_committed consumer, in milliseconds."""

    p50: float
    p99: float
    count: int


@dataclass(frozen=True, slots=True)
class ReceiveRates:
    """What `pg_recvlogical` received, rows a second in each round: while rows were inserted, and of a backlog."""

    meanwhile: list[float]
    afterwards: list[float]


TWO_TASKS = f"{OURS}, two tasks"
Streams = dict[str, Numbers]
Latencies = dict[str, Latency]


def table(streams: Streams, latencies: Latencies, received: ReceiveRates) -> str:
    """Return both sides, and the rate of the server."""
    rows = [
        "| who | rows/s | x Debezium | CPU s a million | x Debezium | commit to visible, p50 | p99 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    peer = streams[CONNECT]
    for side, title in ((CONNECT, "Debezium 3.7.0 in Kafka Connect 4.3.0"), (OURS, "PostgresSource in Ringfence")):
        one, late = streams[side], latencies[side]
        rows.append(
            f"| {title} | {one.records_s:,.0f} | {one.records_s / peer.records_s:.2f} | {one.cpu_s_per_million:.1f} "
            f"| {one.cpu_s_per_million / peer.cpu_s_per_million:.2f} | {late.p50:.0f} ms | {late.p99:.0f} ms |"
        )
    for title, rates in (("", received.meanwhile), (", of rows inserted before", received.afterwards)):
        rate = median(rates)
        rows.append(f"| `pg_recvlogical` into /dev/null{title} | {rate:,.0f} | {rate / peer.records_s:.2f} | | | | |")
    return "\n".join(rows)


def snapshot_table(snapshots: Streams) -> str:
    """Return each side's snapshot. Debezium has one task per table."""
    rows = ["| snapshot | rows/s | x Debezium | CPU s a million | x Debezium |", "|---|--:|--:|--:|--:|"]
    peer = snapshots[CONNECT]
    for who, one in snapshots.items():
        rows.append(
            f"| {who} | {one.records_s:,.0f} | {one.records_s / peer.records_s:.2f} | {one.cpu_s_per_million:.1f} "
            f"| {one.cpu_s_per_million / peer.cpu_s_per_million:.2f} |"
        )
    return "\n".join(rows)


def targets(streams: Streams, snapshots: Streams, latencies: Latencies, received: ReceiveRates) -> str:
    """Return the targets, and whether they were met."""
    one, two = snapshots[OURS].records_s, snapshots[TWO_TASKS].records_s
    ours, peer = streams[OURS], streams[CONNECT]
    measured = (
        (f"at least {FASTER:g} x Debezium's rows/s", speed := ours.records_s / peer.records_s, speed >= FASTER, "x"),
        (f"at most {CPU:g} x its CPU", cpu := ours.cpu_s_per_million / peer.cpu_s_per_million, cpu <= CPU, "x"),
        (
            f"at least {SHARE:.0%} of pg_recvlogical's rate, while rows are inserted",
            share := ours.records_s / median(received.meanwhile),
            share >= SHARE,
            "x",
        ),
        (
            f"snapshot with one task: at least {FASTER:g} x Debezium's rows/s",
            shot := one / snapshots[CONNECT].records_s,
            shot >= FASTER,
            "x",
        ),
        ("snapshot: faster with two tasks than with one", two / one, two > one, "x"),
        (f"p99 below {P99_MS:.0f} ms", late := latencies[OURS].p99, late < P99_MS, "ms"),
    )
    rows = [
        f"| {what} | {value:.2f} {unit} | {'yes' if reached else 'no'} |" for what, value, reached, unit in measured
    ]
    return "\n".join(["| target | measured | reached |", "|---|--:|---|", *rows])


def page(text: str, rounds: int, rows: int, foot: str) -> str:
    """Return the text of the page. text: its tables."""
    return f"""\
# PostgresSource beside Debezium

`make bench ARGS="postgres --write"` writes this page. One PostgreSQL, one broker, both exactly once, the same table of
five columns, JsonConverter without schemas. Rows are inserted in transactions of {IN_ONE} while the connector
streams, as fast as the server takes them; then one row a transaction, {RATE} of them a second. `pg_recvlogical` has the
same work, and once that of a backlog, when nothing else uses the processor. A snapshot reads a table with as many rows.
Medians of {rounds} rounds of {rows:,} rows after an unmeasured one. CPU is the whole worker's, with everything that it
started ([docs/benchmarks.md](../../docs/benchmarks.md)).

{text}

{foot}"""
