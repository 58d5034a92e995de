"""Checks an account's quota against all of its connectors, in the plan that saves one. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.sdk.worker_limits import MAX_TASKS
from ringfence.engine.leader.command_plans import Plan, Records
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests.quota import NO_LIMITS, QUOTAS, Quota
from ringfence.requests.refusal import Refusal

_OPTIONS: Final = {"connectors": "--connectors", "tasks": "--tasks", "config_bytes": "--config-bytes"}

_MOST_COUNTED: Final = 10_000
_counted: Final[dict[str, tuple[Mapping[str, str], int, Quota]]] = {}
"""What a connector takes with the configuration and the tasks that it had last."""


def usage_of(config: Mapping[str, str], tasks: int = 0) -> Quota:
    """Return what one connector takes. tasks: how many it has now, for a connector that may exceed its `tasks.max`."""
    text = config.get(TASKS_MAX, "1").strip()
    tasks_max = int(text[:10]) if text.isascii() and text.isdigit() else 1
    size = len("".join([*config, *config.values()]).encode())  # one string: thousands of connectors are counted
    return Quota(1, max(min(tasks_max, MAX_TASKS), tasks), size)


def usage(state: ClusterState, account: str) -> Quota:
    """Return what the account's connectors take in all."""
    return _sum([_usage_now(each) for each in state.existing() if _owner(each) == account])


def require(state: ClusterState, account: str, quota: Quota, name: ConnectorName, config: Mapping[str, str]) -> None:
    """Raise a `Refusal` with 403 if the account would have more than its quota with this configuration saved.

    What does not grow is never refused: an account may be above a quota that is younger than its connectors.
    """
    before = state.connector(name)
    mine = before.config is not None and _owner(before) == account
    had = _usage_now(before) if mine else Quota(0, 0, 0)
    have, want = usage(state, account), usage_of(config)
    for each, what in QUOTAS.items():
        used, limit = getattr(have, each), getattr(quota, each)
        after = used - getattr(had, each) + getattr(want, each)
        if after > max(limit, used):
            raise Refusal(
                403,
                f"Connector {name} was not saved: account {account} would have {after:,} {what}, uses {used:,}, and "
                f"its quota is {limit:,}. Delete connectors that are not needed, or ask an administrator for a larger "
                f"quota: `ringfence users grant {account} … {_OPTIONS[each]} {after}`, or the console's Grant page.",
            )


def within(plan: Plan, account: str, quota: Quota, name: ConnectorName, config: Mapping[str, str]) -> Plan:
    """Return the plan, refused where the write would pass the quota: two commands at once cannot both have the rest."""

    def plan_and_check(state: ClusterState) -> Records:
        records = plan(state)
        if quota != NO_LIMITS:
            require(state, account, quota, name, config)
        return records

    return plan_and_check


def _owner(connector: ConnectorState) -> str:
    return "" if connector.topic_grant is None else connector.topic_grant.user


def _usage_now(connector: ConnectorState) -> Quota:
    """Count a configuration once: each creation looks at all connectors of its account."""
    config, tasks = connector.config or {}, 0 if connector.commit is None else connector.commit.tasks
    last = _counted.get(connector.name)
    if last is not None and last[0] is config and last[1] == tasks:
        return last[2]
    if len(_counted) > _MOST_COUNTED:
        _counted.clear()
    counted = usage_of(config, tasks)
    _counted[connector.name] = config, tasks, counted
    return counted


def _sum(usages: Sequence[Quota]) -> Quota:
    sums = [
        sum(column)
        for column in zip(*((each.connectors, each.tasks, each.config_bytes) for each in usages), strict=True)
    ]
    return Quota(*sums) if sums else Quota(0, 0, 0)
