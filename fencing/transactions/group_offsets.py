"""What a transaction asks of a group: to take offsets (KIP-447), or whether its member is in the newest generation.
Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ringfence.fencing.transactions.error_codes import OF_GROUP, ErrorCode, Meaning, meaning_of
from ringfence.fencing.transactions.messages import (
    GROUP_KEY,
    AddOffsets,
    CodesResponse,
    CommitOffsets,
    ErrorResponse,
    FindCoordinator,
    GroupMember,
    Place,
)
from ringfence.fencing.transactions.wire import NO_TAGS, Reader, i32, string


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Asks the group's coordinator whether the member is in its newest generation. It keeps the member in the group, as
    the member's own heartbeats do.
    """

    api: ClassVar = 12
    versions: ClassVar = (4, 4)
    member: GroupMember

    def encode(self, version: int) -> list[bytes]:
        who = self.member
        return [string(who.group) + i32(who.generation) + string(who.member) + string(who.instance) + NO_TAGS]

    def decode(self, version: int, reader: Reader) -> ErrorResponse:
        return ErrorResponse(reader.i32(), reader.i16())


class GroupOffsets:
    """coordinator: of the group, None if it has to be looked up. done: whether the group has the offsets, or has said
    that the member is in its newest generation.
    """

    def __init__(self) -> None:
        self.coordinator: int | None = None
        self.done = True
        self.added = False
        """Whether they are in the transaction."""
        self._member = GroupMember("")
        self._offsets: Mapping[Place, int] | None = None
        self._request: CommitOffsets | Heartbeat | None = None
        """This transaction's. The answer to an aborted one's may still come."""

    def begin(self) -> None:
        """Begin a transaction, without offsets."""
        self.done, self.added = True, False
        self._request = None

    def start(self, member: GroupMember, offsets: Mapping[Place, int]) -> None:
        """Commit offsets."""
        self.added &= member.group == self._member.group
        self._member, self._offsets, self.done = member, dict(offsets), False
        self._request = None

    def start_proof(self, member: GroupMember) -> None:
        """Ask whether the member is in the newest generation."""
        self._member, self._offsets, self.done = member, None, False
        self._request = Heartbeat(member)

    def next_request(
        self, who: tuple[str, int, int], implicit: bool
    ) -> AddOffsets | FindCoordinator | CommitOffsets | Heartbeat:
        """Return what to ask next. who: transactional id, producer id and epoch."""
        if self._offsets is not None and not implicit and not self.added:
            return AddOffsets(*who, self._member.group)
        if self.coordinator is None:
            return FindCoordinator(self._member.group, GROUP_KEY)
        if self._offsets is not None and not self._is_of(who):
            self._request = CommitOffsets(*who, self._member, self._offsets, implicit)
        assert self._request is not None
        return self._request

    def _is_of(self, who: tuple[str, int, int]) -> bool:
        last = self._request
        return isinstance(last, CommitOffsets) and (last.transactional_id, last.producer_id, last.epoch) == who

    def take(self, request: CommitOffsets | Heartbeat, response: CodesResponse | ErrorResponse) -> tuple[int, Meaning]:
        """Take the answer; return the error code, and what it means: 0 for no error, and for a late answer."""
        code = 0
        if request is self._request:
            code = _code_of(response)
            self.done = code == ErrorCode.NONE
        meaning = meaning_of(code, OF_GROUP)
        if meaning is Meaning.REFRESH:
            self.coordinator = None
        return code, meaning


def _code_of(response: CodesResponse | ErrorResponse) -> int:
    if isinstance(response, CodesResponse):
        return next((each for each in response.codes.values() if each), int(ErrorCode.NONE))
    # A rebalance has begun, and is not over: the generation is still the newest.
    return ErrorCode.NONE if response.error == ErrorCode.REBALANCE_IN_PROGRESS else response.error
