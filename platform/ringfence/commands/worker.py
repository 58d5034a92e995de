"""`ringfence worker`: one worker on its own, for compose and Kubernetes."""

import argparse
import os

DEFAULT_SLOTS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", required=True, help="a name that no other living worker of the group has")
    parser.add_argument(
        "--slots",
        type=int,
        default=DEFAULT_SLOTS,
        metavar="N",
        help=f"how many tasks it takes (default: {DEFAULT_SLOTS})",
    )


def run(args: argparse.Namespace) -> int:
    """Work until SIGTERM or SIGINT."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
    from ringfence.engine.worker import main

    return main(args.id, args.slots)
