"""The commands to fence a connector's transactional ids, and to end hanging transactions."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from ringfence.engine.leader import task_slices
from ringfence.engine.leader.commands.command import (
    CHANGED,
    RECONFIGURED,
    ActingCommand,
    OnConnector,
    Plan,
    Records,
    WriteResult,
    WritingCommand,
    require_existing,
)
from ringfence.engine.leader.commands.lifecycle import require_readable
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import CommitRecord, ConfigRecord
from ringfence.fencing.topics.session_keys import SignatureCheck
from ringfence.requests.request import Refusal

if TYPE_CHECKING:
    from ringfence.engine.leader.command_service import CommandContext

Config = Mapping[str, str]
Json = dict[str, object]


class NewGeneration(TypedDict):
    generation: int | None


class FencedIds(TypedDict):
    """id, producer_id and epoch each."""

    fenced: list[Json]


class HangingTransactions(TypedDict):
    """As `FindHanging` lists them."""

    ended: list[Json]


@dataclass(frozen=True)
class Fence(OnConnector, ActingCommand[None]):
    """Kafka Connect's signed request (KIP-618): wait until the round of the connector's newest generation is over.

    It starts no round: the reconcile loop starts each one that is due. payload: base64 of the request's own body.
    """

    name = "fence"
    payload: str
    signature: str
    algorithm: str

    def act(self, context: "CommandContext") -> None:
        state = context.leader.state()
        self._check_signature(context, state)
        connector = require_existing(state, self.target, f"Connector {self.connector} not found")
        if connector.tasks_stale:
            raise Refusal(
                409, "Cannot complete request momentarily due to stale configuration. Send it again", retry=True
            )
        try:
            context.await_round(self.target)
        except Refusal as late:
            raise Refusal(
                500,
                f"Request timed out: the old tasks of {self.connector} are still being fenced. Fencing is repeated "
                "until it succeeds; the connector's fencing events show what prevents it",
            ) from late

    def _check_signature(self, context: "CommandContext", state: ClusterState) -> None:
        """Raise `Refusal`, with Kafka Connect's message, unless the request is signed with the newest key (KIP-507)."""
        try:
            payload = base64.b64decode(self.payload, validate=True)
        except binascii.Error:
            raise Refusal(400, "The request's body did not arrive whole. Send it again") from None
        keys = context.leader.worker_config.session_keys
        match keys.verdict(state.session_key, payload, self.signature, self.algorithm):
            case SignatureCheck.VALID:
                return
            case SignatureCheck.UNSUPPORTED:
                raise Refusal(
                    400,
                    f"This worker does not support the '{self.algorithm}' key signing algorithm. Use one of "
                    "inter.worker.verification.algorithms",
                )
            case SignatureCheck.MALFORMED:
                raise Refusal(400, "X-Connect-Authorization must be the base64 of the body's HMAC")
            case SignatureCheck.NO_KEY:
                raise Refusal(
                    503,
                    "This worker is still starting up and has not been able to write a session key to the config topic "
                    "yet. Send the request again",
                    passing=True,
                )
            case SignatureCheck.INVALID:
                raise Refusal(
                    403,
                    "Internal request contained invalid signature. Sign the body with the newest session-key of the "
                    "config topic: it may have been rotated",
                )


@dataclass(frozen=True)
class FenceNow(OnConnector, WritingCommand[NewGeneration]):
    """Write the same tasks as a new generation. Its round fences every id of the old one; then they start again.

    wait: for the round's end.
    """

    name = "fence_now"
    reason: str
    wait: bool = True

    def plan(self, context: "CommandContext") -> Plan:
        while context.write(self.records_ahead).offset >= 0:
            pass  # one slice after the other; other commands are carried out in between
        return self.records

    def records(self, state: ClusterState) -> Records:
        records = self._repeat_tasks(state)
        if not isinstance(records[-1], CommitRecord):  # they were written ahead, and have changed since
            raise Refusal(409, CHANGED, retry=True)
        return records

    def records_ahead(self, state: ClusterState) -> Records:
        """Return the next of the task records to repeat, and nothing if the rest fits into the write of `records`."""
        records = self._repeat_tasks(state)
        return [] if isinstance(records[-1], CommitRecord) else records

    def _repeat_tasks(self, state: ClusterState) -> list[ConfigRecord]:
        connector = require_existing(state, self.target, f"Connector {self.connector} not found")
        if connector.tasks_stale:
            raise Refusal(409, RECONFIGURED, retry=True)
        require_readable(connector)
        return task_slices.next_slice(connector, [connector.tasks[n].config for n in sorted(connector.tasks)])

    def value(self, result: WriteResult) -> NewGeneration:
        return {"generation": result.state.connector(self.target).generation}

    def awaits_round(self) -> bool:
        return self.wait


@dataclass(frozen=True)
class FenceId(OnConnector, ActingCommand[FencedIds]):
    """Fence one transactional id."""

    name = "fence_id"
    id: str
    reason: str

    def act(self, context: "CommandContext") -> FencedIds:
        from ringfence.engine.queries.hanging_transactions import fence_id

        return {"fenced": fence_id(context.leader.state(), self.target, self.id, context.leader.worker_config)}

    def note(self) -> str:
        return f"{self.id}: {self.reason}"


@dataclass(frozen=True)
class EndHanging(OnConnector, ActingCommand[HangingTransactions]):
    """End a producer's hanging transaction on one partition (KIP-664). earlier: configurations of live generations."""

    name = "end_hanging"
    reason: str
    topic: str
    partition: int
    producer_id: int
    tasks: int
    topics: Sequence[str]
    earlier: Sequence[Config]

    def act(self, context: "CommandContext") -> HangingTransactions:
        from ringfence.engine.queries import hanging_transactions

        return {"ended": hanging_transactions.end(context.leader.state(), self, context.leader.worker_config)}

    def note(self) -> str:
        return f"{self.topic}-{self.partition}: {self.reason}"


@dataclass(frozen=True)
class RetryRound(OnConnector, ActingCommand[None]):
    """Retry a failed round now."""

    name = "retry_round"
    reason: str

    def act(self, context: "CommandContext") -> None:
        context.leader.rounds.retry_now(self.target)
