"""A configuration may bring config providers for Kafka's clients within a Java connector: they must not read files."""

import subprocess
from pathlib import Path

import pytest

from ringfence.connectors.java.processes import start_jvm
from tests.support.java_plugins import FILE_STREAM, plugin_path, runtime_of

_CLIENT = """
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerConfig;

public class Client {
    public static void main(String[] arguments) {
        System.out.println(new ProducerConfig(Map.of(
            "bootstrap.servers", "localhost:9092",
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "config.providers", "d",
            "config.providers.d.class", "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "client.id", "${d:" + arguments[0] + ":secret}"
        )).getString("client.id"));
    }
}
"""


@pytest.mark.thorough
def test_a_client_within_a_connector_reads_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file")
    source = tmp_path / "Client.java"
    source.write_text(_CLIENT)
    runtime = runtime_of(plugin_path(tmp_path, FILE_STREAM))
    arguments = [str(tmp_path)]
    pipe = subprocess.PIPE
    process = start_jvm(
        runtime, (), str(source), arguments, str(tmp_path), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    output, errors = process.communicate(timeout=120)
    assert process.returncode != 0, output
    assert b"from a file" not in output + errors
    assert b"automatic.config.providers" in errors or b"not allowed" in errors, errors.decode()
