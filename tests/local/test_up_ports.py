"""Which port `ringfence up` takes."""

import json
import socket
from pathlib import Path

import pytest

from ringfence.commands.up import _http
from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError
from ringfence.local.ports import free_port, text


def test_a_taken_port_is_replaced_this_once_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instance = DataDirectory(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()
        instance.remember("http", text(taken))
        http = _http(None, instance)
        assert http != taken
        said = capsys.readouterr().out
        assert f"Port {taken[1]} is in use" in said
        assert f"takes port {http[1]}" in said
        instance.remember("http", text(http))  # as `up` does once it is ready
        with pytest.raises(LocalError, match="choose another with --http"):
            _http(taken, instance)
        with pytest.raises(LocalError, match="choose another with --http"):
            _http(text(taken), instance)


def test_the_usual_port_is_taken_again_when_it_is_free(tmp_path: Path) -> None:
    instance = DataDirectory(tmp_path)
    usual = ("127.0.0.1", free_port())
    assert _http(usual, instance) == usual
    with socket.create_server(usual):
        instance.remember("http", text(_http(None, instance)))
    assert _http(None, instance) == usual
    assert json.loads((tmp_path / "state.json").read_text())["http"] != text(usual)
