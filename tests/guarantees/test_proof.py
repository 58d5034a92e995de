"""The exactly-once proof on a real broker: it holds for what tasks write, and fails for each way to break the promise.

The rogue has every permission and writes what no task would: twice, without data, torn, late.
"""

import json

import pytest
from confluent_kafka import Producer as PlainProducer

from ringfence.connectors.api import PositionPaths
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts, encode
from ringfence.fencing.offsets.source_offsets import encode_key, encode_value
from ringfence.fencing.proof import count as proof_count
from ringfence.fencing.proof.alignment import Result
from ringfence.fencing.proof.count import Counting, ProofCounts, ProofScope
from ringfence.fencing.proof.verdict import EXACT, FAILED, make_checks, to_json, verdict
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import PARTITION, Script, Stage
from tests.support.transactions import await_markers
from tests.support.waiting import eventually


def count(stage: Stage, *, by_place: bool = True) -> ProofCounts:
    asked = ProofScope(
        stage.connector,
        stage.topics.offsets,
        [stage.data],
        [f"{stage.group}-{stage.connector}-0"],
        positions=PositionPaths("value") if by_place else None,
    )
    told: list[tuple[str, int, int]] = []
    found = Counting(
        stage.connection, stage.connection, asked, Deadline.after(60), lambda *each: told.append(each)
    ).run()
    assert told, "nobody was told of the progress"
    return found


def judge(found: ProofCounts) -> tuple[str, dict[str, Result], dict[str, int | None]]:
    checks = make_checks(found, None, "", "")
    counts = to_json(found, checks)["counts"]
    json.dumps(counts)
    return verdict(checks), {each.name: each.result for each in checks}, counts


def ready(stage: Stage) -> dict[str, str]:
    made = {"topic": stage.data}
    stage.configure(made)
    stage.count()
    return made


def write(stage: Stage, records: int) -> None:
    """A generation of one attempt, from where the last one ended."""
    made = ready(stage)
    stage.start(Script(limit=records), made).finish_after(records)
    eventually(lambda: len(stage.visible()) >= records, 30, "the records")


class Rogue:
    """Writes under a transactional id, with the offsets and the counts that it likes."""

    def __init__(self, stage: Stage, transactional_id: str) -> None:
        self.stage = stage
        self.producer = Producer(stage.connection, transactional_id)
        self.producer.init(Deadline.after(30))
        self.producer.begin()

    def data(self, *numbers: int) -> None:
        for number in numbers:
            self.producer.produce(self.stage.data, str(number).encode())

    def offset(self, at: int, generation: int, attempt: int, records: int) -> None:
        told = AttemptCounts(0, generation, attempt, RecordCounts(records))
        key = encode_key(self.stage.connector, PARTITION)
        value = encode_value({"next": at})
        self.producer.produce(self.stage.topics.offsets, value, key, headers=encode(told))

    def commit(self) -> None:
        self.producer.commit(Deadline.after(30))
        self.producer.close()
        await_markers(self.stage.connection, self.producer.transactional_id)


def task_id(stage: Stage) -> str:
    return f"{stage.group}-{stage.connector}-0"


def test_what_tasks_write_is_proved_over_generations_and_attempts(stage: Stage) -> None:
    write(stage, 500)
    write(stage, 900)
    made = {"topic": stage.data}
    stage.start(Script(limit=1000), made, attempt=2).finish_after(1000)
    stage.wait_for(1000)
    found = count(stage)
    outcome, results, counts = judge(found)
    assert outcome == EXACT, results
    assert len(found.alignments) == 3
    assert (counts["visible"], counts["doubles"], counts["gaps"], counts["others"]) == (1000, 0, 0, 0)
    assert counts["transactions"] == 1000 // 50
    assert [each.offset for each in found.offsets] == [{"next": 1000}]


def test_all_places_are_read_though_the_broker_is_slow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    write(stage, 500)
    monkeypatch.setattr(proof_count, "_STALL_SECONDS", 0.0)
    found = count(stage)
    assert found.positions is not None
    assert found.positions.records == 500


