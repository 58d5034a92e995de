"""The `ringfence` command: a table of subcommands, each with a module that is loaded on demand."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import ringfence
from ringfence.client.output import SafeStream
from ringfence.crashes import enable_crash_reports
from ringfence.local.errors import LocalError
from ringfence.subcommands import sentence


class CommandModule(Protocol):
    """The interface of a module in `ringfence.commands`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments, or its own subcommands."""

    def run(self, args: argparse.Namespace) -> int:
        """Run it, and return the exit code. A `LocalError` is printed as one line, with exit code 1."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line of `ringfence --help`; the module behind it is imported only when this command is called."""

    name: str
    module: str
    help: str

    def load(self) -> CommandModule:
        return cast(CommandModule, importlib.import_module(self.module))


COMMANDS = (
    Command("up", "ringfence.commands.up", "run everything on this machine, in the foreground"),
    Command(
        "demo", "ringfence.commands.demo", "run the main job on real flights, kill it half-way, and count what arrived"
    ),
    Command("web", "ringfence.commands.web", "run the web process: REST API, pages and live events"),
    Command("worker", "ringfence.commands.worker", "run one worker, which runs tasks and can be elected leader"),
    Command("executor", "ringfence.commands.executor", "run a Spark executor; Spark on Kubernetes calls this"),
    Command(
        "check",
        "ringfence.commands.check",
        "say what to change in a worker's file or a connector's configuration, without a cluster",
    ),
    Command("backup", "ringfence.commands.backup", "back up configurations and source offsets to a file"),
    Command("restore", "ringfence.commands.restore", "restore lost topics from a backup or from the database"),
    Command(
        "topics",
        "ringfence.commands.topics",
        "browse topics and records; check and accept the cluster's own topics",
    ),
    Command(
        "connectors",
        "ringfence.commands.connectors",
        "list, create, change, pause, restart and delete connectors, over REST",
    ),
    Command(
        "apply",
        "ringfence.commands.apply",
        "make a server hold the connectors, alerts and grants of a folder, after a plan, over REST",
    ),
    Command("export", "ringfence.commands.export", "write connectors, alerts and grants to files for apply, over REST"),
    Command("tasks", "ringfence.commands.tasks", "list and restart tasks, over REST"),
    Command(
        "offsets", "ringfence.commands.offsets", "show, alter, reset, snapshot and restore source offsets, over REST"
    ),
    Command("transactions", "ringfence.commands.transactions", "list, end and abort transactions in Kafka, over REST"),
    Command("dead-letters", "ringfence.commands.dead_letters", "list and replay dead letters, over REST"),
    Command(
        "groups", "ringfence.commands.groups", "show consumer groups and their lag behind open transactions, over REST"
    ),
    Command("share", "ringfence.commands.share", "list, move, configure and delete share groups, over REST"),
    Command("alerts", "ringfence.commands.alerts", "list incidents, acknowledge and silence them, over REST"),
    Command("workers", "ringfence.commands.workers", "list the workers and show their leader, over REST"),
    Command("plugins", "ringfence.commands.plugins", "list, install and develop plugins"),
    Command("contexts", "ringfence.commands.contexts", "manage servers and tokens for the commands over REST"),
    Command("completion", "ringfence.commands.completion", "print a completion script for bash, zsh or fish"),
    Command("audit", "ringfence.commands.audit", "export the audit trail as JSON lines, on the server"),
    Command("users", "ringfence.commands.users", "manage accounts and their permissions, on the server"),
    Command("keys", "ringfence.commands.keys", "manage the keys that encrypt stored configurations, on the server"),
    Command("tokens", "ringfence.commands.tokens", "manage tokens for scripts and tools, on the server"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Exit codes: 0 success, 1 an error that was reported, 2 wrong usage, 130 interrupted.

    The commands over REST have more: `client.output.Exit`.
    """
    argv = sys.argv[1:] if argv is None else argv
    args = parser_for(argv).parse_args(argv)
    command: Command = args.command
    enable_crash_reports()
    try:
        return command.load().run(args)
    except LocalError as error:
        print(f"ringfence {command.name}: {error}", file=SafeStream(sys.stderr))
        return error.code
    except KeyboardInterrupt:
        return 130


def parser_for(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser: complete for the requested command, and an outline for the others."""
    first_word = next((word for word in argv if not word.startswith("-")), "")
    parser = argparse.ArgumentParser(prog="ringfence", description=ringfence.__doc__)
    parser.add_argument("--version", action="version", version=f"ringfence {ringfence.__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=sentence(command.help))
        subparser.set_defaults(command=command)
        # Only the requested command is imported: `ringfence --help` needs neither Django nor Spark.
        if command.name == first_word:
            command.load().add_arguments(subparser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
