"""Python scripts in processes of their own: what they register, or set up, is gone with them."""

import subprocess
import sys

from tests.e2e.up import environment


def run_script(script: str) -> str:
    """What it prints, with Django's settings named in its environment; a script that fails fails the test."""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment({"DJANGO_SETTINGS_MODULE": "ringfence.settings"}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
