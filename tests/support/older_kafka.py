"""A broker of Kafka 3.9: its transactions are those of before KIP-890."""

from pathlib import Path
from typing import Any

import pytest

from ringfence.local import kafka
from ringfence.local.jars import Coordinate
from ringfence.local.kafka import EmbeddedKafka

SERVER = (
    Coordinate("org.apache.kafka", "kafka_2.13", "3.9.1"),
    Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
_LOG4J = """
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m%n
"""


class OlderKafka(EmbeddedKafka):
    """The first start on a machine downloads it."""

    def __init__(self, data: Path, *more: Any, **settings: Any) -> None:
        log4j = data.parent / "log4j.properties"
        log4j.write_text(_LOG4J)
        super().__init__(data, *more, **settings, archive=(f"-Dlog4j.configuration=file:{log4j}",))

    def launch(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kafka, "KAFKA_SERVER", SERVER)
            super().launch()
