"""Changes by API and pages: validated here as in Kafka Connect, and carried out by the leader."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ringfence import after_answer, dispatch
from ringfence.access.principal import Principal, Verb
from ringfence.api import connector_reads, topic_grant_check
from ringfence.api.base import check_size, object_of, plain, text_of
from ringfence.connectors.api import ConfigException
from ringfence.connectors.common_settings import is_connector_name
from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands import Configure, ConfigureTogether, Create
from ringfence.engine.leader.commands.offsets import OffsetEntry
from ringfence.engine.leader.commands.saving import CreationResult, SavedOne, validation_result
from ringfence.engine.questions import Validate
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import canonical
from ringfence.fencing.topics.topic_grants import TopicGrantRecord, limits
from ringfence.history import versions
from ringfence.http.errors import ConnectError, bad_request, invalid_config
from ringfence.http.masking import Masker, remember, unmask
from ringfence.projection.models import find_connector
from ringfence.read_your_writes import answered
from ringfence.requests.quota import NO_LIMITS

INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")
_PATCH_ATTEMPTS = 3
_LONG = 1 << 63
_SHOWN_DIGITS = 40


def with_name(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration including the connector's name. Raises a 400 if it contains another name or the name is
    invalid.
    """
    config_name = config.get("name", name)
    if name not in (config_name, config_name.strip()):
        raise bad_request(
            f"Connector name configuration ({config_name}) doesn't match connector name in the URL ({name})"
        )
    try:
        is_connector_name("name", name.strip())
    except ConfigException as error:
        raise invalid_config([str(error)]) from error
    return {**config, "name": name}


def check(config: dict[str, str], by: Principal) -> None:
    """Check what needs no plugin. Raises a 400 for a configuration without a class, and a 403 if it names topics that
    `by` may not have the connector write to.
    """
    check_size(config)
    for text in topic_grant_check.errors_of(config, by).values():
        raise ConnectError(403, text)
    if not config.get("connector.class", "").strip():
        config_text = ", ".join(f"{key}={value}" for key, value in Masker().mask(config, "").items())
        raise bad_request(f"Connector config {{{config_text}}} contains no connector type")


def validate(config: dict[str, str], by: Principal) -> None:
    """Validate without saving. Raises what saving it would raise, as far as that is known before."""
    check(config, by)
    class_name = config["connector.class"].strip()
    try:
        validation = dispatch.ask(Validate(class_name, config, java=by.may(Verb.JAVA_PLUGINS, config["name"])))
    except Refusal as refused:
        if refused.status == 404:
            raise bad_request(refused.message) from refused  # the class is unknown, not the path
        raise
    _refuse_invalid(validation_result(validation), config)


def _refuse_invalid(result: CreationResult, config: Mapping[str, str]) -> None:
    class_name = config["connector.class"].strip()
    remember(class_name, result["secrets"])
    if invalid := result.get("invalid"):
        masker = Masker([class_name])
        raise invalid_config([masker.scrub(error, config) for error in invalid["errors"]], invalid["count"])


def remember_secrets(class_name: str, validation: Mapping[str, Any]) -> None:
    """Remember which settings the plugin declares as secret, by the class name that configurations use."""
    remember(class_name, validation_result(dict(validation))["secrets"])


def read_stored_settings(name: str) -> dict[str, str]:
    """Return the unmasked configuration, {} if there is none, to replace masks."""
    row = find_connector(name)
    return row.settings if row else {}


@dataclass(frozen=True, slots=True)
class Saved:
    """A configuration in the config topic, and how many tasks the connector has. created: whether it is new."""

    name: str
    config: Mapping[str, str]
    tasks: int
    created: bool


_Saving = TypeVar("_Saving", bound=Create | Configure)


def _limit(command: _Saving, by: Principal) -> _Saving:
    """Return the command with the quota of `by`, and the topics that the connector may write to. Raises as `check`."""
    check(dict(command.config), by)
    name = command.connector
    token = limits([by.ceiling.topics])
    grant = TopicGrantRecord(ConnectorName(name), by.topics(Verb.EDIT, name), by.account, token)
    quota = by.quota(name)
    return replace(
        command,
        topic_grant=grant.to_value() if by.account else None,
        quota=None if quota == NO_LIMITS else quota.to_fields(),
        java=by.may(Verb.JAVA_PLUGINS, name),
    )


def _write(command: Create | Configure, by: Principal, *, await_rows: bool) -> Saved:
    """Have a configuration validated and written, with the topics that `by` may have it write to, and record the
    author of the version. Raises a 400 in Kafka Connect's words if it is invalid.

    await_rows: as in `dispatch.command`.
    """
    limited = _limit(command, by)
    name = command.connector
    before = versions.newest_offset(name)
    result = dispatch.command(limited, user=by.name, await_rows=await_rows)
    _refuse_invalid(result.value, command.config)

    record_author = partial(_record_authors, by, {name: before}, result.offset)
    if await_rows:
        record_author()
    elif by.name:
        after_answer.do(by.name, record_author)
    return Saved(name, command.config, result.value["tasks"], result.value["created"])


def _record_authors(by: Principal, before: Mapping[str, int], offset: int | None) -> None:
    """Record whose versions were written, once their rows are there. before: each connector's newest offset until then;
    offset: of the write.
    """
    answered.settle(by.name)
    for name, newest in before.items():
        versions.record_author(name, by.name, newest, offset)


def create(
    name: str, config: Mapping[str, str], initial_state: str, by: Principal, *, await_rows: bool = True
) -> Saved:
    """Create a connector. initial_state: one of INITIAL_STATES; await_rows: as in `dispatch.command`."""
    complete = with_name(name, unmask(config, {}))
    return _write(Create(name, complete, initial_state=initial_state), by, await_rows=await_rows)


