"""Configurations in the config topic under the platform's keys: nobody reads them without, and nothing starts again."""

import base64
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName, Generation, TaskId
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.leader.fencing_round import plan
from ringfence.fencing.records.writable_topics import OffsetsTopics
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_encryption import NO_KEYS, EncryptionWatch, Vault, encrypt
from ringfence.fencing.topics.config_log import fold
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TaskCountRecord,
    TaskRecord,
    encode,
)
from ringfence.fencing.topics.config_value import is_clear
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.session_keys import SessionKeys, SignatureCheck
from tests.support.cluster_states import histories, verdicts
from tests.support.examples import examples

C = ConnectorName("c")
SECRET = "hunter22"
CONFIG = {
    "connector.class": "VerifiableSource",
    "topic": "t",
    "offsets.storage.topic": "mine",
    "db.password": SECRET,
    "producer.override.sasl.password": SECRET,
    "producer.override.bootstrap.servers": "elsewhere:9092",
}


class Keys:
    """A vault that hides nothing from a reader of this test; each key's texts are its own."""

    def __init__(self, *known: str, key: str = "") -> None:
        """key: what is written is under it."""
        self.known, self.key = known, key

    def key_of(self, ciphertext: str) -> str:
        return ciphertext.split(":")[0] if ciphertext else ""

    def encrypt(self, clear: str, about: str) -> str:
        return f"{self.key}:{about}:{base64.b64encode(clear.encode()).decode()}"

    def decrypt(self, ciphertext: str, about: str) -> str:
        key, belongs, text = ciphertext.split(":")
        if key not in self.known or belongs != about:
            raise ValueError(f"add key {key}")
        return base64.b64decode(text).decode()


A, B = Keys("a", key="a"), Keys("a", "b", key="b")


def written(records: Sequence[ConfigRecord | None], vault: Vault, start: int = 0) -> list[LogRecord]:
    """As they stand in the topic, from the offset `start` on; None is one that is compacted away."""
    found = []
    for offset, record in enumerate(records, start):
        if record is not None:
            key, value = encode(encrypt(record, vault))
            found.append(LogRecord(0, offset, key, value, 0))
    return found


def running(target: Mapping[str, str] = CONFIG) -> list[ConfigRecord]:
    generation = Generation(2)
    return [ConnectorRecord(C, CONFIG), TaskRecord(TaskId(C, 0), CONFIG), CommitRecord(C, 1),
            TaskCountRecord(C, 1, generation, target, elsewhere=True)]  # fmt: skip


def read(log: Sequence[LogRecord], vault: Vault) -> ConnectorState:
    return fold(ClusterState(), log, "config", vault).connector(C)


def renewed(log: Sequence[LogRecord], vault: Vault, end: int) -> list[LogRecord]:
    """What the leader adds."""
    watch = EncryptionWatch(vault)
    watch.look(log)
    return written(watch.renewals(fold(ClusterState(), log, "config", vault)), vault, end)


def test_no_value_that_may_be_secret_is_readable_and_with_the_key_all_is_as_it_was() -> None:
    log = written(running(), A)
    for record in log:
        assert SECRET.encode() not in (record.value or b"")
        assert b'"properties"' not in (record.value or b"")
    assert read(log, A) == read(written(running(), NO_KEYS), A)
    assert read(log, A).config == CONFIG
    names = OffsetsTopics()  # of a task, which has no key
    assert [names.apply(record) for record in log[:1]] == [True]
    assert names.names == {"mine"}


def test_an_encrypted_text_counts_under_its_own_name_only() -> None:
    log = written(running(), A)
    moved = [LogRecord(0, 0, b"connector-other", log[0].value, 0)]
    assert fold(ClusterState(), moved, "config", A).connector(ConnectorName("other")).unreadable


def test_a_session_key_is_encrypted_and_a_leader_without_the_key_makes_another() -> None:
    keys = SessionKeys.of({})
    made = keys.make_key(1000)
    log = written([made], A)
    assert made.key.encode() not in (log[0].value or b"")
    assert fold(ClusterState(), log, "config", A).session_key == made
    for vault in (NO_KEYS, Keys("b", key="b")):
        found = fold(ClusterState(), log, "config", vault).session_key
        assert keys.due(found, 1000)
        signature = base64.b64encode(hmac.new(b"", b"", "sha256").digest()).decode()
        assert keys.verdict(found, b"", signature, "HmacSHA256") is not SignatureCheck.VALID


