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

    def begin(self) -> None:
        """Begin a transaction, without offsets."""
        self.done, self.added = True, False

    def start(self, member: GroupMember, offsets: Mapping[Place, int]) -> None:
        self.added &= member.group == self._member.group
        self._member, self._offsets, self.done = member, dict(offsets), False

    def next_request(self, who: tuple[str, int, int], implicit: bool) -> AddOffsets | FindCoordinator | CommitOffsets:
        """Return what to ask next. who: transactional id, producer id and epoch."""
        if not implicit and not self.added:
            return AddOffsets(*who, self._member.group)
        if self.coordinator is None:
            return FindCoordinator(self._member.group, GROUP_KEY)
        return CommitOffsets(*who, self._member, self._offsets, implicit)

    def take(self, response: CodesResponse) -> tuple[int, Meaning]:
        """Take the answer to the commit; return the error code, 0 for none, and what it means."""
        code = next((each for each in response.codes.values() if each), int(ErrorCode.NONE))
        self.done = code == ErrorCode.NONE
        meaning = meaning_of(code, OF_GROUP)
        if meaning is Meaning.REFRESH:
            self.coordinator = None
        return code, meaning
