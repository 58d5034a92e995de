"""Where consumers find the topics, and the commands to read them."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Principal, Verb
from ringfence.api.topics import ELSEWHERE
from ringfence.consumer_commands import CLIENT_FILE, ConsumerCommand, consumer_commands
from ringfence.projection.models import ActiveTopic, ClusterInfo, find_connector

_MOST_COMMANDS = 20
_MOST_LOOKED_AT = 5


def consumption(topics: Sequence[str], settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the context of `parts/consumption.html`; {} if no worker has reported the brokers' address.

    settings: of the connector that writes the topics. It may write to another cluster.
    """
    cluster = ClusterInfo.objects.exclude(kafka_bootstrap="").first()
    if cluster is None:
        return {}
    overrides = settings or {}
    bootstrap = overrides.get(ELSEWHERE, "").strip() or cluster.kafka_bootstrap
    protocol = overrides.get("producer.override.security.protocol") or cluster.kafka_protocol
    client = {"security.protocol": protocol}
    file = os.environ.get(CLIENT_FILE, "") if bootstrap == cluster.kafka_bootstrap else ""
    commands = []
    for name in topics[:_MOST_COMMANDS]:
        own = ConsumerCommand("ringfence", shlex.join(["ringfence", "topics", "tail", name]))
        here = [own] if bootstrap == cluster.kafka_bootstrap else []
        commands.append((name, [*here, *consumer_commands(bootstrap, name, client, file)]))
    return {"bootstrap": bootstrap, "protocol": protocol, "commands": commands, "client_file": file}


@requires(GET=somewhere(Verb.VIEW))
@require_safe
def kafka(request: HttpRequest) -> HttpResponse:
    """Show where the workers' Kafka and this REST API are, and how other clients connect to them."""
    context: dict[str, Any] = {
        "section": "workers",
        "cluster": ClusterInfo.objects.exclude(kafka_bootstrap="").first(),
        "rest": request.build_absolute_uri("/").rstrip("/"),
        **consumption(_newest_topic(principal_of(request))),
    }
    return render(request, "ringfence/kafka.html", context)


def _newest_topic(who: Principal) -> list[str]:
    """Return a visible connector's topic on this cluster, as an example; [] for none among the newest."""
    topics = ActiveTopic.objects.filter(who.query(Verb.VIEW, "connector")).order_by("-since_ms")
    for topic, name in topics.values_list("topic", "connector")[:_MOST_LOOKED_AT]:
        row = find_connector(name)
        if row is not None and ELSEWHERE not in row.settings:
            return [topic]
    return []
