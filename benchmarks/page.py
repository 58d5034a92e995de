"""The page docs/benchmarks.md: the tables, how they were measured, and where."""

from collections.abc import Mapping

from benchmarks.cases import BATCH, BOUNDARIES, INTERVAL_MS, LONGER
from benchmarks.lines import LINE_BYTES
from benchmarks.machine import foot
from benchmarks.report import Results, listed, table, targets

_HEADINGS = {
    "interval": f"A transaction every {INTERVAL_MS} ms (`transaction.boundary=interval`)",
    "poll": f"A transaction every {BATCH:,} records (`transaction.boundary=poll`)",
}


def page(results: Results, machine: Mapping[str, str], *, lines: int, runs: int) -> str:
    """Return the text of the page."""
    tables = "\n\n".join(f"## {_HEADINGS[boundary]}\n\n{table(results, boundary)}" for boundary in BOUNDARIES)
    return f"""\
# Side by side with Kafka Connect

`make bench ARGS="--write"` writes this page (`ARGS=--quick` gives a first look). The real Kafka Connect and Ringfence
run on one broker, both exactly once, and read the same file of {lines:,} lines of {LINE_BYTES} bytes. With `interval`,
`RecordBatch` and the bare loops read {LONGER} times as many: they would be done with {lines:,} after two or three
transactions.

{tables}

## Targets

{listed(targets(results))}

Other comparisons with the real Kafka Connect: copies from Kafka to Kafka and a chain of transforms
([streams.md](../benchmarks/results/streams.md)), its own plugins such as Debezium's
([java.md](../benchmarks/results/java.md)), changes of PostgreSQL
([postgres.md](../benchmarks/results/postgres.md)), end-to-end latency
([latency.md](../benchmarks/results/latency.md)), a hundred small connectors
([many.md](../benchmarks/results/many.md)), how soon a change is answered
([answers.md](../benchmarks/results/answers.md)), and the gap of a reconfiguration
([gaps.md](../benchmarks/results/gaps.md)). Ringfence alone: how long it takes to fence the transactional ids of many
tasks ([fencing.md](../benchmarks/results/fencing.md)), how long a task delivers no records after its worker is killed
([kills.md](../benchmarks/results/kills.md)), what the loss of each part of a platform costs
([losses.md](../benchmarks/results/losses.md)), how long connectors take to start beside a long offsets topic
([starts.md](../benchmarks/results/starts.md)), what lists of 1,000 connectors and 200 open pages cost
([lists.md](../benchmarks/results/lists.md), [pages.md](../benchmarks/results/pages.md)), a thousand small connectors
on one worker ([thousand.md](../benchmarks/results/thousand.md)), what the leader computes
with up to 10,000 connectors ([leader.md](../benchmarks/results/leader.md)), what the ledger of a share group costs
([share.md](../benchmarks/results/share.md)), and how long urgent requests take beside other people's slow ones
([neighbours.md](../benchmarks/results/neighbours.md)).

## Where it is slower, and why

- **Compared with the bare loop, as strings**: each line becomes a Python string, and then bytes again. `RecordBatch`
  avoids this. A plugin that returns records one by one pays for an object and an offset each, too.
- **Small transactions** cost more CPU than the bare loop's. Each also writes a source offset to a second topic, whose
  partition the coordinator has to add and mark too, and is committed on a separate thread during the next poll.
- **A hundred small connectors** take more memory than in Kafka Connect: each task is a process, so that none can take
  another one down. With `task.isolation=shared` they take about a quarter of Kafka Connect's.
- **Runs differ**: a stall of the disk or of the broker's garbage collector affects small transactions most, on all
  sides (rounds of the bare loop once differed by a factor of eleven). Compare medians, and ratios within one run.

## How it is measured

- **The same job.** One `FileStreamSourceConnector` with one task, created over REST, with the same settings on both
  sides except for the converters: Kafka's FileStreamSource delivers strings and uses StringConverter. Ringfence's runs
  twice: once with `RecordBatch`, many lines at a time that no converter touches, and once as strings through
  StringConverter. The topic has one partition and is deleted after each run.
- **Both exactly once**, with `exactly.once.source.support=enabled` and `exactly.once.support=required`. Everything
  else has its default: Kafka Connect runs with the heap and collector settings of its start script, Ringfence as
  `ringfence up` runs it.
- **Warm, and in turns.** Both workers run all the time. Each case runs once unmeasured, then they alternate
  ({runs} rounds). The table shows the median of each number separately.
- **Records a second**: from the first record that a read_committed reader can see to the last. Nothing is
  consumed, because that would take CPU from what is measured. Instead, the broker is asked for the partition's last
  stable offset 20 times a second. With `interval` the last step is left out on all sides: it holds the rest of the
  file, and waits idly for the end of its interval.
- **CPU**: user and system time of the worker's process tree between the same two moments (Kafka Connect: its JVM.
  Ringfence: the worker, its Spark JVM, the Python processes), as Linux counts it for each process. It excludes the
  broker, and Ringfence's web process and Valkey, which do nothing for a record.
- **Memory**: the largest of samples taken every second. RSS counts shared pages in each process that maps them; PSS
  divides them among those processes, so it can be added up: use PSS for the whole tree. "task" is the
  Python process that runs the connector's task; it shares pages with the process that it was forked from.
- **First record**: from the answer to the request that creates the connector to the first visible record. With
  `interval` it includes a whole interval.
- **The bare loops** read lines and write them in transactions, and do nothing else: no offsets, no plugin, no reports.
  `benchmarks/plain.py` calls librdkafka's `produce` from Python; it fills a queue of a million records and begins each
  transaction at once, as a plain program would. `benchmarks/bare_protocol.py` encodes record batches as Ringfence's
  producer does, and sends them over one socket without what a product needs: retries, leaders, settings.

## Machine

{foot(machine)}"""
