"""Where tasks listen that are pushed to, as the rows know it: encrypted, since it holds what opens them."""

import json
from dataclasses import asdict

from ringfence.connectors.api import Endpoint
from ringfence.encryption import decrypt_text, encrypt_text
from ringfence.fencing.topics.status import TaskStatus
from ringfence.projection.models import Task


def describe(connector: str, number: int) -> str:
    """What the encrypted text belongs to."""
    return f"endpoint {connector}-{number}"


def pack_endpoint(status: TaskStatus) -> str:
    """For the column of the task's row; "" where it listens nowhere."""
    if status.endpoint is None:
        return ""
    about = describe(status.task.connector, status.task.task)
    return encrypt_text(json.dumps(asdict(status.endpoint)), about)


def find_endpoint(connector: str) -> Endpoint | None:
    """Of the connector's first task; None where it is not running or listens nowhere. Raises `NoKey`."""
    rows = Task.objects.filter(connector=connector, number=0, known=True)
    text = rows.values_list("endpoint", flat=True).first()
    if not text:
        return None
    return Endpoint(**json.loads(decrypt_text(text, describe(connector, 0))))