def test_without_the_key_the_connector_stops_with_the_remedy_and_no_round_begins() -> None:
    log = written([*running(), CommitRecord(C, 1)], A)
    found = read(log, Keys("b", key="b"))
    assert "add key a" in (found.unreadable or "")
    assert "tombstone" not in (found.unreadable or ""), "who follows that loses the connector"
    assert found.count is not None
    assert (found.count.tasks, found.count.partial, found.round_pending) == (1, True, True)
    assert plan(found, "g") is None
    stopped = plan(read([*log, *written([CommitRecord(C, 0)], A, len(log))], Keys("b", key="b")), "g")
    assert stopped is not None, "a stop ends what may be alive"
    assert stopped.ids == ["g-c-0"]
    watch = EncryptionWatch(Keys("b", key="b"))
    watch.look(log)
    assert watch.counts == {"a": 3}
    assert watch.renewals(fold(ClusterState(), log, "config", Keys("b", key="b"))) == []
    mended = plan(read(log, B), "g")
    assert mended is not None
    assert mended.target == CONFIG
    assert read(log, NO_KEYS).unreadable


def test_what_is_clear_or_under_an_older_key_is_written_again_and_nothing_is_newer_than_before() -> None:
    log = written(running(), NO_KEYS)
    before = read(log, NO_KEYS)
    for vault, under in ((A, "a"), (B, "b"), (Keys("a", "b"), "")):  # switched on, rotated, switched off
        log = [*log, *renewed(log, vault, len(log))]
        newest = {record.key: record for record in log}
        watch = EncryptionWatch(vault)
        watch.look(log)
        assert watch.counts == {under: 3}
        assert renewed(log, vault, len(log)) == []
        hidden = [SECRET.encode() not in (record.value or b"") for record in newest.values()]
        assert all(hidden) == bool(under)
        for kept in (log, sorted(newest.values(), key=lambda record: record.offset)):
            now = read(kept, vault)
            assert (now.runnable, now.config, now.config_offset) == (True, CONFIG, 0)
            assert (now.tasks, now.commit, now.count) == (before.tasks, before.commit, before.count)


@settings(max_examples=examples(200))
@given(histories, st.integers(0, 40), st.booleans())
def test_writing_again_changes_no_verdict_with_or_without_compaction(
    history: Sequence[ConfigRecord], at: int, compact: bool
) -> None:
    at = min(at, len(history))
    before, after = history[:at], history[at:]
    log = written(before, NO_KEYS)
    again = renewed(log, A, at)
    # The same without the renewal: its records are gaps, so that all later offsets are alike.
    plain = [*written(before, NO_KEYS), *written(after, NO_KEYS, at + len(again))]
    encrypted = [*log, *again]
    if compact:
        newest = {record.key: record.offset for record in encrypted}
        encrypted = [record for record in encrypted if newest[record.key] == record.offset]
    encrypted += written(after, A, at + len(again))
    assert verdicts(read(encrypted, A)) == verdicts(read(plain, NO_KEYS))
    assert read(encrypted, A).config_offset == read(plain, NO_KEYS).config_offset or compact


def test_a_task_of_no_generation_is_not_left_in_clear() -> None:
    """Three tasks became one: nothing reads the others' records any more, but whoever reads the topic."""
    log = written(
        [ConnectorRecord(C, CONFIG), *(TaskRecord(TaskId(C, n), CONFIG) for n in range(3)), CommitRecord(C, 3),
         TaskRecord(TaskId(C, 0), CONFIG), CommitRecord(C, 1)],
        NO_KEYS,
    )  # fmt: skip
    log += renewed(log, A, len(log))
    newest = {record.key: record.value or b"" for record in log}
    assert not any(SECRET.encode() in value for value in newest.values())
    assert read(log, A).startable


def test_a_large_topic_is_written_again_in_several_transactions() -> None:
    log = written([ConnectorRecord(ConnectorName(f"c{n}"), CONFIG) for n in range(450)], NO_KEYS)
    sizes = []
    while more := renewed(log, A, len(log)):
        sizes.append(len(more))
        log += more
    assert sizes == [200, 200, 50]


def test_a_stand_in_is_never_newer_than_its_record() -> None:
    folding = Fold(ClusterState())
    folding.apply(3, replace(ConnectorRecord(C, CONFIG), of=99))
    assert folding.state.connector(C).config_offset == 3


def test_a_count_whose_key_is_lost_is_kept_though_its_connector_was_saved_again() -> None:
    log = written(running(), A)
    other = Keys("b", key="b")
    log += written([ConnectorRecord(C, CONFIG), TaskRecord(TaskId(C, 0), CONFIG), CommitRecord(C, 1)], other, len(log))
    now = read(log, other)
    assert (now.unreadable, now.round_pending, renewed(log, other, len(log))) == (None, True, [])
    due = plan(now, "g")
    assert due is not None
    assert (due.ids, due.target) == (["g-c-0"], {name: CONFIG[name] for name in CONFIG if is_clear(name)})
