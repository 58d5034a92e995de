"""`ringfence worker`: runs one worker alone, for compose and Kubernetes."""

import argparse
import os
from typing import TYPE_CHECKING

from ringfence import log_format, telemetry
from ringfence.imports import without_collections
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from ringfence.connectors.java.runtime import JavaRuntime
    from ringfence.engine.plugins.installations import Installer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", required=True, help="worker name, unique among the group's live workers")
    parser.add_argument(
        "--slots",
        type=int,
        metavar="N",
        help="how many tasks it takes (default: the worker setting task.slots, or what the memory carries)",
    )
    parser.add_argument(
        "--workers-here",
        type=int,
        default=0,
        metavar="N",
        help="how many workers of `ringfence up` share this machine's memory (default: it has the memory to itself)",
    )
    log_format.add_argument(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="for health checks: run none, and exit with 0 if the worker of this id is a live member of the group",
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    if args.check:
        return _check(args.id)
    log_format.choose(args.log_format)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
    with without_collections():
        telemetry.import_redis()
        from ringfence.engine.worker import main
        from ringfence.local.class_archives import use_archive

        plugins = _plugins()
    use_archive()
    return main(args.id, args.slots, *plugins, workers_here=args.workers_here)


def _plugins() -> "tuple[JavaRuntime | None, Installer | None]":
    """Return the runtime of Java connectors, if the worker has a `plugin.path`, and the plugin installer.

    Where plugins can be installed later, what the first Java connector needs is not fetched before that. Raises
    `LocalError`.
    """
    from ringfence.fencing.errors import FencingError
    from ringfence.worker_config import WorkerConfig

    try:
        settings = WorkerConfig.from_environment().settings
    except FencingError:
        return None, None  # the worker reports that itself
    from ringfence.connectors.java.discovery import find_signature
    from ringfence.local.java_connectors import describe_runtime, prepare
    from ringfence.local.plugin_installer import installer_of

    runtime, installer = describe_runtime(settings), installer_of(settings)
    if runtime is not None and (installer is None or find_signature(runtime.folders)):
        prepare()
    return runtime, installer


def _check(worker_id: str) -> int:
    """Check the group membership: a worker stays a member only while its reconcile loop makes progress."""
    from ringfence.engine.leader.members import is_member
    from ringfence.fencing.errors import FencingError
    from ringfence.worker_config import WorkerConfig

    try:
        config = WorkerConfig.from_environment()
        there = is_member(config.connection(f"ringfence-check-{worker_id}"), config.group_id, worker_id)
    except FencingError as error:
        raise LocalError(str(error)) from error
    if not there:
        raise LocalError(f"Group {config.group_id} has no member {worker_id}: see that worker's log")
    print(f"{worker_id} is a member of group {config.group_id}")
    return 0
