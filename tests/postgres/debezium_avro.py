"""The same changes with Avro: Debezium with Apicurio's converter, whose code for schemas is Confluent's.

`python -m tests.postgres.debezium_avro` writes what a run of it gave to the file that the quick test compares with.
"""

import base64
import io
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import fastavro
import requests

from ringfence.local.jars import Coordinate
from tests.postgres import debezium
from tests.postgres.comparison import Comparable
from tests.support.apicurio import Apicurio

CONVERTER: Final = Coordinate("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final")
KEPT: Final = Path(__file__).with_name("debezium-avro.json.gz")


def run(root: Path) -> list[Comparable]:
    """Debezium's records of all changes, by topic."""
    registry = Apicurio(root / "registry")
    registry.start()
    try:
        return debezium.run(root, converters_of_debezium(registry), [CONVERTER], Reader(registry).load)
    finally:
        registry.kill()


def converters_of_debezium(registry: Apicurio) -> dict[str, str]:
    """Settings of Debezium's connector, with Apicurio's converters."""
    return _with_converter(
        {
            "": "io.apicurio.registry.utils.converter.AvroConverter",
            ".apicurio.registry.url": registry.own_api,
            ".apicurio.registry.auto-register": "true",
            ".apicurio.registry.headers.enabled": "false",
            ".apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
            ".apicurio.registry.use-id": "contentId",
        }
    )


def settings_of(registry: Apicurio) -> dict[str, str]:
    """Of our connector."""
    return _with_converter({"": "io.confluent.connect.avro.AvroConverter", ".schema.registry.url": registry.url})


def _with_converter(own: dict[str, str]) -> dict[str, str]:
    converters = {f"{kind}.converter{name}": value for kind in ("key", "value") for name, value in own.items()}
    return {**debezium.SETTINGS, **converters}


class Reader:
    """Reads what either has written, by the schema that it has registered."""

    def __init__(self, registry: Apicurio) -> None:
        self._registry = registry
        self._schemas: dict[int, tuple[str, Any]] = {}

    def load(self, raw: bytes, prefix: str) -> Any:
        """See `comparison.Load`."""
        assert raw[0] == 0
        number = int.from_bytes(raw[1:5], "big")
        if number not in self._schemas:
            answer = requests.get(f"{self._registry.own_api}/ids/contentIds/{number}", timeout=30)
            assert answer.ok, answer.text
            text = answer.text
            self._schemas[number] = text, fastavro.parse_schema(json.loads(text))
        text, parsed = self._schemas[number]
        payload = fastavro.schemaless_reader(io.BytesIO(raw[5:]), parsed, None)
        shown = json.dumps({"schema": json.loads(text), "payload": payload}, default=_as_text)
        return json.loads(shown.replace(prefix, "PREFIX"))


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        debezium.keep(run(Path(folder)), KEPT)
