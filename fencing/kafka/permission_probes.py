"""Finds a principal's permissions, and the holders of transactional ids, without changing the cluster.

`init_transactions` would show the permissions, but it fences the running task. So each write request has a producer id
that brokers never assign: the broker checks the permission first, and then refuses the producer.

Any broker can answer: if it does not coordinate the id, it also checks the permission before it says so.
"""

import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from kafka.errors import (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)
from kafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest, DescribeTransactionsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.client_pool import login_refused
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient


class Permission(StrEnum):
    """Whether a principal may do something."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class IdHolder:
    """The coordinator's description of a transactional id. state: Kafka's name; "" if the id is unknown."""

    state: str = ""
    producer_id: int = -1
    epoch: int = -1

    @property
    def open(self) -> bool:
        """Whether a transaction is open, or is ending."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class TopicRights:
    """A topic as a principal sees it. exists: None if the principal may not know.

    replicas: the maximum over its partitions; 0 if unknown.
    """

    exists: bool | None
    read: Permission = Permission.UNKNOWN
    write: Permission = Permission.UNKNOWN
    describe: Permission = Permission.UNKNOWN
    replicas: int = 0


_P = ParamSpec("_P")
_T = TypeVar("_T")

MOVING: Final = frozenset({14, 15, 16})
"""Kafka's codes: the coordinator is loading its partition, is not available, or is another broker."""

_SECONDS: Final = 5.0
_BACKOFF: Final = Backoff(0.05, 0.5)


class NoCoordinator(Retriable):
    """The broker is not the group's coordinator, or not yet. It has done nothing."""


def await_coordinator(ask: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap `ask` so that it is repeated after `NoCoordinator`, for at most five seconds; then that error is raised."""

    @wraps(ask)
    def repeat(*args: _P.args, **more: _P.kwargs) -> _T:
        limit = Deadline.after(_SECONDS)
        for failures in itertools.count(1):
            try:
                return ask(*args, **more)
            except NoCoordinator:
                if limit.expired:
                    raise
            time.sleep(_BACKOFF.pause(failures))
        raise AssertionError("unreachable")

    return repeat


OLDEST_BROKER: Final = (2, 8)
"""Older brokers lack versions of Produce, AddPartitionsToTxn and EndTxn that our producer sends
(`fencing/transactions/messages.py`).
"""
NOBODYS_PRODUCER: Final = 2**63 - 1
"""A producer id that is never assigned: brokers count from 0."""

_TOPIC_DENIED, _CLUSTER_DENIED, _ID_DENIED, _UNKNOWN_TOPIC, _NOT_ATTEMPTED, _UNKNOWN_ID = 29, 31, 53, 3, 55, 105
# The coordinator is loading, unavailable or another broker; the producer id does not belong to the transactional id.
_CHECKED_AND_REFUSED: Final = frozenset({*MOVING, 49})
_DESCRIBE_GRANTS: Final = frozenset({0, _UNKNOWN_ID, *MOVING})
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 0.0)
_IN_FLIGHT: Final = 1000
_ASKED_MS: Final = 5000
_BOOTSTRAP_MS: Final = 3000
_READ, _WRITE, _DESCRIBE = 3, 4, 8
_BROKER, _TOPIC = 4, 2
_FIND_VERSION: Final = 3


_K = TypeVar("_K")


Answers = dict[object, object]
"""What a prober has found out, by the question."""


def coordinator_request(transactional_id: str) -> FindCoordinatorRequest:
    """Return the request for the id's coordinator."""
    return FindCoordinatorRequest(
        key=transactional_id, key_type=CoordinatorType.TRANSACTION.value, max_version=_FIND_VERSION, min_version=1
    )


def _end_nothing(transactional_id: str) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=NOBODYS_PRODUCER,
        producer_epoch=0,
        committed=False,
        max_version=3,
    )


def _describe_request(transactional_id: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=[transactional_id])


def _may(code: int, denial: int, grants: frozenset[int] = _CHECKED_AND_REFUSED) -> Permission:
    if code == denial:
        return Permission.NO
    return Permission.YES if code in grants else Permission.UNKNOWN


