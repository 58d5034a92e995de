"""The overview's sentence: it names what is wrong, counts in proper English, and never calls the unknown well."""

import pytest

from ringfence.web.lists.overview import judge


@pytest.mark.parametrize(
    ("counts", "worst", "sentence", "tone"),
    [
        ({}, [], "There are no connectors yet.", "rest"),
        ({"HEALTHY": 1}, [], "All is well: the connector is in the requested state.", "ok"),
        ({"HEALTHY": 7, "PAUSED": 1}, [], "All is well: all 8 connectors are in the requested state.", "ok"),
        ({"HEALTHY": 7, "UNHEALTHY": 1}, ["a"], "1 of 8 connectors needs attention: a.", "bad"),
        ({"UNHEALTHY": 1}, ["a"], "The only connector needs attention: a.", "bad"),
        ({"HEALTHY": 1, "STALLED": 2}, ["a", "b"], "2 of 3 connectors need attention: a and b.", "bad"),
        ({"DEGRADED": 5}, ["a", "b", "c"], "5 of 5 connectors need attention: a, b and 3 more.", "bad"),
        ({"HEALTHY": 3, "STARTING": 1}, [], "1 of 4 connectors is starting.", "motion"),
        ({"STOPPING": 2, "STARTING": 1}, [], "3 of 3 connectors are starting (1), stopping (2).", "motion"),
        ({"UNKNOWN": 1, "HEALTHY": 1}, ["a"], "1 of 2 connectors needs attention: a.", "bad"),
        ({"A_NEW_WORD": 1, "HEALTHY": 1}, ["a"], "1 of 2 connectors needs attention: a.", "bad"),
    ],
)
def test_one_sentence_says_how_all_is(counts: dict[str, int], worst: list[str], sentence: str, tone: str) -> None:
    verdict = judge(counts, worst)
    assert (verdict.sentence, verdict.tone) == (sentence, tone)
    assert ("1 need attention" in " ".join(f"{each.count} {each.word.lower()}" for each in verdict.shares)) is False
    assert sum(share.count for share in verdict.shares) == sum(counts.values())
    assert sum(share.width for share in verdict.shares) == pytest.approx(100 if counts else 0, abs=0.1)


def test_nothing_is_called_well_while_nobody_reports() -> None:
    assert judge({"HEALTHY": 3}, [], stale=True).tone == "unknown"


def test_who_waits_for_a_slot_is_not_called_well_and_not_worse_than_a_failure() -> None:
    waits = judge({"HEALTHY": 2, "STARTING": 2}, ["late"], placeless=["late"])
    assert (waits.sentence, waits.tone) == ("1 of 4 connectors waits for a slot: late.", "warn")
    failed = judge({"UNHEALTHY": 1, "STARTING": 1}, ["bad", "late"], placeless=["late"])
    assert failed.sentence == "1 of 2 connectors needs attention: bad."