def test_a_task_that_goes_on_meanwhile_is_proved_up_to_what_was_committed(stage: Stage) -> None:
    made = ready(stage)
    stage.start(Script(batch=7), made)
    stage.wait_for(2000)
    for _ in range(3):
        before = stage.offset()
        found = count(stage)
        outcome, results, _ = judge(found)
        assert outcome == EXACT, (results, found.alignments)
        (aligned,) = found.alignments.values()
        assert aligned.total >= before, "what was committed before the count must be judged"


def test_a_record_that_a_rogue_writes_again_is_a_double(stage: Stage) -> None:
    write(stage, 200)
    producer = PlainProducer({"bootstrap.servers": stage.connection.bootstrap})
    producer.produce(stage.data, b"137")
    assert producer.flush(30) == 0
    outcome, results, counts = judge(count(stage))
    assert (outcome, results["gaps and doubles"]) == (FAILED, Result.FAILED)
    assert (counts["visible"], counts["others"], counts["doubles"], counts["gaps"]) == (200, 1, 1, 0)
    # Without places it cannot be told from another program's record; then it says so, and claims nothing of gaps.
    outcome, results, counts = judge(count(stage, by_place=False))
    assert (outcome, results["other producers"], results["gaps and doubles"]) == (EXACT, Result.NOTE, Result.UNKNOWN)
    assert (counts["doubles"], counts["gaps"]) == (None, None)


def test_offsets_that_were_committed_without_their_data_are_a_gap(stage: Stage) -> None:
    write(stage, 200)
    rogue = Rogue(stage, task_id(stage))
    rogue.offset(250, stage.generation, 1, 250)
    rogue.commit()
    stage.start(Script(limit=300), {"topic": stage.data}, attempt=2).finish_after(300)
    found = count(stage)
    outcome, results, counts = judge(found)
    assert (outcome, results["transactions"]) == (FAILED, Result.FAILED)
    assert [each.difference for each in found.alignments.values()] == [-50, 0]
    assert (counts["gaps"], counts["doubles"]) == (50, 0)


def test_a_torn_transaction_is_found(stage: Stage) -> None:
    """Its offsets are committed, its records were aborted by a marker that somebody wrote to their partition."""
    write(stage, 200)
    rogue = Rogue(stage, task_id(stage))
    rogue.data(*range(200, 230))
    rogue.offset(230, stage.generation, 1, 230)
    assert rogue.producer.flush(30) == 0
    with HangingProber(stage.connection) as prober:
        (open_,) = prober.open_on([stage.data])
        prober.abort(open_)
    rogue.commit()
    found = count(stage, by_place=False)
    outcome, results, counts = judge(found)
    assert (outcome, results["transactions"]) == (FAILED, Result.FAILED)
    assert [each.difference for each in found.alignments.values()] == [-30]
    assert (counts["visible"], counts["aborted"]) == (200, 30)


def test_records_without_source_offsets_are_found(stage: Stage) -> None:
    write(stage, 200)
    rogue = Rogue(stage, task_id(stage))
    rogue.data(1000, 1001)
    rogue.commit()
    outcome, results, _ = judge(count(stage, by_place=False))
    assert (outcome, results["records without source offsets"]) == (FAILED, Result.FAILED)
    assert results["transactions"] is Result.OK


def test_a_write_of_an_older_generation_is_found(stage: Stage) -> None:
    write(stage, 200)
    older = stage.generation
    write(stage, 300)
    assert judge(count(stage))[1]["older generations"] is Result.OK
    zombie = Rogue(stage, f"{stage.group}-unfenced")
    zombie.data(300)
    zombie.offset(301, older, 1, 201)
    zombie.commit()
    outcome, results, _ = judge(count(stage, by_place=False))
    assert (outcome, results["older generations"]) == (FAILED, Result.FAILED)
    assert results["transactions"] is Result.OK, "its counts are right: only its place is not"


def test_an_open_transaction_holds_nobody_and_is_told(stage: Stage) -> None:
    write(stage, 200)
    rogue = Rogue(stage, f"{stage.group}-other")
    rogue.data(1, 2, 3)
    assert rogue.producer.flush(30) == 0
    outcome, _, counts = judge(count(stage, by_place=False))
    assert (outcome, counts["others"], counts["open"]) == (EXACT, 0, 0)
    rogue.commit()
