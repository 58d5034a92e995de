"""Which of the connectors that come with Ringfence read topics of Kafka: found, so that a new one is tested, too."""

import importlib
import re
from importlib.metadata import entry_points
from pathlib import Path

_CLIENTS = re.compile(
    r"^\s*(?:from|import) (?:confluent_kafka|kafka|aiokafka)\b|join_(?:share_)?group\(|builtin\.kafka_source",
    re.MULTILINE,
)
"""A Kafka client, one of the kernel's groups, or the connector that has both."""


def _reads_kafka(module: str) -> bool:
    file = importlib.import_module(module).__file__
    assert file is not None
    return any(_CLIENTS.search(source.read_text()) for source in Path(file).parent.rglob("*.py"))


READERS = sorted(
    one.name for one in entry_points(group="ringfence.connectors")
    if ".builtin." in one.module and _reads_kafka(one.module)
)  # fmt: skip
