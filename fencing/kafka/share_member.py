"""A member of a share group (KIP-932): the broker locks records for it, and it acknowledges them.

confluent-kafka's share consumer is a preview. Neither its deliveries nor the broker's responses to acknowledgements
decide which records are processed: only the ledger does (`ringfence.fencing.share`).
"""

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, ShareConsumer
from confluent_kafka import Message as Message
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import IllegalStateException

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors, translate

log = logging.getLogger(__name__)

_DENIED: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_CLOSE_MS: Final = 5000
# Too long between two polls: the member joins again by itself. A missing topic may still be created.
_PASSES: Final = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART})


class Answer(Enum):
    """What happens to a locked record: it is done, it is delivered again, or it is never delivered again."""

    ACCEPT = AcknowledgeType.ACCEPT
    RELEASE = AcknowledgeType.RELEASE
    REJECT = AcknowledgeType.REJECT


class ShareMember:
    """One member, on one thread. Answer every record of a poll before the next poll, which sends the answers."""

    def __init__(self, connection: Connection, group: str, topics: Sequence[str], client_id: str, limit: int) -> None:
        """limit: about how many records a poll returns; the broker locks whole batches."""
        self._doing = f"reading as a member of share group {group}"
        self.broken = False
        """The client no longer knows what it has delivered: join again."""
        settings = connection.librdkafka(
            group_id=group,
            share_acknowledgement_mode="explicit",
            max_poll_records=limit,
            socket_timeout_ms=_CLOSE_MS,
        )
        settings["client.id"] = client_id
        with kafka_errors(f"joining share group {group}"):
            self._consumer = connection.create(lambda: ShareConsumer(settings))
            self._consumer.subscribe(list(topics))

    def poll(self, seconds: float) -> list[Message]:
        """Return locked records, none of them an error; [] after `seconds` without any. Raises `Retriable`, `Fatal`."""
        try:
            with kafka_errors(self._doing):
                messages = list(self._consumer.poll(seconds))
        except IllegalStateException as lost:
            self.broken = True
            raise Retriable(f"{self._doing}: {lost}. The task joins the group again") from lost
        records = []
        for message in messages:
            if (error := message.error()) is None:
                records.append(message)
                continue
            trouble = translate(error, self._doing)
            if not isinstance(trouble, Retriable) and error.code() not in _PASSES:
                for one in records:
                    self.answer(one, Answer.RELEASE)
                raise trouble
            log.info("%s", trouble)  # the client recovers by itself
        return records

    def answer(self, message: Message, answer: Answer) -> None:
        """Set the answer that the next poll sends. If the lock is lost, it has no effect: others have the record."""
        try:
            self._consumer.acknowledge(message, answer.value)
        except (KafkaException, IllegalStateException) as error:
            log.debug("%s", error)

    def send_answers(self, seconds: float) -> None:
        """Send the answers now, if there is no poll soon."""
        try:
            refusals = {one: error for one, error in self._consumer.commit_sync(seconds).items() if error is not None}
        except KafkaException as error:
            log.info("%s: the answers did not reach the broker: %s", self._doing, error.args[0].str())
        else:
            if refusals:
                log.debug("%s: refused answers: %s", self._doing, refusals)

    def close(self) -> None:
        """Leave the group."""
        try:
            self._consumer.close()
        except (KafkaException, IllegalStateException) as error:
            log.info("%s: leaving: %s", self._doing, error)


def alter_share_group(
    connection: Connection, group: str, settings: Mapping[str, str | None], deadline: Deadline
) -> None:
    """Set a share group's settings, given without their prefix `share.`; None restores the broker's default.

    Raises `Fatal`, `Retriable`.
    """
    entries = [
        ConfigEntry(
            f"share.{name}",
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    doing = f"setting up share group {group}"
    client = AdminClient(connection.librdkafka())  # type: ignore[arg-type]
    answers = client.incremental_alter_configs([resource], request_timeout=max(0.5, deadline.slice(10.0)))
    for future in answers.values():
        try:
            future.result()
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in _DENIED:
                raise Fatal(
                    f"{doing}: {reason.str()}. Grant the principal AlterConfigs and Read on the group", reason.name()
                ) from error
            if reason.code() == KafkaError.INVALID_CONFIG or reason.code() == KafkaError.INVALID_REQUEST:
                raise Fatal(
                    f"{doing}: {reason.str()}. Correct the connector's share.* settings, or the broker's "
                    "limits (group.share.min.*, group.share.max.*)",
                    reason.name(),
                ) from error
            raise translate(reason, doing) from error
