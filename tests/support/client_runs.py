"""The command line client in this process: what it prints, and its contexts."""

import json
from pathlib import Path
from typing import Any

import pytest

CONFIG = {"connector.class": "VerifiableSource", "topic": "t"}


Captured = pytest.CaptureFixture[str]


def write(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)
