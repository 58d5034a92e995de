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
