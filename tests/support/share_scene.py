"""A share group with something to see: records done, archived by the limit, waiting; and nobody in it."""

from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, Message, ShareMember, alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.support.waiting import eventually

_SETTINGS = {
    "auto.offset.reset": "earliest",
    "heartbeat.interval.ms": "1000",
    "delivery.count.limit": "2",
    "record.lock.duration.ms": "60000",
}


def make_share_group(where: Connection, group: str, topic: str) -> None:
    """Offsets 0 to 4 are given back once, 5 to 9 delivered twice and so archived, 10 to 14 done, and 5 not read."""
    create_topics(where, [TopicSpec(topic, 1, 1)], Deadline.after(30))
    pen = Producer(where.librdkafka(linger_ms=0, batch_num_messages=5))
    for number in range(20):
        pen.produce(topic, b"%d" % number)
        if number % 5 == 4:
            assert pen.flush(30) == 0
    alter_share_group(where, group, _SETTINGS, Deadline.after(20))
    holder, member = (ShareMember(where, group, [topic], name, 5) for name in ("holder", "worker"))
    held = _poll(holder, 0)
    for first, answer in ((5, Answer.RELEASE), (5, Answer.RELEASE), (10, Answer.ACCEPT)):
        _answer(member, _poll(member, first), answer)
    _answer(holder, held, Answer.RELEASE)
    holder.close()
    member.close()


def _poll(member: ShareMember, first: int) -> list[Message]:
    found: list[Message] = eventually(lambda: member.poll(1.0), 30, "records", pause=0.0)
    assert found[0].offset() == first, found[0].offset()
    return found


def _answer(member: ShareMember, messages: list[Message], answer: Answer) -> None:
    for message in messages:
        member.answer(message, answer)
    member.send_answers(10.0)
