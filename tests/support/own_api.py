"""Answers of our own API, and what the projection has read."""

import json
from typing import Any

from django.test import Client

from tests.support.topics import Topic

CONFIG = {"connector.class": "VerifiableSource", "topic": "t", "pin": "hunter2"}


def report(*events: dict[str, Any]) -> None:
    from ringfence.projection.projector import Projection

    topic = Topic()
    for event in events:
        topic.event(**event)
    Projection("events", "events", "id").apply(topic.records, topic.end)


def problem(response: Any, status: int) -> str:
    assert response.status_code == status, response.content
    assert response["content-type"] == "application/problem+json"
    body = json.loads(response.content)
    assert set(body) == {"title", "status", "detail", "instance"}
    assert body["status"] == status
    return str(body["detail"])


def results(client: Client, path: str, **query: Any) -> list[dict[str, Any]]:
    response = client.get(path, query)
    assert response.status_code == 200, response.content
    return list(response.json()["results"])
