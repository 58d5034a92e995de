"""Kafka's messages about share groups (KIP-932), for kafka-python, which has their keys and not their fields.

The JSON files beside this module name the fields in their order on the wire; kafka-python reads them by class name.
"""

from kafka.protocol.api_message import ApiMessage

_HERE = __name__


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]  # kafka-python has no types
    """Who is a member of these groups, and what they read."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The answer, one entry a group."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Where these groups begin in each partition."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The answer: start offset and, from version 1 on (KIP-1226), lag."""


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Begin elsewhere. The group must be empty."""


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The answer, with an error for all or for each partition."""


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """Forget where the group is in these topics. The group must be empty."""


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg,misc]
    """The answer, with an error for all or for each topic."""
