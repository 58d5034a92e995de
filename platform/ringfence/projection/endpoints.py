"""The addresses at which tasks accept pushed records, encrypted in the rows, since they contain credentials."""

import json
from dataclasses import asdict

from ringfence.connectors.api import Endpoint
from ringfence.encryption import decrypt_text, encrypt_text
from ringfence.fencing.topics.status import TaskStatus
from ringfence.projection.models import Task


def describe(connector: str, number: int) -> str:
    """Return the context that the encrypted string is bound to."""
    return f"endpoint {connector}-{number}"


def pack_endpoint(status: TaskStatus) -> str:
    """Return the value of the task's column; "" if it does not listen."""
    if status.endpoint is None:
        return ""
    about = describe(status.task.connector, status.task.task)
    return encrypt_text(json.dumps(asdict(status.endpoint)), about)


def find_endpoint(connector: str) -> Endpoint | None:
    """Return the address of the connector's first task; None if it is not running or listening. Raises `NoKey`."""
    rows = Task.objects.filter(connector=connector, number=0, known=True)
    text = rows.values_list("endpoint", flat=True).first()
    if not text:
        return None
    return Endpoint(**json.loads(decrypt_text(text, describe(connector, 0))))
