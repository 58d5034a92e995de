"""Plugin hosts whose processes have the hostile connector installed beside the built-in ones."""

from pathlib import Path

from ringfence.engine.plugins import PluginError

NEEDS = "plugin processes"
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds for calls that are meant to be answered: on a busy machine ten are not enough for a process to start."""


class Heard:
    """What the host reported."""

    def __init__(self) -> None:
        self.reconfigured: list[str] = []
        self.failed: list[tuple[str, PluginError]] = []


def hostile(mood: str = "fine", **more: str) -> dict[str, str]:
    return {"name": "c", "connector.class": "Hostile", "mood": mood, **more}
