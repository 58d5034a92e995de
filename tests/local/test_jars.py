"""Kafka's jars are those that the release was made with."""

import hashlib
from pathlib import Path

import pytest

from ringfence.local import jars
from ringfence.local.errors import LocalError


def test_a_jar_that_differs_or_is_new_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"a")
    listed = f"{hashlib.sha256(b'a').hexdigest()}  a.jar\n"
    jars.check(tmp_path, listed)
    (tmp_path / "evil.jar").write_bytes(b"x")
    with pytest.raises(LocalError, match=r"\(evil\.jar\)"):
        jars.check(tmp_path, listed)
    (tmp_path / "evil.jar").unlink()
    (tmp_path / "a.jar").write_bytes(b"b")
    with pytest.raises(LocalError, match=r"\(a\.jar\)"):
        jars.check(tmp_path, listed)


def test_a_download_is_compared_with_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "cache_root", lambda: tmp_path)

    def lying(scratch: Path, *_: object, **__: object) -> Path:
        (scratch / "jars").mkdir()
        (scratch / "jars" / "kafka_2.13-4.3.0.jar").write_bytes(b"not Kafka")
        return scratch / "jars"

    monkeypatch.setattr(jars, "retrieve", lying)
    with pytest.raises(LocalError, match="not those of this release"):
        jars.resolve("kafka", jars.KAFKA_SERVER)
    assert not list((tmp_path / "jars").glob("kafka-*")), "nothing is kept"


def test_the_jars_that_are_used_here_are_those_of_the_list() -> None:
    jars.check(jars.resolve("kafka", jars.KAFKA_SERVER), jars._CHECKED[jars.KAFKA_SERVER].read_text())
