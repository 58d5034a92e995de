"""Makes one try to send one message: one module for each kind of destination, in the format of its receiver."""

from collections.abc import Mapping
from typing import Any, Final

from ringfence.alerts.senders import mail, opsgenie, pagerduty, slack, teams, webhook
from ringfence.alerts.senders.channel import Channel, Endpoint, NotSent

CHANNELS: Final[Mapping[str, Channel]] = {
    one.kind: one
    for one in (
        webhook.CHANNEL,
        slack.CHANNEL,
        teams.CHANNEL,
        pagerduty.CHANNEL,
        opsgenie.CHANNEL,
        mail.CHANNEL,
    )
}
"""The kinds of destinations, by their keys. To add one: one module, and one line here."""


def send(to: Endpoint, message: Mapping[str, Any], delivery: int) -> int:
    """Send it once, and return the answer's status, 250 for mail. Raises `NotSent`."""
    channel = CHANNELS.get(to.kind)
    if channel is None:
        raise NotSent(f"Unknown kind of destination {to.kind!r}", final=True)
    return channel.send(to, message, delivery)
