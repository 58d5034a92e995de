"""docker-compose.yml as its tests see it: merge keys resolved, variables filled in where asked."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NewType

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = "ringfence:local"
_VARIABLE: Final = re.compile(r"\$\{(\w+)(:\?[^}]*)?\}")

Service = NewType("Service", dict[str, Any])


def load() -> dict[str, Any]:
    """The whole file."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return found


def services() -> dict[str, Service]:
    return {name: Service(service) for name, service in load()["services"].items()}


def variables(text: str) -> list[tuple[str, str]]:
    """Each `${NAME:?words}` in a string: the name, and the words with their mark, "" without any."""
    return [(found[1], found[2] or "") for found in _VARIABLE.finditer(text)]


def filled(text: str, values: Mapping[str, str] | None = None) -> str:
    """With its value for each variable, `x` where none is given."""
    return _VARIABLE.sub(lambda found: (values or {}).get(found[1], "x"), text).replace("$$", "$")


def command(service: Service) -> list[str]:
    """What runs in the container of our image."""
    return [*service.get("entrypoint", ["ringfence"]), *service.get("command", [])]


def option(words: list[str], name: str) -> str:
    """The value of `--name` in a command."""
    return words[words.index(name) + 1]


def networks(service: Service) -> dict[str, list[str]]:
    """The networks of a service, each with its further names there."""
    found = service.get("networks", [])
    return {name: (found[name] or {}).get("aliases", []) if isinstance(found, dict) else [] for name in found}


def kafka_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The broker's settings, as Kafka's image makes them of its variables: `___` means `-`, `__` `_`, and `_` a dot."""
    return {
        key.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for key, value in environment.items()
        if key.startswith("KAFKA_")
    }
