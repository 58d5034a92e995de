"""The Celery tasks: commands for the leader, questions for the plugin process. Never a source task's body."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from ringfence import redis_clock
from ringfence.celery import app
from ringfence.engine.leader.command_refused import CommandRefused
from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import BadRequest, PluginError, UnknownPlugin
from ringfence.engine.plugins.java_permission import check_permission
from ringfence.engine.preflight import client_overrides, report, topic_rules, validation_errors
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.preflight.validation_errors import Asked, Modes, ValidationErrors
from ringfence.engine.queries import hanging_transactions, share_groups, share_state, topic_tail, transactional_ids
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.dead_letters import DeadLetters
from ringfence.engine.queries.previews import Previews
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.worker_config import WorkerConfig


@dataclass(frozen=True, slots=True)
class Services:
    """What the tasks of this worker process call."""

    commands: CommandService
    plugins: PluginHost
    config: WorkerConfig
    refusals: ValidationErrors
    modes: Modes
    previews: Previews
    dead_letters: DeadLetters
    topics: TopicRules
    offsets: ConnectorOffsets


_Answer = Callable[..., dict[str, object]]
task: Callable[..., Callable[[_Answer], _Answer]] = app.task  # Celery's decorator has no types

_services: list[Services] = []


def provide(services: Services) -> None:
    """Called once, before Celery takes its first task."""
    _services[:] = [services]


def _current() -> Services:
    if not _services:
        raise CommandRefused(503, "This worker is starting. Send the request again", passing=True)
    return _services[0]


@task(name="ringfence.leader.command")
def command(command: dict[str, Any], deadline: float) -> dict[str, object]:
    """Carry out a command, if its deadline has not passed."""
    return _answer(lambda: _current().commands.execute(command, _limit(deadline)))


@task(name="ringfence.plugins.list")
def plugins_list(deadline: float) -> dict[str, object]:
    """Every connector that is installed."""

    def call() -> dict[str, object]:
        _in_time(deadline)
        return _value(_current().plugins.plugins())

    return _answer(call)


@task(name="ringfence.plugins.config_keys")
def plugins_config_keys(
    plugin: str, deadline: float, common: bool = False, version: str | None = None
) -> dict[str, object]:
    """The key infos of one plugin; with `common`, those of all source connectors, too."""

    def call() -> dict[str, object]:
        _in_time(deadline)
        return _value(_current().plugins.config_keys(plugin, common=common, version=version))

    return _answer(call)


@task(name="ringfence.plugins.validate")
def plugins_validate(
    plugin: str, config: dict[str, str | None], deadline: float, ask_brokers: bool = True, java: bool = False
) -> dict[str, object]:
    """Kafka Connect's validation object. `ask_brokers`: with what preflight is certain of (`engine.refusals`). `java`:
    whether whoever asks may use Java plugins.
    """

    def call() -> dict[str, object]:
        services = _current()
        limit = _in_time(deadline)
        for name in {plugin, (config.get("connector.class") or plugin).strip()}:
            check_permission(services.plugins, name, java=java)
        given = {name: value for name, value in config.items() if value is not None}
        asked = services.refusals.ask(given, limit) if ask_brokers else Asked()
        exactly_once = services.config.mode == "enabled"
        found = services.plugins.validate(
            plugin, config, limit.slice(services.plugins.call_seconds), exactly_once=exactly_once
        )
        found = client_overrides.add_to(found, config, services.config)
        found = topic_rules.add_to(found, services.topics.errors_of(given))
        return _value(validation_errors.add_to(found, asked.within(limit.slice(validation_errors.PATIENCE_SECONDS))))

    return _answer(call)


@task(name="ringfence.plugins.offsets")
def plugins_offsets(connector: str, config: dict[str, str], deadline: float) -> dict[str, object]:
    """The committed offsets of a connector that may keep them in a topic of its own: both topics, merged."""

    def call() -> dict[str, object]:
        try:
            found = _current().offsets.view(ConnectorName(connector), config, _in_time(deadline))
        except FencingError as error:
            raise CommandRefused(500, f"The offsets of connector {connector} cannot be read now: {error}") from error
        return _value([{"partition": each.partition, "offset": each.offset} for each in found])

    return _answer(call)


@task(name="ringfence.plugins.preflight")
def plugins_preflight(config: dict[str, str], deadline: float, java: bool = False) -> dict[str, object]:
    """The preflight checks of a configuration. `java`: see `plugins_validate`."""

    def call() -> dict[str, object]:
        services = _current()
        limit = _in_time(deadline)
        check_permission(services.plugins, config.get("connector.class", "").strip(), java=java)

        def has_offsets(within: Deadline) -> bool | None:
            try:
                found = services.offsets.view(ConnectorName(config.get("name", "")), config, within)
            except FencingError:
                return None  # the finding says so
            return any(each.offset is not None for each in found)

        checks = report.examine(config, services.config, services.plugins, limit, services.modes, has_offsets)
        return _value([check.as_json() for check in checks])

    return _answer(call)


@task(name="ringfence.plugins.transactions")
def plugins_transactions(
    connector: str, tasks: int, config: dict[str, str], deadline: float, earlier: Sequence[dict[str, str]] = ()
) -> dict[str, object]:
    """What the coordinators know of a connector's transactional ids (KIP-664)."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        return _value(transactional_ids.describe(connector, tasks, [config, *earlier], _current().config, limit))

    return _answer(call)


