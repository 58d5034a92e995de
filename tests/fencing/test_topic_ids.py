"""Which topics a cluster is made of: what counts as a loss, and that any copy of the record tells it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.offsets.source_offsets import decode_key
from ringfence.fencing.topics import status
from ringfence.fencing.topics.config_records import UnknownKey, decode, encode
from ringfence.fencing.topics.topic_ids import Topic, TopicIds, dumps, explanation, loads, losses, newest, offsets_key

KNOWN = TopicIds(3, {"config": Topic("configs", "A"), "offsets": Topic("offsets", "B")})


@pytest.mark.parametrize(
    ("config", "lost"),
    [
        (Topic("configs", "A"), []),
        (None, ["the config topic configs (id A) is gone"]),
        (Topic("configs", "Z"), ["the config topic configs is no longer the same topic (id Z, it was A)"]),
        (Topic("others", "Z"), []),  # somebody named another topic in the worker's settings
    ],
)
def test_a_topic_that_is_gone_or_replaced_is_lost(config: Topic | None, lost: list[str]) -> None:
    found = {"config": config, "offsets": Topic("offsets", "B"), "status": None}
    assert [str(one) for one in losses(KNOWN, found)] == lost


def test_the_newest_memory_counts() -> None:
    older = TopicIds(2, {"config": Topic("configs", "0")})
    assert newest([None, older, KNOWN, TopicIds(3, {})]) == KNOWN
    assert newest([None]) is None


def test_what_is_the_same_keeps_its_version() -> None:
    assert KNOWN.after(dict(KNOWN.topics)) is KNOWN
    assert KNOWN.after({}).version == 4


@given(st.binary())
def test_bytes_that_are_no_record_are_like_none(value: bytes) -> None:
    loads(value)
    assert isinstance(decode(b"topic-ids", value), TopicIds | UnknownKey)
    status.decode(b"topic-ids", value)


def test_all_three_topics_carry_it() -> None:
    assert decode(*encode(KNOWN)) == KNOWN
    assert status.decode(*status.encode(KNOWN)) == KNOWN
    assert status.apply(status.StatusState(), KNOWN).topic_ids == KNOWN
    assert loads(dumps(KNOWN)) == KNOWN
    assert decode_key(offsets_key("team")) is None  # nobody takes it for a source partition


def test_the_explanation_names_topic_and_remedy() -> None:
    said = explanation(losses(KNOWN, {"config": None, "offsets": Topic("offsets", "B")}))
    assert said.startswith("The config topic configs (id A) is gone")
    assert "ringfence restore" in said
    assert "ringfence topics accept" in said
