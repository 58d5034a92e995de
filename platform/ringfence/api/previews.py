"""The first records of a configuration, and a sample record through its transforms, for pages and REST.

These require the permission to edit the connector, because plugin code runs on a worker, with access to everything that
the worker can reach.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from ringfence import dispatch
from ringfence.api.jsonbody import check_size
from ringfence.engine.questions import Preview, TryTransforms
from ringfence.http.errors import ConnectError, bad_request
from ringfence.http.masking import Masker

RECORDS, MOST_RECORDS = 10, 50
SECONDS, MOST_SECONDS = 5.0, 15.0
MOST_BYTES = 1_000_000

Settings = Mapping[str, str]


def preview(
    config: Settings,
    *,
    records: int = RECORDS,
    seconds: float = SECONDS,
    fresh: bool = False,
    java: bool,
    may_see: Callable[[str], bool] = lambda _: True,
) -> dict[str, Any]:
    """Return `tasks`, `records`, `polls`, `ended`, `note`, `took_ms`, `from`; see `engine.queries.previews`. Nothing is
    committed.

    config: complete, with its name and without masks. Raises a 409 while a connector that may run reads the same
    source, with its name if `may_see` allows it. java: whether Java plugins are permitted.
    """
    if not 1 <= records <= MOST_RECORDS:
        raise bad_request(f"records must be from 1 to {MOST_RECORDS}.")
    if not 0 < seconds <= MOST_SECONDS:
        raise bad_request(f"seconds must be above 0 and at most {MOST_SECONDS:g}.")
    masker = _masker(config)
    bounds = {"records": records, "bytes": MOST_BYTES, "seconds": seconds}
    answer = dispatch.ask(Preview(config, _secret(masker, config), bounds, fresh, java), seconds + 35.0)
    if busy := answer.get("busy"):
        raise ConnectError(409, _busy(str(busy), config["name"], may_see))
    return cast(dict[str, Any], _scrub(answer, lambda text: masker.scrub(text, config)))


def try_transforms(config: Settings, record: Mapping[str, Any], *, java: bool) -> dict[str, Any]:
    """Return `before`, `steps`, `outcome`, `written`, `error`; see `engine.plugins.transform_trial`.

    java: as for `preview`.
    """
    masker = _masker(config)
    answer = dispatch.ask(TryTransforms(config, record, _secret(masker, config), java))
    return cast(dict[str, Any], _scrub(answer, lambda text: masker.scrub(text, config)))


def _masker(config: Settings) -> Masker:
    check_size(config)
    class_name = config.get("connector.class", "").strip()
    if not class_name:
        raise bad_request("connector.class is required: it names the plugin to ask.")
    return Masker([class_name])


def _secret(masker: Masker, config: Settings) -> list[str]:
    """Return the settings whose values the plugin process hides, in addition to the plugin's own passwords."""
    class_name = config["connector.class"].strip()
    return sorted(key for key in config if masker.secret(class_name, key))


def _busy(rival: str, name: str, may_see: Callable[[str], bool]) -> str:
    if rival == name:
        return (
            f"Connector {name} runs, or may start: a preview would read its source beside its tasks. Stop it, try "
            "again, then resume it. Its latest records are in its topics."
        )
    who = f"Connector {rival}" if may_see(rival) else "Another connector"
    return (
        f"{who} reads the same source and is not stopped: a preview would compete with its tasks. Stop it, try again, "
        "then resume it; or preview other settings."
    )


def _scrub(value: object, scrub: Callable[[str], str]) -> object:
    """Hide secrets that only the settings' names reveal. The plugin process has already hidden all that it knows."""
    match value:
        case str():
            return scrub(value)
        case dict():
            return {key: _scrub(item, scrub) for key, item in value.items()}
        case list():
            return [_scrub(item, scrub) for item in value]
        case _:
            return value
