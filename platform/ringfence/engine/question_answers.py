"""Answers the questions of web processes (`requests.questions`) on a worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.db import DatabaseError

from ringfence import django_apps
from ringfence.engine.browsing import origins, records, topic_writers
from ringfence.engine.browsing.readers import Readers
from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import ExamineSource, ReadConfigKeys, ReadGuarantee
from ringfence.engine.preflight import report
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.preflight.validation import Modes, Validation
from ringfence.engine.queries import consumer_groups, hanging_transactions, share_groups, topic_tail
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.dead_letters import DeadLetters
from ringfence.engine.queries.previews import Previews
from ringfence.engine.queries.proofs import Proofs
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.requests import questions, topic_questions
from ringfence.requests.questions import Question
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of this worker process that commands and questions use."""

    commands: CommandService
    plugins: PluginHost
    config: WorkerConfig
    validation: Validation
    modes: Modes
    previews: Previews
    dead_letters: DeadLetters
    topics: TopicRules
    offsets: ConnectorOffsets
    proofs: Proofs
    readers: Readers


_EXAMINATION_SECONDS: Final = 22.0
"""For what `SourceConnector.examine` may take, and the start of a process."""

Asking = TypeVar("Asking", bound=Question[Any])
_ANSWERS: Final[dict[type[Question[Any]], Callable[[Any, Services, Deadline], object]]] = {}


def answer_to(question: Question[Any], services: Services, limit: Deadline) -> object:
    """Return the answer as a JSON value. Raises `Refusal` and `PluginError`."""
    return _ANSWERS[type(question)](question, services, limit)


def _answers(
    kind: type[Asking],
) -> Callable[[Callable[[Asking, Services, Deadline], object]], Callable[[Asking, Services, Deadline], object]]:
    def register(
        answer: Callable[[Asking, Services, Deadline], object],
    ) -> Callable[[Asking, Services, Deadline], object]:
        _ANSWERS[kind] = answer
        return answer

    return register


@_answers(questions.ListPlugins)
def _list_plugins(request: questions.ListPlugins, services: Services, limit: Deadline) -> object:
    return services.plugins.plugins(limit.slice(services.plugins.call_seconds))


@_answers(questions.ConfigKeys)
def _config_keys(request: questions.ConfigKeys, services: Services, limit: Deadline) -> object:
    timeout = limit.slice(services.plugins.call_seconds)
    return services.plugins.ask(ReadConfigKeys(request.plugin, common=request.common, version=request.version), timeout)


@_answers(questions.Validate)
def _validate(request: questions.Validate, services: Services, limit: Deadline) -> object:
    return services.validation.validate(
        request.plugin, request.config, limit, java=request.java, ask_brokers=request.ask_brokers
    )


@_answers(questions.Examine)
def _examine(request: questions.Examine, services: Services, limit: Deadline) -> object:
    services.plugins.check_permission(request.config.get("connector.class", "").strip(), limit, java=request.java)
    return services.plugins.ask(ExamineSource(request.config), limit.slice(_EXAMINATION_SECONDS))


@_answers(questions.DescribeGuarantee)
def _describe_guarantee(request: questions.DescribeGuarantee, services: Services, limit: Deadline) -> object:
    timeout = limit.slice(services.plugins.call_seconds)
    return services.plugins.ask(ReadGuarantee(request.config, exactly_once=services.config.mode == "enabled"), timeout)


@_answers(questions.ReadOffsets)
def _read_offsets(request: questions.ReadOffsets, services: Services, limit: Deadline) -> object:
    """Read a connector's offsets. If it has its own offsets topic, both topics are read and merged."""
    try:
        offsets = services.offsets.view(ConnectorName(request.connector), request.config, limit)
    except FencingError as error:
        raise Refusal(500, f"The offsets of connector {request.connector} cannot be read now: {error}") from error
    return [{"partition": each.partition, "offset": each.offset} for each in offsets]


@_answers(questions.Preflight)
def _preflight(request: questions.Preflight, services: Services, limit: Deadline) -> object:
    services.plugins.check_permission(request.config.get("connector.class", "").strip(), limit, java=request.java)

    def has_offsets(within: Deadline) -> bool | None:
        name = ConnectorName(request.config.get("name", ""))
        try:
            offsets = services.offsets.view(name, request.config, within)
        except FencingError:
            return None  # the finding reports it
        return any(each.offset is not None for each in offsets)

    checks = report.examine(
        request.config, services.config, services.plugins, limit, services.modes, has_offsets, _read_versions
    )
    return [check.as_json() for check in checks]


def _read_versions() -> dict[str, dict[str, list[str]]] | None:
    django_apps.load()
    from ringfence.history.worker_plugins import versions_by_worker

    try:
        return versions_by_worker()
    except DatabaseError:
        return None  # the finding reports it


