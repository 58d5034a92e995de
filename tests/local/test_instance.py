"""One directory, one `ringfence up`; what the first start chose, the next one keeps."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ringfence.local.data_directory import DataDirectory
from ringfence.local.environment import choose_encryption, complete, lines_about_encryption, worker_properties
from ringfence.local.errors import LocalError
from ringfence.local.ports import free_port
from ringfence.worker_config import WorkerConfig

HOLDER = """
import sys, time
from pathlib import Path
from ringfence.local.data_directory import DataDirectory
with DataDirectory(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    time.sleep(1000)
"""


def ringfence(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ringfence.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_second_up_on_the_same_directory_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        refused = ringfence("up", "--data", str(tmp_path))
        assert refused.returncode == 1
        assert f"Another `ringfence up` (process {holder.pid}) is running on {tmp_path}" in refused.stderr
        assert "--data DIR" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with DataDirectory(tmp_path).lock():
        assert int((tmp_path / "lock").read_text()) == os.getpid()


@pytest.mark.parametrize("flag", ["--http", "--kafka"])
def test_a_port_in_use_is_one_line_that_names_the_port_and_the_flag(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        others = [] if flag == "--http" else ["--http", f"127.0.0.1:{free_port()}"]
        refused = ringfence("up", "--data", str(tmp_path), flag, f"127.0.0.1:{port}", *others)
    assert refused.returncode == 1
    assert f"Port {port} is in use" in refused.stderr
    assert f"choose another with {flag} 127.0.0.1:PORT" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_choices_and_the_secret_key_are_kept(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    first.remember("kafka", "9092")
    key = first.secret_key()
    second = DataDirectory(tmp_path)
    assert second.recall("kafka") == "9092"
    assert second.recall("redis") is None
    assert second.secret_key() == key
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600


def test_damaged_state_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(LocalError, match="delete it"):
        DataDirectory(tmp_path).recall("kafka")


def test_a_worker_file_becomes_environment_variables(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text('# a comment\nbootstrap.servers=a:1,b:2\n\ngroup.id : mine\nproducer.sasl.jaas.config=x y="z";\n')
    assert worker_properties(file) == {
        "CONNECT_BOOTSTRAP_SERVERS": "a:1,b:2",
        "CONNECT_GROUP_ID": "mine",
        "CONNECT_PRODUCER_SASL_JAAS_CONFIG": 'x y="z";',
    }
    file.write_text("nonsense\n")
    with pytest.raises(LocalError, match="line 1 is not key=value"):
        worker_properties(file)


def test_what_is_set_already_stays(tmp_path: Path) -> None:
    given = {"CONNECT_GROUP_ID": "mine", "CONNECT_OFFSET_STORAGE_TOPIC": "my-offsets", "RINGFENCE_SECRET_KEY": "s"}
    where = {"bootstrap": "127.0.0.1:9", "redis_url": "redis://127.0.0.1:8/0", "http": "127.0.0.1:7"}
    env = complete(given, DataDirectory(tmp_path), embedded_kafka=True, **where)
    assert env | given == env
    assert env["CONNECT_CONFIG_STORAGE_TOPIC"] == "connect-configs"
    assert env["CONNECT_EVENTS_STORAGE_REPLICATION_FACTOR"] == "1"
    assert env["RINGFENCE_DATABASE_URL"] == f"sqlite:///{tmp_path}/ringfence.sqlite3"
    outside = complete(given, DataDirectory(tmp_path), embedded_kafka=False, **where)
    assert "CONNECT_EVENTS_STORAGE_REPLICATION_FACTOR" not in outside


def test_a_new_folder_encrypts_the_topic_and_logs_in(tmp_path: Path) -> None:
    """One that has Kafka's data keeps what it has; an explicit setting wins; another Kafka is none of this."""
    where = {"bootstrap": "127.0.0.1:9", "redis_url": "redis://127.0.0.1:8/0", "http": "127.0.0.1:7"}
    setting = "CONNECT_CONFIG_STORAGE_ENCRYPTION_ENABLE"
    new, old = DataDirectory(tmp_path / "new"), DataDirectory(tmp_path / "old")
    new.root.mkdir()
    (old.root / "kafka" / "logs").mkdir(parents=True)
    for instance in (new, old):
        assert setting not in complete({}, instance, embedded_kafka=True, **where), "as a command sees it before `up`"
        assert "CONNECT_SASL_MECHANISM" not in complete({}, instance, embedded_kafka=True, **where)
        choose_encryption(instance)
        (instance.root / "kafka" / "logs").mkdir(parents=True, exist_ok=True)
        choose_encryption(instance)  # at the next start
    encrypted, clear = (complete({}, each, embedded_kafka=True, **where) for each in (new, old))
    assert encrypted[setting] == "true"
    assert lines_about_encryption(encrypted) == []
    assert setting not in clear
    assert "config.storage.encryption.enable=true" in lines_about_encryption(clear)[0]
    assert complete({setting: "false"}, new, embedded_kafka=True, **where)[setting] == "false"
    login = new.create_kafka_login()
    assert new.create_kafka_login() == login
    env = complete({"CONNECT_SECURITY_PROTOCOL": "SSL"}, new, embedded_kafka=True, **where)
    assert WorkerConfig.from_environment(env).connection().settings == login.librdkafka_settings()
    files = ["kafka-password", "kafka-client.properties", "kcat.conf"]
    assert all(login.password in (new.root / name).read_text() for name in files)
    assert {stat.S_IMODE((new.root / name).stat().st_mode) for name in files} == {0o600}
    outside = complete({}, new, embedded_kafka=False, **where)
    assert not {setting, "CONNECT_SASL_MECHANISM", "RINGFENCE_KAFKA_CLIENT_FILE"} & outside.keys()


def test_nobody_else_reads_the_folder_even_where_it_was_open_before() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ringfence-open-") as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "data").mkdir(mode=0o755)

        def as_nobody() -> int:
            return subprocess.run(["cat", str(root / "data" / "lock")], user="nobody", capture_output=True).returncode

        with DataDirectory(root / "data").lock():
            assert as_nobody() != 0
            (root / "data").chmod(0o755)  # as an earlier release left it
            (root / "data" / "lock").chmod(0o644)
            assert as_nobody() == 0, "the check sees something"
        with DataDirectory(root / "data").lock():
            assert as_nobody() != 0


def test_a_folder_that_others_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "somebody's").write_text("x")
    tmp_path.chmod(0o755)
    with pytest.raises(LocalError, match="chmod 700"), DataDirectory(tmp_path).lock():
        raise AssertionError
    assert tmp_path.stat().st_mode & 0o777 == 0o755
