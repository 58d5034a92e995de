"""README's commands as they stand there, one after the other, beside each other."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.up import environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
_READY = re.compile(r"Ringfence is ready at http://([\d.]+:\d+)")
_SECONDS = 400.0


def blocks() -> list[str]:
    """The indented blocks of README, in order, without their indentation."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^ {4}\S.*\n(?:^ {4}.*\n)*", text, re.MULTILINE)
    return ["\n".join(line[4:] for line in block.splitlines()) for block in found]


class Shell:
    """A command line in a terminal of its own."""

    def __init__(self, line: str, settings: dict[str, str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                ["bash", "-c", line],
                cwd=ROOT,
                env=environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def await_words(self, pattern: str, seconds: float = _SECONDS) -> re.Match[str]:
        """Wait until it has printed that. An end without it is a failure."""

        def printed() -> re.Match[str] | None:
            ended = self._process.poll() is not None
            found = re.search(pattern, self.said)
            assert found or not ended, self.said
            return found

        match = eventually(printed, seconds, lambda: f"{pattern}\n{self.said}", pause=0.2)
        assert match is not None
        return match

    def close(self) -> None:
        """Ctrl-C, and the end of all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(90)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], Shell]]:
    """`shell(line)`: begins a command line, with a data folder that is this test's."""
    opened: list[Shell] = []

    def begin(line: str) -> Shell:
        settings = {"RINGFENCE_DATA": str(tmp_path / "data")}
        opened.append(Shell(line, settings, tmp_path / f"terminal-{len(opened)}.txt"))
        return opened[-1]

    yield begin
    for each in reversed(opened):
        each.close()


@pytest.mark.timeout(1500)
@pytest.mark.skipif(not (ROOT / ".venv/.set-up").exists(), reason="this checkout was not made ready by `make setup`")
def test_every_step_works_as_pasted(shell: Callable[[str], Shell]) -> None:
    two_commands, up, first, tail = blocks()
    demo = two_commands.splitlines()[0]
    assert demo.startswith("make demo ")
    assert two_commands.splitlines()[1].startswith("make test ")  # which this is a part of
    shown = shell(demo)
    shown.await_words(r"336,776 of 336,776 lines arrived: none missing, none twice")
    shown.await_words("It stays up until Ctrl-C")
    demo_address = _READY.search(shown.said)
    assert demo_address is not None
    page = httpx.get(f"http://{demo_address.group(1)}/ui/connectors/flights", timeout=60)
    assert "336,776 in all" in page.text
    beside = shell(up)
    address = beside.await_words(_READY.pattern).group(1)
    assert address != demo_address.group(1)
    if demo_address.group(1).endswith(":8083"):
        assert "Port 8083 is in use" in beside.said
    pasted = shell(first.replace("127.0.0.1:8083", address))  # as README says
    pasted.await_words(r'"name": ?"lines"')
    pasted.await_words(r'"connector": ?\{"state": ?"(RUNNING|UNASSIGNED)"')
    assert "error_code" not in pasted.said
    read = shell(tail)
    for word in ("one", "two", "three"):
        read.await_words(rf"\b{word}\b", 120)
    with Path("/tmp/lines.txt").open("a") as file:
        file.write("four\n")
    read.await_words(r"\bfour\b", 60)
