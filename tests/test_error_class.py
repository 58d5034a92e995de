"""The class of an error, and its message."""

import pytest

from ringfence.error_class import split_class


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        ("ValueError: x is missing", "ValueError", "x is missing"),
        ("ringfence.fencing.errors.Fatal: topic lost", "ringfence.fencing.errors.Fatal", "topic lost"),
        ("psycopg.errors.UndefinedTable: no table t", "psycopg.errors.UndefinedTable", "no table t"),
        ("java.net.ConnectException: refused", "java.net.ConnectException", "refused"),
        ("a.B$InnerException: x", "a.B$InnerException", "x"),
        ("socket.gaierror: [Errno -2] unknown", "socket.gaierror", "[Errno -2] unknown"),
        ("timeout: timed out", "timeout", "timed out"),
        ("Fatal: no: not so", "Fatal", "no: not so"),
        ("ValueError: first\nsecond", "ValueError", "first\nsecond"),
        ("KeyboardInterrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("example.org: refused", "", "example.org: refused"),
        ("topic orders: no such topic", "", "topic orders: no such topic"),
        ("orders: no such topic", "", "orders: no such topic"),
        ("", "", ""),
    ],
)
def test_class_and_message(error: str, name: str, message: str) -> None:
    assert split_class(error) == (name, message)