@task(name="ringfence.plugins.hanging")
def plugins_hanging(
    connector: str, tasks: int, configs: list[dict[str, str]], topics: list[str], deadline: float
) -> dict[str, object]:
    """Transactions on a connector's topics that no coordinator knows (KIP-664)."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        return _value(hanging_transactions.find(connector, tasks, configs, topics, _current().config, limit))

    return _answer(call)


@task(name="ringfence.plugins.share_groups")
def plugins_share_groups(deadline: float) -> dict[str, object]:
    """The cluster's share groups (`engine.queries.share_groups`)."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        return _value(share_groups.list_all(_current().config, limit))

    return _answer(call)


@task(name="ringfence.plugins.share_group")
def plugins_share_group(group: str, act: dict[str, Any] | None, deadline: float) -> dict[str, object]:
    """One share group with what is persisted of its records, or what an act on it would do."""

    def call() -> dict[str, object]:
        limit, config = _in_time(deadline), _current().config
        if act is not None:
            return _value(share_groups.foresee(config, group, act, limit))
        found = share_groups.describe(config, group, limit)
        often = share_state.delivery_limit_of({each["name"]: each["value"] for each in found["settings"]})
        return _value({**found, "states": share_state.find_states(config, group, found["partitions"], often, limit)})

    return _answer(call)


@task(name="ringfence.plugins.share_timeline")
def plugins_share_timeline(group: str, topic: str, partition: int, deadline: float) -> dict[str, object]:
    """What `__share_group_state` tells of one share-partition, step by step."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        return _value(share_state.find_timeline(_current().config, group, topic, partition, limit))

    return _answer(call)


@task(name="ringfence.plugins.last_records")
def plugins_last_records(
    topic: str, config: dict[str, str], committed_only: bool, deadline: float
) -> dict[str, object]:
    """The last records of a topic, keys and values cut and in Base64 (`engine.topic_tail`)."""

    def call() -> dict[str, object]:
        services, limit = _current(), _in_time(deadline)
        access = services.topics.access(config.get("name", ""))
        found = topic_tail.last_records(topic, config, services.config, access, limit, committed_only=committed_only)
        return _value(found)

    return _answer(call)


@task(name="ringfence.plugins.dead_letters")
def plugins_dead_letters(
    config: dict[str, str],
    stage: str,
    by: str,
    before: Sequence[Sequence[int]] | None,
    committed_only: bool,
    deadline: float,
) -> dict[str, object]:
    """A page of a connector's dead letters (`engine.dead_letters`)."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        older = None if before is None else {each[0]: each[1] for each in before}
        letters = _current().dead_letters
        return _value(letters.page(config, stage, by, older, limit, committed_only=committed_only))

    return _answer(call)


@task(name="ringfence.plugins.replay")
def plugins_replay(
    config: dict[str, str], chosen: dict[str, Any], told: dict[str, str], secret: list[str], deadline: float
) -> dict[str, object]:
    """Dead letters taken again, exactly once (`engine.dead_letters`)."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        return _value(_current().dead_letters.replay(config, chosen, told, secret, limit))

    return _answer(call)


@task(name="ringfence.plugins.preview")
def plugins_preview(
    config: dict[str, str],
    secret: list[str],
    bounds: dict[str, float],
    fresh: bool,
    deadline: float,
    java: bool = False,
) -> dict[str, object]:
    """The first records of a configuration that no task runs (`engine.previews`). `java`: see `plugins_validate`."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        check_permission(_current().plugins, config.get("connector.class", "").strip(), java=java)
        return _value(_current().previews.preview(config, secret, bounds, limit, fresh=fresh))

    return _answer(call)


@task(name="ringfence.plugins.try_transforms")
def plugins_try_transforms(
    config: dict[str, str], record: dict[str, Any], secret: list[str], deadline: float
) -> dict[str, object]:
    """What the transforms and converters of a configuration make of a sample record."""

    def call() -> dict[str, object]:
        limit = _in_time(deadline)
        return _value(_current().previews.try_transforms(config, record, secret, limit))

    return _answer(call)


def _limit(deadline: float) -> Deadline:
    """What is left of a deadline on Redis' clock. Raises Refusal where Redis cannot be asked."""
    try:
        return Deadline.after(deadline - redis_clock.now())
    except RedisError as error:
        words = f"Redis does not answer ({type(error).__name__}), so that nobody knows whether this is wanted still"
        raise CommandRefused(503, f"{words}: nothing was changed. Send it again", passing=True) from error


def _in_time(deadline: float) -> Deadline:
    """The same for what is worth nothing once its sender has stopped waiting."""
    limit = _limit(deadline)
    if limit.expired:
        raise CommandRefused(500, "Request timed out before a worker got to it: nothing was done. Send it again")
    return limit


def _value(value: object) -> dict[str, object]:
    return {"ok": True, "value": value}


def _answer(call: Callable[[], dict[str, object]]) -> dict[str, object]:
    try:
        return call()
    except CommandRefused as refusal:
        return refusal.answer()
    except UnknownPlugin as error:
        return CommandRefused(404, error.message).answer()
    except BadRequest as error:
        return CommandRefused(400, error.message).answer()
    except PluginError as error:
        return CommandRefused(500, error.message).answer()
