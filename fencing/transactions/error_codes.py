"""Kafka's error codes, and what each means to a transaction (KIP-98, KIP-360, KIP-588, KIP-890, KIP-1050). Pure."""

from enum import Enum, IntEnum, auto
from typing import Final

from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError


class ErrorCode(IntEnum):
    """The codes that brokers give a transactional producer."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    FENCED_MEMBER_EPOCH = 110
    STALE_MEMBER_EPOCH = 113
    TRANSACTION_ABORTABLE = 120


class Meaning(Enum):
    """What the producer does after an error."""

    RETRY = auto()
    """Send the request again, to the same broker."""
    REFRESH = auto()
    """Look up the leader or the coordinator, then send it again."""
    ABORT = auto()
    """The transaction can only be aborted. With a new epoch, the producer can go on."""
    FENCED = auto()
    """Another producer has the id, or the coordinator has ended the transaction. Nothing more may be sent."""
    DENIED = auto()
    """A permission is missing."""
    FATAL = auto()
    """No repetition, no other transaction and no other producer can succeed."""


def name_of(code: int) -> str:
    """Return the code's name; of an unknown one the number."""
    return ErrorCode(code).name if code in set(ErrorCode) else f"error {code}"


_E = ErrorCode
_DENIED: Final = dict.fromkeys(
    (
        _E.TOPIC_AUTHORIZATION_FAILED,
        _E.GROUP_AUTHORIZATION_FAILED,
        _E.CLUSTER_AUTHORIZATION_FAILED,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    Meaning.DENIED,
)
_COORDINATOR: Final = {
    **_DENIED,
    _E.COORDINATOR_LOAD_IN_PROGRESS: Meaning.RETRY,
    _E.CONCURRENT_TRANSACTIONS: Meaning.RETRY,
    _E.THROTTLING_QUOTA_EXCEEDED: Meaning.RETRY,
    _E.KAFKA_STORAGE_ERROR: Meaning.RETRY,
    _E.COORDINATOR_NOT_AVAILABLE: Meaning.REFRESH,
    _E.NOT_COORDINATOR: Meaning.REFRESH,
    _E.BROKER_NOT_AVAILABLE: Meaning.REFRESH,
    _E.REQUEST_TIMED_OUT: Meaning.REFRESH,
    _E.NETWORK_EXCEPTION: Meaning.REFRESH,
    _E.TRANSACTION_COORDINATOR_FENCED: Meaning.REFRESH,
    _E.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    _E.PRODUCER_FENCED: Meaning.FENCED,
    _E.INVALID_TXN_STATE: Meaning.ABORT,
    _E.INVALID_PRODUCER_ID_MAPPING: Meaning.ABORT,
    _E.UNKNOWN_PRODUCER_ID: Meaning.ABORT,
    _E.TRANSACTION_ABORTABLE: Meaning.ABORT,
    # A coordinator that meets itself: two requests for one transactional id at once, for example a fence and a commit.
    _E.UNKNOWN_SERVER_ERROR: Meaning.ABORT,
}
OF_COORDINATOR: Final = {
    **_COORDINATOR,
    # Only of AddPartitionsToTxn: the topic's creation is under way, or it is deleted.
    _E.UNKNOWN_TOPIC_OR_PARTITION: Meaning.RETRY,
}
"""The answers to InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn."""
OF_MEMBER: Final = frozenset(
    {
        _E.ILLEGAL_GENERATION, _E.UNKNOWN_MEMBER_ID, _E.FENCED_INSTANCE_ID, _E.FENCED_MEMBER_EPOCH,
        _E.STALE_MEMBER_EPOCH,
    }
)  # fmt: skip
"""Another member has the partition now (KIP-447): this is said of the group's member, and not of the producer."""
OF_GROUP: Final = {
    **_COORDINATOR,
    _E.UNKNOWN_TOPIC_OR_PARTITION: Meaning.RETRY,
    **dict.fromkeys(OF_MEMBER, Meaning.FENCED),
    _E.REBALANCE_IN_PROGRESS: Meaning.ABORT,
}
"""The answers to TxnOffsetCommit."""
OF_LEADER: Final = {
    **_DENIED,
    _E.CORRUPT_MESSAGE: Meaning.RETRY,
    _E.CONCURRENT_TRANSACTIONS: Meaning.RETRY,
    _E.COORDINATOR_LOAD_IN_PROGRESS: Meaning.RETRY,
    _E.COORDINATOR_NOT_AVAILABLE: Meaning.RETRY,
    _E.NOT_COORDINATOR: Meaning.RETRY,
    _E.NOT_ENOUGH_REPLICAS: Meaning.RETRY,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Meaning.RETRY,
    _E.REQUEST_TIMED_OUT: Meaning.RETRY,
    _E.THROTTLING_QUOTA_EXCEEDED: Meaning.RETRY,
    _E.UNKNOWN_TOPIC_OR_PARTITION: Meaning.REFRESH,
    _E.LEADER_NOT_AVAILABLE: Meaning.REFRESH,
    _E.NOT_LEADER_OR_FOLLOWER: Meaning.REFRESH,
    _E.BROKER_NOT_AVAILABLE: Meaning.REFRESH,
    _E.REPLICA_NOT_AVAILABLE: Meaning.REFRESH,
    _E.NETWORK_EXCEPTION: Meaning.REFRESH,
    _E.KAFKA_STORAGE_ERROR: Meaning.REFRESH,
    _E.FENCED_LEADER_EPOCH: Meaning.REFRESH,
    _E.UNKNOWN_LEADER_EPOCH: Meaning.REFRESH,
    _E.UNKNOWN_TOPIC_ID: Meaning.REFRESH,
    _E.INCONSISTENT_TOPIC_ID: Meaning.REFRESH,
    _E.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    _E.PRODUCER_FENCED: Meaning.FENCED,
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: Meaning.ABORT,
    _E.UNKNOWN_PRODUCER_ID: Meaning.ABORT,
    _E.INVALID_TXN_STATE: Meaning.ABORT,
    _E.INVALID_PRODUCER_ID_MAPPING: Meaning.ABORT,
    _E.TRANSACTION_COORDINATOR_FENCED: Meaning.ABORT,
    _E.TRANSACTION_ABORTABLE: Meaning.ABORT,
    _E.UNKNOWN_SERVER_ERROR: Meaning.ABORT,
}
"""The answers to Produce. A wrong number is a loss only of a batch that was sent when all before it were written."""
OF_METADATA: Final = {
    _E.TOPIC_AUTHORIZATION_FAILED: Meaning.DENIED,
    _E.UNKNOWN_TOPIC_OR_PARTITION: Meaning.RETRY,
    _E.LEADER_NOT_AVAILABLE: Meaning.RETRY,
    _E.BROKER_NOT_AVAILABLE: Meaning.RETRY,
    _E.REPLICA_NOT_AVAILABLE: Meaning.RETRY,
    _E.REQUEST_TIMED_OUT: Meaning.RETRY,
    _E.UNKNOWN_TOPIC_ID: Meaning.RETRY,
    _E.THROTTLING_QUOTA_EXCEEDED: Meaning.RETRY,
}


_TOO_LONG: Final = (
    "The broker's transaction.max.timeout.ms is less. Shorten transaction.boundary.interval.ms (a transaction may last "
    "three intervals), lower producer.override.transaction.timeout.ms, or raise the broker's limit, then restart"
)


LOWERED: Final = (
    "If transaction.version was lowered to 0, brokers cannot write what they know of an id that had a transaction of "
    "version 2: set transaction.version to 1 or more, and restart the brokers"
)
"""A bug of Kafka 4 (seen in 4.3). The coordinator refuses the first InitProducerId as UNSUPPORTED_VERSION and, since it
keeps the change as one that is under way, all others as CONCURRENT_TRANSACTIONS, until it loads its log again.
"""


def meaning_of(code: int, table: dict[ErrorCode, Meaning]) -> Meaning:
    """Return what a code means in this table. What is not in it is fatal."""
    return table.get(code, Meaning.FATAL)  # type: ignore[call-overload, no-any-return]  # an IntEnum is an int


def error_of(code: int, meaning: Meaning, doing: str) -> FencingError:
    """Return the kernel's error for a code that is not to be retried."""
    name = name_of(code)
    text = f"{doing}: {name}"
    match meaning:
        case Meaning.FENCED:
            return Fenced(text, name)
        case Meaning.DENIED:
            return Fatal(f"{text}. Grant the missing permission, then restart", name)
        case Meaning.ABORT:
            return Abortable(text, name)
    return Fatal(f"{text}. {_TOO_LONG}" if code == _E.INVALID_TRANSACTION_TIMEOUT else text, name)