def _once(
    ask: "Callable[Concatenate[Prober, _P], _T]",
) -> "Callable[Concatenate[Prober, _P], _T]":
    """Answer an equal question again without the brokers, within `Prober.remembering`."""

    @wraps(ask)
    def answer(self: "Prober", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self._answers is None:
            return ask(self, *args, **kwargs)
        question = (ask.__name__, repr(args), repr(kwargs))
        if question not in self._answers:
            self._answers[question] = ask(self, *args, **kwargs)
        return self._answers[question]  # type: ignore[return-value]  # of the same question

    return answer


class Prober:
    """Probes with one principal, as a context manager. Raises `Retriable` (no answer) and `Fatal` (login refused)."""

    def __init__(self, connection: Connection) -> None:
        self._where = connection.bootstrap
        self._answers: Answers | None = None
        self._nodes_of_ids: dict[str, int] = {}
        """The nodes that were the coordinators of ids lately."""
        try:
            self._admin = PythonClient(
                **connection.kafka_python(),
                max_in_flight_requests_per_connection=_IN_FLIGHT,
                bootstrap_timeout_ms=_BOOTSTRAP_MS,
                request_timeout_ms=_ASKED_MS,
            )
        except KafkaError as error:
            # kafka-python repeats a refused login until its time is over, and then only reports the timeout.
            refused = isinstance(error, KafkaTimeoutError) and login_refused(connection)
            raise self._trouble(SaslAuthenticationFailedError() if refused else error) from error
        except (OSError, ValueError) as error:  # for example, an unreadable key or certificate
            raise Fatal(f"The credentials for {self._where} cannot be used: {type(error).__name__}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    @contextmanager
    def remembering(self, answers: Answers) -> Iterator[Self]:
        """Within the block, ask each question at most once, and not those with an answer in `answers`, which must be
        of the same login. The checks of one run ask many questions several times.
        """
        self._answers = answers
        try:
            yield self
        finally:
            self._answers = None

    def _trouble(self, error: KafkaError) -> Fatal | Retriable:
        if isinstance(error, SaslAuthenticationFailedError):
            return Fatal(f"The login at {self._where} was refused", "SASL_AUTHENTICATION_FAILED")
        return Retriable(f"No broker of {self._where} answers: {type(error).__name__}")

    def _run(self, work: Awaitable[_T]) -> _T:
        async def call() -> _T:
            return await work

        try:
            answer: _T = self._admin.run(call)
        except KafkaError as error:
            raise self._trouble(error) from error
        return answer

    async def _all(self, requests: Mapping[_K, Any], nodes: Mapping[_K, int] | None = None) -> dict[_K, Any]:
        """Send all requests in parallel. Return the response to each, None if there is none."""
        futures = {
            name: self._admin.send(request, node_id=(nodes or {}).get(name)) for name, request in requests.items()
        }
        answers: dict[_K, Any] = {}
        for name, future in futures.items():
            try:
                answers[name] = await future
            except IncompatibleBrokerVersion:
                answers[name] = None
        return answers

    def write_ids(self, ids: Sequence[str]) -> dict[str, Permission]:
        """Return the Write permission on each transactional id."""
        return self._ask_about_ids(ids)[0]

    def describe_ids(self, ids: Sequence[str]) -> tuple[dict[str, Permission], dict[str, IdHolder]]:
        """Return the Describe permission on each transactional id, and its holder if it is visible."""
        _, may, holders = self._ask_about_ids(ids)
        return may, holders

    @_once
    def _ask_about_ids(
        self, ids: Sequence[str]
    ) -> tuple[dict[str, Permission], dict[str, Permission], dict[str, IdHolder]]:
        """Return Write and Describe permissions and the holders. An EndTxn request that ends nothing shows the first;
        it goes together with the first requests for the coordinators, or to those that are known.
        """
        may_write: dict[str, Permission] = {}
        may: dict[str, Permission] = {}
        holders: dict[str, IdHolder] = {}
        left = list(ids)
        for pause in _PAUSES:  # a new cluster is still creating the coordinators' topic
            requests: dict[tuple[str, str], Any] = {("end", each): _end_nothing(each) for each in ids if not may_write}
            homes = {each: self._nodes_of_ids[each] for each in left if each in self._nodes_of_ids}
            requests |= {("find", each): coordinator_request(each) for each in left if each not in homes}
            requests |= {("describe", each): _describe_request(each) for each in homes}
            nodes = {("describe", each): node for each, node in homes.items()}
            answers = self._run(self._all(requests, nodes))
            may_write |= {
                each: _may(answer.error_code, _ID_DENIED)
                for (kind, each), answer in answers.items()
                if kind == "end" and answer is not None
            }
            lookups = {each: answer for (kind, each), answer in answers.items() if kind == "find" and answer}
            codes = {each: answer.error_code for each, answer in lookups.items()}
            new_homes = {each: answer.node_id for each, answer in lookups.items() if not codes[each]}
            descriptions = {each: answer for (kind, each), answer in answers.items() if kind == "describe"}
            if new_homes:
                descriptions |= self._run(self._all({each: _describe_request(each) for each in new_homes}, new_homes))
            for each, answer in descriptions.items():
                for description in answer.transaction_states if answer else ():  # brokers before 3.0 have none
                    codes[each] = description.error_code
                    self._nodes_of_ids[each] = {**homes, **new_homes}[each]
                    if description.error_code == 0:
                        holders[each] = IdHolder(
                            description.transaction_state, description.producer_id, description.producer_epoch
                        )
                    elif description.error_code == _UNKNOWN_ID:
                        holders[each] = IdHolder()
            may |= {each: _may(code, _ID_DENIED, _DESCRIBE_GRANTS) for each, code in codes.items()}
            left = [each for each, code in codes.items() if code in MOVING]
            for each in left:
                self._nodes_of_ids.pop(each, None)
            if not left:
                break
            time.sleep(0.0 if homes.keys() >= {*left} else pause)
        return may_write, may, holders

    def write_topics(self, transactional_id: str, topics: Sequence[str]) -> dict[str, Permission]:
        """Return the Write permission on each topic, also a missing one, from a request for an unused producer id."""
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        requests = {
            name: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=NOBODYS_PRODUCER,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[topic(name=name, partitions=[0])],
                max_version=3,
            )
            for name in topics
        }
        result = {}
        for name, answer in self._run(self._all(requests)).items():
            codes = [
                partition.partition_error_code
                for each in (answer.results_by_topic_v3_and_below if answer else ())
                for partition in each.results_by_partition
            ]
            grants = frozenset({*_CHECKED_AND_REFUSED, _UNKNOWN_TOPIC, _NOT_ATTEMPTED})
            result[name] = _may(codes[0], _TOPIC_DENIED, grants) if codes else Permission.UNKNOWN
        return result

    @_once
    def topic(self, name: str) -> TopicRights:
        """Return whether the topic exists, and this principal's permissions on it."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = self._run(self._all({name: request}))[name]
        for topic in answer.topics if answer else ():
            if topic.error_code == _TOPIC_DENIED:  # Read and Write imply Describe
                return TopicRights(None, Permission.NO, Permission.NO, Permission.NO)
            if topic.error_code == _UNKNOWN_TOPIC:
                return TopicRights(False, describe=Permission.YES)
            operations = getattr(topic, "authorized_operations", None)  # codes; old brokers do not send them
            replicas = max((len(each.replica_nodes) for each in topic.partitions), default=0)
            if topic.error_code == 0 and operations:
                read, write, describe = (
                    Permission.YES if code in operations else Permission.NO for code in (_READ, _WRITE, _DESCRIBE)
                )
                return TopicRights(True, read, write, describe, replicas)
            if topic.error_code == 0:
                return TopicRights(True, replicas=replicas)
        return TopicRights(None)

    def create_topic(self, name: str) -> Permission:
        """Return the permission to create a missing topic, from a request that is only validated."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_ASKED_MS, validate_only=True, min_version=1)
        answer = self._run(self._all({name: request}))[name]
        for result in answer.topics if answer else ():
            error = for_code(result.error_code)
            if error in (TopicAuthorizationFailedError, ClusterAuthorizationFailedError):
                return Permission.NO
            if result.error_code == 0 or error is TopicAlreadyExistsError:
                return Permission.YES
        return Permission.UNKNOWN

    def topic_setting(self, topic: str, name: str) -> str | None:
        """Return a topic's setting; None without DescribeConfigs on the topic, or if there is no such topic."""
        return self._topic_settings(topic).get(name)

    @_once
    def _topic_settings(self, topic: str) -> Mapping[str, str]:
        return self._settings(_TOPIC, topic, None, None)

    def broker_setting(self, name: str) -> str | None:
        """Return a setting of one broker; None without DescribeConfigs on the cluster."""
        brokers = self._admin.broker_ids
        return self._settings(_BROKER, str(brokers[0]), [name], brokers[0]).get(name) if brokers else None

    def _settings(self, kind: int, resource: str, names: list[str] | None, node: int | None) -> dict[str, str]:
        """Return these settings, all of them for None; {} if this principal may not ask."""
        target = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=resource, configuration_keys=names
        )
        request = DescribeConfigsRequest(resources=[target])
        answer = self._run(self._all({resource: request}, {} if node is None else {resource: node}))[resource]
        results = [result for result in (answer.results if answer else ()) if result.error_code == 0]
        configs = [config for result in results for config in result.configs if config.value is not None]
        return {str(config.name): str(config.value) for config in configs}

    @property
    def version(self) -> tuple[int, ...]:
        """The broker's version, estimated: the newest one with the same protocol versions."""
        return self._admin.broker_version

    @_once
    def feature(self, name: str) -> int:
        """Return the finalised level of a feature of the cluster; 0 if it is off, or unknown to the brokers."""
        try:
            features: Mapping[str, Any] = self._run(self._admin.ask_features())
        except IncompatibleBrokerVersion:
            return 0
        _, level = features.get(name, {}).get("finalized", (0, 0))
        return int(level)

    def exactly_once(self) -> bool:
        """Whether the broker supports exactly-once."""
        return self.version >= OLDEST_BROKER
