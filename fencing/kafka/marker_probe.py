"""Checks whether a principal may end hanging transactions (KIP-664): WriteTxnMarkers needs Alter or ClusterAction on
the Cluster. It sends a marker for an unused producer id and a missing topic: the broker checks the permission first.
"""

import secrets
from typing import Final

from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from ringfence.fencing.kafka.permission_probes import NOBODYS_PRODUCER, Prober
from ringfence.fencing.kafka.permissions import Permission

_CLUSTER_DENIED: Final = 31
_UNKNOWN_TOPIC: Final = 3


def may_write_markers(prober: Prober) -> Permission:
    """Return the permission to write markers, as far as a probe shows it. Raises the prober's errors."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=NOBODYS_PRODUCER,
                producer_epoch=0,
                transaction_result=False,
                topics=[
                    marker.WritableTxnMarkerTopic(
                        name=f"ringfence-no-such-topic-{secrets.token_hex(8)}", partition_indexes=[0]
                    )
                ],
                coordinator_epoch=0,
            )
        ]
    )
    answer = prober._run(prober._all({"": request}))[""]
    codes = {
        partition.error_code
        for one in (answer.markers if answer else ())
        for topic in one.topics
        for partition in topic.partitions
    }
    if _CLUSTER_DENIED in codes:
        return Permission.NO
    return Permission.YES if codes == {_UNKNOWN_TOPIC} else Permission.UNKNOWN
