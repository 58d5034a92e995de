"""Checks who may use the transactional ids of the leader and of the tasks, and who holds them now.

And whether hanging transactions of the connector can be found and ended (KIP-664): first by the connector's admin
client, then, on the worker's cluster, by the worker's principal. Fencing rounds and tasks use the same order. If
neither may, `read_committed` consumers wait at such a transaction until a person ends it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.engine.preflight.subject import MOST_NAMED, PROBERS, Check, Result, Subject, check_granted
from ringfence.engine.queries.hanging_transactions import ids_of
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import leader_transactional_id
from ringfence.fencing.kafka.open_transactions import may_write_markers
from ringfence.fencing.kafka.permission_probes import IdHolder, Permission, Prober
from ringfence.fencing.offsets.stores import OffsetStores

_ID = "TransactionalId"
_MOST_IDS: Final = 200
NAME: Final = "hanging transactions"

Rights = Mapping[str, Permission]
"""Read for each topic, and under `Cluster` the right to write markers."""

CLUSTER: Final = "Cluster"


def _ids(subject: Subject) -> list[str]:
    """Return the transactional ids of its tasks, of the first ones if there are many."""
    return ids_of(subject.connector, min(subject.tasks_max, _MOST_IDS), subject.worker)


def check_leader(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    leader = [leader_transactional_id(subject.worker.group_id)]
    yield check_granted("worker", "Write", _ID, prober.write_ids(leader), decides=False)
    yield check_granted("worker", "Describe", _ID, prober.describe_ids(leader)[0], decides=False)


def check_tasks(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    """Check whether the tasks' producers may use their ids, and whether tasks of another cluster do."""
    if not subject.transactional:
        return
    ids = _ids(subject)
    yield check_granted("producer", "Write", _ID, prober.write_ids(ids), "name")
    may, holders = prober.describe_ids(ids)
    yield check_granted("producer", "Describe", _ID, may, "name")
    in_use = [number for number, each in enumerate(ids) if holders.get(each, IdHolder()).state]
    known_tasks = subject.known_tasks(max(in_use) + 1) if in_use else 0
    yield _check_holders(subject, holders, known_tasks)


def check_fencing(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check whether a fencing round may fence them."""
    if not subject.transactional:
        return
    # On the worker's own cluster, a round continues with the worker's login if this one is denied.
    alone = _is_alone(subject, stores)
    ids = _ids(subject)
    yield check_granted("admin", "Write", _ID, prober.write_ids(ids), "name", decides=alone)
    yield check_granted("admin", "Describe", _ID, prober.describe_ids(ids)[0], "name", decides=alone)


def check_ending_hanging(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check whether a fencing round may end their hanging transactions."""
    if subject.transactional:
        yield _check_hanging(prober, subject, stores.effective.name, alone=_is_alone(subject, stores))


def _is_alone(subject: Subject, stores: OffsetStores) -> bool:
    return servers(stores.admin.bootstrap) != servers(subject.worker.bootstrap)


def _check_hanging(prober: Prober, subject: Subject, offsets: str, *, alone: bool) -> Check:
    topics = [offsets, *([subject.topic] if subject.topic else [])]
    principals = {"admin": rights_of(prober, topics)}
    check = judge(principals)
    if alone or check.result is Result.OK:
        return check
    try:
        with PROBERS.lease(subject.worker.connection(f"ringfence-preflight-{subject.connector}")) as other:
            principals["worker"] = rights_of(other, topics)
    except FencingError:
        return check  # the worker's own checks report why its principal could not be checked
    return judge(principals)


def _check_holders(subject: Subject, holders: Mapping[str, IdHolder], known_tasks: int | None) -> Check:
    """Check that no other client uses the tasks' ids.

    They are unique within a group.id, but another group may result in the same id (`a` + `b-c`, `a-b` + `c`).
    """
    name, ids, own = "transactional ids", _ids(subject), known_tasks or 0
    strangers = [each for number, each in enumerate(ids) if number >= own and holders.get(each, IdHolder()).state]
    live = [each for each in strangers if holders[each].open]
    remedy = "Make sure that no other program uses these ids; else choose another connector name or group.id."
    if live:
        text = f"Another client has an open transaction under {', '.join(live[:MOST_NAMED])}, an id of this connector."
        # Only if it is certainly open: a transaction that is ending no longer has a holder in a moment.
        ongoing = any(holders[each].state == "Ongoing" for each in live)
        return Check(name, Result.FAILED, text, remedy, "name", decides=known_tasks is not None and ongoing)
    if strangers and not own:
        text = f"{', '.join(strangers[:MOST_NAMED])} was in use within the last days, and its holder may still run."
        return Check(name, Result.UNKNOWN, text, remedy)
    if known_tasks is None or not set(ids) <= holders.keys():
        return Check(name, Result.UNKNOWN, "It is unknown who holds the connector's transactional ids.", remedy)
    if subject.tasks_max > len(ids):
        text = f"No other client holds the transactional ids of the first {len(ids)} tasks; the others are not checked."
        return Check(name, Result.OK, text)
    return Check(name, Result.OK, "No other client holds the connector's transactional ids.")


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
