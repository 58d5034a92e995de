"""A group's offsets, which a transaction commits (KIP-447). Pure."""

from collections.abc import Mapping

from ringfence.fencing.transactions.error_codes import OF_GROUP, ErrorCode, Meaning, meaning_of
from ringfence.fencing.transactions.messages import (
    GROUP_KEY,
    AddOffsets,
    CodesResponse,
    CommitOffsets,
    FindCoordinator,
    GroupMember,
    Place,
)


class GroupOffsets:
    """coordinator: of the group, None if it has to be looked up. done: whether the group has the offsets."""

    def __init__(self) -> None:
        self.coordinator: int | None = None
        self.done = True
        self.added = False
        """Whether they are in the transaction."""
        self._member = GroupMember("")
        self._offsets: Mapping[Place, int] = {}
        self._request: CommitOffsets | None = None
        """This transaction's. The answer to an aborted one's may still come."""

    def begin(self) -> None:
        """Begin a transaction, without offsets."""
        self.done, self.added = True, False
        self._request = None

    def start(self, member: GroupMember, offsets: Mapping[Place, int]) -> None:
        self.added &= member.group == self._member.group
        self._member, self._offsets, self.done = member, dict(offsets), False
        self._request = None

    def next_request(self, who: tuple[str, int, int], implicit: bool) -> AddOffsets | FindCoordinator | CommitOffsets:
        """Return what to ask next. who: transactional id, producer id and epoch."""
        if not implicit and not self.added:
            return AddOffsets(*who, self._member.group)
        if self.coordinator is None:
            return FindCoordinator(self._member.group, GROUP_KEY)
        last = self._request
        if last is None or (last.transactional_id, last.producer_id, last.epoch) != who:
            last = self._request = CommitOffsets(*who, self._member, self._offsets, implicit)
        return last

    def take(self, request: CommitOffsets, response: CodesResponse) -> tuple[int, Meaning]:
        """Take the answer; return the error code, and what it means: 0 for no error, and for a late answer."""
        code = 0
        if request is self._request:
            code = next((each for each in response.codes.values() if each), int(ErrorCode.NONE))
            self.done = code == ErrorCode.NONE
        meaning = meaning_of(code, OF_GROUP)
        if meaning is Meaning.REFRESH:
            self.coordinator = None
        return code, meaning
