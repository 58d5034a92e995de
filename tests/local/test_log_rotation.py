"""Logs of roles are bounded while the roles go on writing."""

import sys
import time
from pathlib import Path

from ringfence.local.guarded_process import GuardedProcess
from ringfence.local.supervisor import rotate
from tests.support.waiting import eventually

PAUSE_SECONDS = 0.001
NUMBERS = (
    f"import itertools, time\nfor n in itertools.count():\n    print(n, flush=True)\n    time.sleep({PAUSE_SECONDS})\n"
)


def numbers(*files: Path) -> list[int]:
    return [int(line) for file in files for line in file.read_text().split()]


def test_a_process_goes_on_writing_to_the_emptied_file(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    took = 0.0

    def rotated() -> bool:
        nonlocal took
        began = time.monotonic()
        done = rotate(log, max_bytes=200)
        took = time.monotonic() - began
        return done

    it = GuardedProcess.start("it", [sys.executable, "-c", NUMBERS], log=log)
    try:
        eventually(rotated, 20, "enough output")
        eventually(lambda: log.stat().st_size > 50, 20, "more output")
    finally:
        it.kill()
    before, after = numbers(tmp_path / "it.log.1"), numbers(log)
    assert before == list(range(len(before)))
    assert after == list(range(after[0], after[0] + len(after))), "no hole of zeros at the beginning"
    assert 0 <= after[0] - len(before) < 50 + took / PAUSE_SECONDS, "no more than what came in the meantime"


def test_the_oldest_file_goes(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    for text in ("first", "second", "third", "fourth"):
        log.write_text(text)
        assert rotate(log, max_bytes=1, count=2)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "it.log": "",
        "it.log.1": "fourth",
        "it.log.2": "third",
    }
    assert not rotate(log, max_bytes=1)
    assert not rotate(tmp_path / "missing.log")
