"""How many lines a file has up to a position, as FileStreamSource cuts them."""

import io

import pytest

from ringfence.connectors.builtin.file_stream import line_splitting
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer, count_lines

TEXT = b"one\ntwo\r\n\rfour\r\n\r\n\nsix\rseven"


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_it_counts_what_the_task_delivers(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(line_splitting, "_CHUNK", chunk)
    buffer = LineBuffer()
    buffer.feed(TEXT)
    ready = len(buffer)
    assert ready > 5
    assert count_lines(io.BytesIO(TEXT), TEXT.index(b"seven")) == ready
    assert count_lines(io.BytesIO(TEXT), 0) == 0
    assert count_lines(io.BytesIO(TEXT), len(TEXT) + 1) is None
