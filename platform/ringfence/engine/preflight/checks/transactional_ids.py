"""Checks who may use the transactional ids of the leader and of the tasks, and who holds them now."""

from collections.abc import Iterator

from ringfence.connectors.kafka_settings.java_names import servers
from ringfence.engine.preflight import findings, hanging_rights
from ringfence.engine.preflight.check import Check, Result
from ringfence.engine.preflight.probe_clients import PROBERS
from ringfence.engine.preflight.subject import Asker
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import leader_transactional_id
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores

_ID = "TransactionalId"


def check_leader(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    leader = [leader_transactional_id(asker.worker.group_id)]
    yield findings.check_granted("worker", "Write", _ID, prober.write_ids(leader), decides=False)
    yield findings.check_granted("worker", "Describe", _ID, prober.describe_ids(leader)[0], decides=False)


def check_tasks(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    """Check whether the tasks' producers may use their ids, and whether tasks of another cluster do."""
    if not asker.transactional:
        return
    yield findings.check_granted("producer", "Write", _ID, prober.write_ids(asker.ids), "name")
    may, holders = prober.describe_ids(asker.ids)
    yield findings.check_granted("producer", "Describe", _ID, may, "name")
    count = asker.known_tasks() if any(holder.state for holder in holders.values()) else 0
    yield findings.check_holders(asker.ids, holders, count)


def check_fencing(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    """Check whether a fencing round may fence them, and end their hanging transactions."""
    if not asker.transactional:
        return
    # On the worker's own cluster, a round continues with the worker's login if this one is denied.
    alone = servers(stores.admin.bootstrap) != servers(asker.worker.bootstrap)
    may = prober.write_ids(asker.ids)
    yield findings.check_granted("admin", "Write", _ID, may, "name", decides=alone)
    may = prober.describe_ids(asker.ids)[0]
    yield findings.check_granted("admin", "Describe", _ID, may, "name", decides=alone)
    yield _check_hanging(prober, asker, stores.effective.name, alone=alone)


def _check_hanging(prober: Prober, asker: Asker, offsets: str, *, alone: bool) -> Check:
    topics = [offsets, *([asker.topic] if asker.topic else [])]
    principals = {"admin": hanging_rights.rights_of(prober, topics)}
    check = hanging_rights.judge(principals)
    if alone or check.result is Result.OK:
        return check
    try:
        with PROBERS.lease(asker.worker.connection(f"ringfence-preflight-{asker.connector}")) as other:
            principals["worker"] = hanging_rights.rights_of(other, topics)
    except FencingError:
        return check  # the worker's own checks report why its principal could not be checked
    return hanging_rights.judge(principals)
