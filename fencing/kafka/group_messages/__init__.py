"""Kafka's messages about groups, for kafka-python, which has only their keys: those of the consumer protocol (KIP-848),
and share groups (KIP-932).

The JSON files beside this module name the fields in their order on the wire; kafka-python reads them by class name.
"""

from kafka.protocol.api_message import ApiMessage

_HERE = __name__


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]  # kafka-python has no types
    """Requests the members of these groups, and what they read."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The response, with one entry per group."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Requests the members of these groups, and what they read."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The response, with one entry per group."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Requests where these groups start in each partition."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The response: start offset and, from version 1 on (KIP-1226), lag."""


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Sets another start offset. The group must be empty."""


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The response, with an error for all or for each partition."""


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Deletes the group's offsets in these topics. The group must be empty."""


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The response, with an error for all or for each topic."""
