"""Checks each principal's permissions on the topics that it reads, writes or creates."""

from collections.abc import Iterator
from typing import Final

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.engine.preflight.subject import Check, Result, Subject, check_granted
from ringfence.engine.queries.hanging_transactions import ids_of
from ringfence.fencing.kafka.client_settings import is_other_cluster
from ringfence.fencing.kafka.permission_probes import Permission, Prober
from ringfence.fencing.offsets.stores import OffsetStores

_AUTHORIZER: Final = "authorizer.class.name"


def check_writing(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the producer's permissions: offsets and records."""
    topic, offsets = subject.topic, stores.effective.name
    topics = [offsets, *([topic] if topic else [])]
    if subject.transactional:
        (first_id,) = ids_of(subject.connector, 1, subject.worker)
        permissions = prober.write_topics(first_id, topics)
    else:
        permissions = {name: prober.topic(name).write for name in topics}
    yield check_granted("producer", "Write", "Topic", {offsets: permissions[offsets]}, OFFSETS_STORAGE_TOPIC)
    if not topic:
        text = "The connector chooses its topics by itself, so this was not checked."
        yield Check("producer Write Topic", Result.UNKNOWN, text, "Make sure that it may write to them.")
        return
    yield check_granted("producer", "Write", "Topic", {topic: permissions[topic]}, "topic")
    if prober.topic(topic).exists is False:  # another client may still create it
        answer = {topic: prober.create_topic(topic)}
        yield check_granted("producer", "Create", "Topic", answer, "topic", decides=False)


def check_config_topic(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    """Check that the tasks' login cannot forge the workers' records, if the cluster distinguishes logins."""
    worker = subject.worker
    if is_other_cluster(worker.bootstrap, worker.settings, subject.config):
        return
    authorizer = prober.broker_setting(_AUTHORIZER)
    if authorizer == "":
        return  # every client may do anything there
    yield check_config_topic_closed(worker.config_topic, prober.topic(worker.config_topic).write)


def check_reading(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the consumer's permissions: offsets."""
    offsets = stores.effective.name
    answer = {offsets: prober.topic(offsets).read}
    yield check_granted("consumer", "Read", "Topic", answer, OFFSETS_STORAGE_TOPIC)


def check_describing(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the admin's permissions: the offsets topic."""
    offsets = stores.effective.name
    answer = {offsets: prober.topic(offsets).describe}
    yield check_granted("admin", "Describe", "Topic", answer, OFFSETS_STORAGE_TOPIC)


def check_creating(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the admin's permissions: the connector's own offsets topic, which is created before the first
    task starts.
    """
    if stores.own is not None and prober.topic(stores.own.name).exists is False:
        answer = {stores.own.name: prober.create_topic(stores.own.name)}
        yield check_granted("admin", "Create", "Topic", answer, OFFSETS_STORAGE_TOPIC)


def check_config_topic_closed(topic: str, may: Permission) -> Check:
    """Check that the broker does not let the tasks' login write the config topic.

    This is a second line of defence: a task refuses records to that topic, too.
    """
    name = "producer kept out of the config topic"
    match may:
        case Permission.NO:
            return Check(name, Result.OK, f"The tasks' producer may not write {topic}.")
        case Permission.YES:
            text = f"The tasks' producer may write {topic}: only the task itself keeps records out of it."
            remedy = (
                "Give tasks a separate login with the worker setting producer.sasl.jaas.config, without Write on "
                "that topic, or connectors by producer.override.sasl.jaas.config."
            )
            return Check(name, Result.FAILED, text, remedy)
        case _:
            text = f"It is unknown whether the tasks' producer may write {topic}."
            return Check(name, Result.UNKNOWN, text, f"Grant it no Write on topic {topic}.")
