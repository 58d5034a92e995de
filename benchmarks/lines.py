"""The input: a file of lines, each LINE_BYTES long and unique."""

from pathlib import Path

LINE_BYTES = 100
_BLOCK = 10_000


def write(path: Path, count: int) -> None:
    """Write `count` lines. LINE_BYTES does not include the line end."""
    filler = "abcdefghijklmnopqrstuvwxyz" * (LINE_BYTES // 26 + 1)
    with path.open("w", encoding="ascii", newline="\n") as file:
        for start in range(0, count, _BLOCK):
            numbers = range(start + 1, min(start + _BLOCK, count) + 1)
            file.write("".join(f"{number:012d} {filler}"[:LINE_BYTES] + "\n" for number in numbers))
