"""The cases that Kafka Connect itself has answered."""

from ringfence.connectors.api import ConfigDef
from tests.connectors.golden.codec import Json


def name_of(case: Json) -> str:
    return str(case["class"]).rpartition(".")[2]


def by_name(keys: list[Json]) -> dict[str, Json]:
    return {key["name"]: key for key in keys}


def shown(keys: ConfigDef) -> list[Json]:
    names = {"default_value": "default"}
    wanted = ("name", "type", "required", "default_value", "importance")
    return [{names.get(name, name): info[name] for name in wanted} for info in keys.infos()]
