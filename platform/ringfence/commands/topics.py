"""`ringfence topics`: shows the topics that hold the cluster's state, and accepts them after a loss.

`tail` reads any topic of the cluster, from Kafka. `list`, `records` and `origin` use the server (`topic_records`).
"""

import argparse

from ringfence.client.arguments import Actions
from ringfence.client.output import table
from ringfence.commands import cluster_settings, topic_records
from ringfence.commands.restore import ask_agreement, read_known_topics
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    over_rest = Actions(parser)
    topic_records.add_actions(over_rest)
    actions = over_rest.parsers
    show = add_command(actions, "show", "show the cluster's own topics, their ids, and the ids expected")
    accept = add_command(
        actions, "accept", "accept the cluster's own topics as they are now; all old tasks are fenced first"
    )
    accept.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    tail = add_command(actions, "tail", "read a topic as a read_committed consumer does, until Ctrl-C")
    tail.add_argument("topic", metavar="TOPIC", help="the topic's name")
    tail.add_argument(
        "--last", type=_count, default=10, metavar="N", help="begin with the last N records (default: 10)"
    )
    end = tail.add_mutually_exclusive_group()
    end.add_argument("--follow", action="store_true", help="keep printing new records until Ctrl-C (the default)")
    end.add_argument("--exit", action="store_true", help="exit at the end of the topic")
    tail.add_argument("--commands", action="store_true", help="print commands that read the topic with other consumers")
    for action in (show, accept, tail):
        cluster_settings.add_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Run the command. `show` returns 0 if no topic is lost, otherwise 1."""
    if hasattr(args, "run_action"):
        return topic_records.run(args)
    if args.action == "tail":
        from ringfence.commands import topic_tail

        return topic_tail.run(args)
    config = cluster_settings.worker_config(args)
    from ringfence.engine.platform_topics import names_of, present, recall
    from ringfence.fencing.clock import Deadline
    from ringfence.fencing.errors import FencingError
    from ringfence.fencing.topics.topic_ids import ROLES, losses
    from ringfence.recovery.restore import Restore

    remembered = read_known_topics(args)
    connection, limit = config.connection("ringfence-topics"), Deadline.after(_SECONDS)
    try:
        if args.action == "accept":
            question = "Connectors and offsets that are not in these topics are lost. Accept the topics? [y/N] "
            if not args.yes and not ask_agreement(question):
                raise LocalError("Nothing was changed")
            Restore(config, remembered, print).accept()
            print("The topics as they are now are the cluster's topics")
            return 0
        topics = present(connection, config, limit)
        ids = recall(connection, config, limit, remembered)
    except FencingError as error:
        raise LocalError(str(error)) from error
    lost = {one.role: one for one in losses(ids, topics)} if ids is not None else {}
    names, was = names_of(config), ids.topics if ids is not None else {}
    rows = []
    for role in ROLES:
        now, before = topics[role], was.get(role)
        state = "lost" if role in lost else "there" if now else "not created yet"
        rows.append((role, names[role], now.id if now else "-", before.id if before else "-", state))
    print(f"Kafka is at {config.bootstrap}. `ringfence topics tail TOPIC` reads a topic.\n")
    table(("ROLE", "TOPIC", "ID", "REMEMBERED", "STATE"), rows)
    return 1 if lost else 0


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)
