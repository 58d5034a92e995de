"""`python -m benchmarks`: runs the cases, prints the tables, and with --write writes docs/benchmarks.md."""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    answers,
    fencing,
    files,
    gaps,
    history,
    hooks,
    java,
    kills,
    latency,
    leader,
    lists,
    losses,
    many,
    neighbours,
    pages,
    postgres,
    share,
    sql,
    starts,
    streams,
    thousand,
)
from benchmarks.cases import BOUNDARIES, KINDS, Case
from benchmarks.command import remove_data, write_page
from benchmarks.machine import describe, load
from benchmarks.numbers import Numbers, medians
from benchmarks.page import page
from benchmarks.report import listed, table, targets
from benchmarks.rest import BenchmarkError
from benchmarks.runs import Runs
from ringfence.local.errors import LocalError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_OTHERS = {
    "answers": answers.main,
    "fence": fencing.main,
    "files": files.main,
    "gaps": gaps.main,
    "hooks": hooks.main,
    "java": java.main,
    "kills": kills.main,
    "latency": latency.main,
    "leader": leader.main,
    "lists": lists.main,
    "losses": losses.main,
    "many": many.main,
    "neighbours": neighbours.main,
    "pages": pages.main,
    "postgres": postgres.main,
    "share": share.main,
    "sql": sql.main,
    "starts": starts.main,
    "streams": streams.main,
    "thousand": thousand.main,
}
LINES, QUICK_LINES = 5_000_000, 2_500_000


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 it ran (whatever it measured), 1 it could not run; the reason is printed."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in _OTHERS:
        try:
            return _OTHERS[arguments[0]](arguments[1:])
        except (BenchmarkError, LocalError) as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            return 1
    args = _parser().parse_args(arguments)
    lines = args.lines or (QUICK_LINES if args.quick else LINES)
    rounds = args.runs or (1 if args.quick else 3)
    root = args.scratch or Path(tempfile.mkdtemp(prefix="ringfence-bench-"))
    before = load()
    try:
        with Runs(root, tuple(args.who), lines, args.nice) as runs:
            measured = _measure(runs, args.boundary, args.who, rounds)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    finally:
        remove_data(root)
    results = {case: medians(each) for case, each in measured.items()}
    machine = describe()
    machine["load before the runs"] = before
    if args.nice:
        machine["shared with other work"] = f"broker, workers and measuring ran at nice {args.nice}, alike"
    for boundary in args.boundary:
        print(f"\n{boundary}\n{table(results, boundary)}")
    print(f"\n{listed(targets(results))}")
    record = {
        "machine": machine,
        "lines": lines,
        "runs": [asdict(case) | {"runs": [asdict(one) for one in each]} for case, each in measured.items()],
    }
    (root / "results.json").write_text(json.dumps(record, indent=2))
    print(f"\neach run: {root / 'results.json'}")
    _compare(measured)
    if args.write:
        write_page(PAGE, page(results, machine, lines=lines, runs=rounds))
    return 0


def _compare(measured: Mapping[Case, Sequence[Numbers]]) -> None:
    """Keep the run's ratios, and print what is slower than in the last run on such a machine."""
    if ratios := history.ratios(measured):
        now = history.Entry(history.commit(), history.kind_of_machine(), datetime.now(UTC).date().isoformat(), ratios)
        before = history.newest(history.read(), now.machine)
        history.append(now)
        slower = [] if before is None else history.slower(before, now)
        print("slower than before:\n" + "\n".join(slower) if slower else "nothing is slower than before")
        print(f"kept: {history.FILE}")


def _measure(runs: Runs, boundaries: Sequence[str], kinds: Sequence[str], rounds: int) -> dict[Case, list[Numbers]]:
    """Run each boundary's cases in turn, so that a change in the machine's load affects all of them."""
    measured: dict[Case, list[Numbers]] = {}
    for boundary in boundaries:
        cases = [Case(kind, boundary) for kind in kinds]
        for case in cases:
            runs.warm(case)
            print(f"{boundary} warm {case.kind}", flush=True)
        for number in range(rounds):
            for case in cases:
                one = runs.run(case)
                measured.setdefault(case, []).append(one)
                print(
                    f"{boundary} {number + 1}/{rounds} {case.kind:8} {one.records_s:>9,.0f} records/s "
                    f"{one.cpu_s_per_million:.2f} CPU s/million, first after {one.first_s:.2f} s, tree "
                    f"{one.tree_rss_mib:.0f}/{one.tree_pss_mib:.0f} task {one.task_rss_mib:.0f}/{one.task_pss_mib:.0f} "
                    "MiB RSS/PSS",
                    flush=True,
                )
    return measured


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer lines, one round: a first look")
    parser.add_argument("--lines", type=int, metavar="N", help=f"lines of the file (default: {LINES:,})")
    parser.add_argument("--runs", type=int, metavar="N", help="measured rounds (default: 3)")
    parser.add_argument("--boundary", nargs="+", choices=BOUNDARIES, default=list(BOUNDARIES))
    parser.add_argument("--who", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="on a machine with other work; needs root")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="for logs and results.json (default: a new one)")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
