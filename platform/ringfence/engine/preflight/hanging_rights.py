"""Preflight: checks whether a connector's hanging transactions (KIP-664) can be found and ended.

It checks the connector's admin client first, then, on the worker's cluster, the worker's principal: fencing rounds and
tasks use the same order. If neither may, `read_committed` consumers wait at such a transaction until a person ends it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.engine.preflight.check import Check, Result
from ringfence.fencing.kafka.marker_probe import may_write_markers
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.kafka.permissions import Permission

NAME: Final = "hanging transactions"

Rights = Mapping[str, Permission]
"""Read for each topic, and under `Cluster` the right to write markers."""

CLUSTER: Final = "Cluster"


def rights_of(prober: Prober, topics: Sequence[str]) -> Rights:
    """Return the principal's rights. A topic that does not exist needs none."""
    rights = {name: prober.topic(name) for name in topics}
    reads = {name: one.read for name, one in rights.items() if one.exists is not False}
    return {**reads, CLUSTER: may_write_markers(prober)}


def judge(principals: Mapping[str, Rights]) -> Check:
    """Return the finding. principals: the rights by principal, in the order in which they are used. Pure."""
    for principal, rights in principals.items():
        if set(rights.values()) == {Permission.YES}:
            return Check(NAME, Result.OK, f"The {principal}'s principal may find and end hanging transactions.")
    missing = [
        f"the {principal}'s principal has no {_describe(name)}"
        for principal, rights in principals.items()
        for name, may in rights.items()
        if may is Permission.NO
    ]
    topics = sorted({name for rights in principals.values() for name in rights if name != CLUSTER})
    remedy = (
        f"Grant the {' or the '.join(reversed(list(principals)))}'s principal Read on {', '.join(topics)}, and "
        "ClusterAction or Alter on the Cluster."
    )
    denied = all(Permission.NO in rights.values() for rights in principals.values())
    if not denied:
        return Check(NAME, Result.UNKNOWN, "Whether hanging transactions can be ended could not be found out.", remedy)
    text = f"Hanging transactions of this connector are not found, or not ended: {'; '.join(missing)}."
    return Check(NAME, Result.FAILED, text, remedy)


def _describe(name: str) -> str:
    return "ClusterAction or Alter on the Cluster" if name == CLUSTER else f"Read on topic {name}"
