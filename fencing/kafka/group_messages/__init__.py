"""Kafka's messages about the groups of the consumer protocol (KIP-848), for kafka-python, which has only their key.

The JSON files beside this module name the fields in their order on the wire; kafka-python reads them by class name.
"""

from kafka.protocol.api_message import ApiMessage

_HERE = __name__


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]  # kafka-python has no types
    """Requests the members of these groups, and what they read."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The response, with one entry per group."""
