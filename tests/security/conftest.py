"""Fixtures of the security tests."""

from tests.support import database
from tests.support.recording_server import recording_server

__all__ = ["database", "recording_server"]