def configure(
    name: str, config: Mapping[str, str], by: Principal, expected: int | None = None, *, await_rows: bool = True
) -> Saved:
    """Set a configuration, creating the connector if it is missing.

    expected: the config offset to replace. If there is a newer one, raises a 409, and creates nothing. await_rows: as
    in `dispatch.command`.
    """
    complete = with_name(name, unmask(config, read_stored_settings(name)))
    return _write(Configure(name, complete, create=expected is None, expected=expected), by, await_rows=await_rows)


def configure_together(
    configs: Mapping[str, Mapping[str, str]], by: Principal, seconds: float
) -> Mapping[str, Saved | Refusal | ConnectError]:
    """Set the configurations of several connectors by one command, creating those that are missing. Return what became
    of each.

    configs: complete, by name. seconds: how long to wait for the leader.
    """
    outcomes: dict[str, Saved | Refusal | ConnectError] = {}
    commands: list[Configure] = []
    for name, config in configs.items():
        try:
            commands.append(_limit(Configure(name, with_name(name, config), create=True), by))
        except ConnectError as error:
            outcomes[name] = error
    if not commands:
        return outcomes
    before = {each.connector: versions.newest_offset(each.connector) for each in commands}
    try:
        request = ConfigureTogether([each.to_wire() for each in commands])
        result = dispatch.command(request, timeout=seconds, user=by.name, await_rows=False)
    except Refusal as refusal:
        return {**outcomes, **{each.connector: refusal for each in commands}}
    for command, one in zip(commands, result.value, strict=True):
        outcomes[command.connector] = _read_outcome(command, one)

    if by.name:
        after_answer.do(by.name, partial(_record_authors, by, before, result.offset))
    return outcomes


def _read_outcome(command: Configure, one: SavedOne) -> Saved | Refusal | ConnectError:
    if "refused" in one:
        return Refusal.parse(one["refused"])
    answer = one["saved"]
    try:
        _refuse_invalid(answer, command.config)
    except ConnectError as error:
        return error
    return Saved(command.connector, command.config, answer["tasks"], answer["created"])


def patch_config(name: str, patch: Mapping[str, object], by: Principal) -> Saved:
    """Merge into the configuration; null removes a key. Retried if another change intervenes (KIP-477)."""
    attempt = 0
    while True:
        attempt += 1
        row = connector_reads.connector(name)
        merged = dict(row.settings)
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = text_of(value, key)
        complete = with_name(name, unmask(merged, row.settings))
        try:
            return _write(Configure(name, complete, create=False, expected=row.config_offset), by, await_rows=False)
        except Refusal as refused:
            if refused.status != 409 or attempt == _PATCH_ATTEMPTS:
                raise
        answered.settle(by.name)


def restart_plan(name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]:
    """Return the status, with everything that a restart will affect shown as RESTARTING (KIP-745)."""
    body = connector_reads.status_of(name)
    if not only_failed or body["connector"]["state"] == "FAILED":
        body["connector"] = {**body["connector"], "state": "RESTARTING"}
    if include_tasks:
        body["tasks"] = [
            {**task, "state": "RESTARTING"} if not only_failed or task["state"] == "FAILED" else task
            for task in body["tasks"]
        ]
    return body


def offsets_of(body: object) -> list[OffsetEntry]:
    """Parse a PATCH of offsets: {"partition": {…}, "offset": {…} or null}; a missing offset deletes."""
    entries = object_of(body, "The request body").get("offsets")
    if not isinstance(entries, list) or not entries:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    result: list[OffsetEntry] = []
    for entry in entries:
        item = object_of(entry, "Each entry of offsets")
        partition = object_of(item.get("partition"), "The partition of each entry")
        offset = item.get("offset")
        if offset is not None:
            offset = object_of(offset, "The offset of each entry")
        for numbers in (partition, offset or {}):
            _check_numbers(numbers)
        result.append({"partition": _plain(partition), "offset": None if offset is None else _plain(offset)})
    return result


def _plain(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: plain(value) for name, value in fields.items()}


def last_of_each(entries: Iterable[OffsetEntry]) -> list[OffsetEntry]:
    """Return the last of several entries for one source partition, as Kafka Connect does."""
    return list({canonical(entry["partition"]): entry for entry in entries}.values())


def _check_numbers(fields: Mapping[str, object]) -> None:
    """Refuse numbers that no reader of the offsets topic could read as a long or a double."""
    for name, value in fields.items():
        number = plain(value)
        if isinstance(number, int) and not -_LONG <= number < _LONG:
            reason = f"{_shorten(value)}, which is beyond a long (64 bits)"
        elif isinstance(number, float) and not math.isfinite(number):
            reason = f"{_shorten(value)}, which is beyond a double"
        else:
            continue
        raise bad_request(f"Offsets may only contain primitive types as values, but field {name} contains {reason}.")


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN_DIGITS else f"{text[:_SHOWN_DIGITS]}…"


def mask_validation(validation: dict[str, Any], class_name: str, config: Mapping[str, str]) -> dict[str, Any]:
    """Mask secret values, and errors that quote them, in a validation's answer."""
    masker = Masker([class_name])
    for entry in validation.get("configs", []):
        value = entry["value"]
        if value.get("value") is not None:
            key = str(value.get("name", ""))
            value["value"] = masker.mask({key: str(value["value"])}, class_name)[key]
        value["errors"] = [masker.scrub(str(error), config) for error in value.get("errors", [])]
    return validation
