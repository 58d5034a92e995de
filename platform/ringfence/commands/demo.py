"""`ringfence demo`: runs the main job on real input."""

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from ringfence.commands import up
from ringfence.local.data_directory import default_root
from ringfence.local.running_platform import Running


def add_arguments(parser: argparse.ArgumentParser) -> None:
    up.add_arguments(parser)
    parser.set_defaults(data=default_root() / "demo", demo=True)
    parser.add_argument("--exit", action="store_true", help="stop everything after the count")


def run(args: argparse.Namespace) -> int:
    """Run `up` and the job, and leave the dashboard running until Ctrl-C. Returns 1 if a flight is
    missing or duplicated.
    """
    return up.serve(args, partial(_demo, leave=args.exit, data=Path(args.data)))


def _demo(running: Running, *, leave: bool, data: Path) -> int | None:
    # Imported here, because `up` alone needs neither a Kafka client nor the flights.
    from ringfence.demo import job

    console = Console()
    verdict = job.run(running, console)
    console.print(
        f"{verdict.arrived:,} of {verdict.expected:,} lines arrived: "
        f"{verdict.missing or 'none'} missing, {verdict.twice or 'none'} twice"
        + (f", {verdict.unknown} that are no line of the file" if verdict.unknown else "")
    )
    if not verdict.exactly_once:
        console.print(f"[bold red]Not exactly once.[/] All logs are in {data / 'logs'}")
        return 1
    console.print(f"[bold green]Exactly once, over a SIGKILL.[/] Dashboard: {running.url}/ui/")
    if leave:
        return 0
    console.print("It stays up until Ctrl-C.")
    return None