@_answers(questions.DescribeTransactions)
def _describe_transactions(request: questions.DescribeTransactions, services: Services, limit: Deadline) -> object:
    configs = [request.config, *request.earlier]
    return hanging_transactions.describe(request.connector, request.tasks, configs, services.config, limit)


@_answers(questions.FindHanging)
def _find_hanging(request: questions.FindHanging, services: Services, limit: Deadline) -> object:
    return hanging_transactions.find(
        request.connector, request.tasks, request.configs, request.topics, services.config, limit
    )


@_answers(questions.ListShareGroups)
def _list_share_groups(request: questions.ListShareGroups, services: Services, limit: Deadline) -> object:
    return share_groups.list_all(services.config, limit)


@_answers(questions.DescribeShareGroup)
def _describe_share_group(request: questions.DescribeShareGroup, services: Services, limit: Deadline) -> object:
    """Describe a share group, with the stored state of its records, or with the effect of a requested change."""
    if request.act is not None:
        return share_groups.foresee(services.config, request.group, request.act, limit)
    group = share_groups.describe(services.config, request.group, limit)
    often = share_groups.delivery_limit_of({setting["name"]: setting["value"] for setting in group["settings"]})
    page = group["partitions"][request.skip : request.skip + share_groups.MOST_PARTITIONS]
    states = share_groups.find_states(services.config, request.group, page, often, limit)
    return {**group, "states": states, "skip": request.skip}


@_answers(questions.FindArchived)
def _find_archived(request: questions.FindArchived, services: Services, limit: Deadline) -> object:
    return share_groups.find_archived(services.config, request.group, limit)


@_answers(questions.ShareTimeline)
def _share_timeline(request: questions.ShareTimeline, services: Services, limit: Deadline) -> object:
    return share_groups.find_timeline(services.config, request.group, request.topic, request.partition, limit)


@_answers(questions.ReadLastRecords)
def _read_last_records(request: questions.ReadLastRecords, services: Services, limit: Deadline) -> object:
    access = services.topics.access(request.config.get("name", ""))
    return topic_tail.last_records(
        request.topic, request.config, services.config, access, limit, committed_only=request.committed_only
    )


@_answers(topic_questions.DescribeTopics)
def _describe_topics(request: topic_questions.DescribeTopics, services: Services, limit: Deadline) -> object:
    return topic_writers.describe_topics(request, services.config, services.topics, limit)


@_answers(topic_questions.ReadRecords)
def _read_records(request: topic_questions.ReadRecords, services: Services, limit: Deadline) -> object:
    return records.read_records(request, services.config, services.topics, services.readers, limit)


@_answers(topic_questions.FindOrigin)
def _find_origin(request: topic_questions.FindOrigin, services: Services, limit: Deadline) -> object:
    return origins.find_origin(request, services.config, services.topics, services.offsets, limit)


@_answers(topic_questions.FindRecords)
def _find_records(request: topic_questions.FindRecords, services: Services, limit: Deadline) -> object:
    return origins.find_records_of(request, services.config, services.offsets, limit)


@_answers(topic_questions.ListConsumerGroups)
def _list_consumer_groups(request: topic_questions.ListConsumerGroups, services: Services, limit: Deadline) -> object:
    return consumer_groups.list_all(request, services.config, services.topics, limit)


@_answers(topic_questions.DescribeConsumerGroup)
def _describe_consumer_group(
    request: topic_questions.DescribeConsumerGroup, services: Services, limit: Deadline
) -> object:
    return consumer_groups.describe(request, services.config, services.topics, limit)


@_answers(questions.ListDeadLetters)
def _list_dead_letters(request: questions.ListDeadLetters, services: Services, limit: Deadline) -> object:
    before = None if request.before is None else {edge[0]: edge[1] for edge in request.before}
    return services.dead_letters.page(
        request.config, request.stage, request.by, before, limit, committed_only=request.committed_only
    )


@_answers(questions.ReplayDeadLetters)
def _replay_dead_letters(request: questions.ReplayDeadLetters, services: Services, limit: Deadline) -> object:
    return services.dead_letters.replay(request.config, request.chosen, request.told, request.secret, limit)


@_answers(questions.StartProof)
def _start_proof(request: questions.StartProof, services: Services, limit: Deadline) -> object:
    return services.proofs.start(request)


@_answers(questions.Preview)
def _preview(request: questions.Preview, services: Services, limit: Deadline) -> object:
    services.plugins.check_permission(request.config.get("connector.class", "").strip(), limit, java=request.java)
    return services.previews.preview(request.config, request.secret, request.bounds, limit, fresh=request.fresh)


@_answers(questions.TryTransforms)
def _try_transforms(request: questions.TryTransforms, services: Services, limit: Deadline) -> object:
    services.plugins.check_permission(request.config.get("connector.class", "").strip(), limit, java=request.java)
    return services.previews.try_transforms(request.config, request.record, request.secret, limit)
