"""Commands to paste."""

import shlex

from ringfence.consumer_commands import consumer_commands


def test_a_topic_is_quoted_and_a_login_is_in_a_file() -> None:
    open_, secured = (
        {each.tool: shlex.split(each.text) for each in consumer_commands("h:9092", "a b;c", settings)}
        for settings in ({}, {"security.protocol": "SASL_SSL", "sasl.password": "s3cret"})
    )
    assert all("a b;c" in words and "h:9092" in words for words in open_.values())
    assert "isolation.level=read_committed" in open_["kcat"]
    assert "read_committed" in open_["kafka-console-consumer.sh"]
    assert all("client.properties" not in words for words in open_.values())
    assert all("client.properties" in words and "s3cret" not in " ".join(words) for words in secured.values())


def test_the_file_of_an_embedded_kafka_is_named() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.password": "s3cret"}
    kcat, console = (each.text for each in consumer_commands("h:1", "t", settings, "/data x/kafka-client.properties"))
    assert "-F '/data x/kcat.conf'" in kcat
    assert "--consumer.config '/data x/kafka-client.properties'" in console
    assert "s3cret" not in kcat + console
