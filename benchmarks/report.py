"""The tables, as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cases import BATCHES, CONNECT, KINDS, PLAIN, SINGLE, TITLES, Case
from benchmarks.numbers import Numbers

_RULES = (
    ("interval", BATCHES, 8, 1.8, 0.12),
    ("interval", SINGLE, 4, None, 1),
    ("poll", BATCHES, 3, None, 0.35),
    ("poll", SINGLE, 1.2, None, 1),
)
"""The targets: a multiple of Kafka Connect's records/s, of the bare librdkafka loop's, and of Connect's CPU time."""
TASK_MIB = 120


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to reach."""

    text: str
    value: str
    reached: bool


Results = Mapping[Case, Numbers]


def table(results: Results, boundary: str) -> str:
    """Return one boundary's table; the ratios are relative to Kafka Connect, and to the bare loop."""
    rows = [
        "| who | records/s | x Connect | of the bare loop | CPU s a million | x Connect | first record | "
        "tree RSS / PSS | task RSS / PSS |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    peer, bare = results.get(Case(CONNECT, boundary)), results.get(Case(PLAIN, boundary))
    for kind in KINDS:
        if (one := results.get(Case(kind, boundary))) is not None:
            rows.append(_row(TITLES[kind], one, peer, bare, task=kind in (BATCHES, SINGLE)))
    return "\n".join(rows)


def _row(title: str, one: Numbers, peer: Numbers | None, bare: Numbers | None, *, task: bool) -> str:
    cells = (
        title,
        f"{one.records_s:,.0f}",
        f"{one.records_s / peer.records_s:.2f}" if peer else "",
        f"{one.records_s / bare.records_s:.0%}" if bare else "",
        f"{one.cpu_s_per_million:.2f}",
        f"{one.cpu_s_per_million / peer.cpu_s_per_million:.2f}" if peer else "",
        f"{one.first_s:.2f} s",
        f"{one.tree_rss_mib:.0f} / {one.tree_pss_mib:.0f} MiB",
        f"{one.task_rss_mib:.0f} / {one.task_pss_mib:.0f} MiB" if task else "",
    )
    return "| " + " | ".join(cells) + " |"


def targets(results: Results) -> list[Target]:
    """Return the targets that were measured."""
    targets_met = []
    for boundary, kind, factor, share, most_cpu in _RULES:
        one, peer = results.get(Case(kind, boundary)), results.get(Case(CONNECT, boundary))
        if one is None or peer is None:
            continue
        who = f"`{boundary}`, {TITLES[kind].removeprefix('Ringfence, ')}"
        speed, cpu = one.records_s / peer.records_s, one.cpu_s_per_million / peer.cpu_s_per_million
        targets_met.append(Target(f"{who}: at least {factor} x Connect's records/s", f"{speed:.2f} x", speed >= factor))
        bare = results.get(Case(PLAIN, boundary))
        if share is not None and bare is not None:
            part = one.records_s / bare.records_s
            text = f"{who}: at least {share:.0%} of the bare librdkafka loop's"
            targets_met.append(Target(text, f"{part:.0%}", part >= share))
        text = f"{who}: at most {most_cpu:g} x Connect's CPU time for a record"
        targets_met.append(Target(text, f"{cpu:.2f} x", cpu <= most_cpu))
        below = one.task_rss_mib < TASK_MIB
        targets_met.append(
            Target(f"{who}: the task's process below {TASK_MIB} MiB RSS", f"{one.task_rss_mib:.0f} MiB", below)
        )
    return targets_met


def listed(targets: Sequence[Target]) -> str:
    """Return targets as a Markdown table."""
    rows = [f"| {target.text} | {target.value} | {'yes' if target.reached else 'no'} |" for target in targets]
    return "\n".join(("| target | measured | reached |", "|---|--:|---|", *rows))
