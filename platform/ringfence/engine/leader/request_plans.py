"""The plans of requests to running tasks: records of the config topic that the tasks follow."""

from collections.abc import Mapping

from ringfence.engine.leader.command_plans import Plan, Records, require_existing
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.signals import SignalsRecord, add_signal
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.requests.refusal import Refusal


def request_sweep(record: SweepRequestRecord) -> Plan:
    """Have the tasks of a running connector check these offsets now, instead of when they are due."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, record.connector, f"Connector {record.connector} not found")
        if connector.target is not TargetState.RUNNING:
            raise Refusal(
                409,
                f"Connector {record.connector} is not running: nothing was done. Resume it and repeat the request; "
                "its sweep reads what is not done in any case",
            )
        return [record]

    return plan


def send_signal(name: ConnectorName, kind: str, data: Mapping[str, object], now_ms: int) -> Plan:
    """Send the connector's tasks a signal. Tasks that do not run now read it when they start."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Connector {name} not found")
        return [SignalsRecord(name, add_signal(connector.signals, kind, data, now_ms))]

    return plan
