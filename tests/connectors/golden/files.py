"""The golden files: cases, and what the classes of the real Kafka Connect made of them. `make golden` writes them."""

import gzip
import json
from pathlib import Path

from tests.connectors.golden.codec import Json

FOLDER = Path(__file__).resolve().parent


def load(name: str) -> list[Json]:
    """The golden cases of that file, with the answers."""
    cases: list[Json] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return cases
