"""Ends a member's time in a share group at once, as its coordinator does when the member's session runs out."""

from kafka.protocol.api_message import ApiMessage

from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import share_group_admin


class ShareGroupHeartbeatRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]  # no types
    """Member epoch -1: it leaves."""


class ShareGroupHeartbeatResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """The answer."""


def expire(connection: Connection, group: str, member: str) -> None:
    """The member hears of it with its next heartbeat."""
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=-1, rack_id=None, subscribed_topic_names=None
    )
    with share_group_admin(connection) as admin:
        answer = admin._send_one(group, request, "Leaving")
    assert answer.error_code == 0, answer
