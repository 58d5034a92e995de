"""The pictures of the documentation have the colours of the pages, and stay small."""

import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "screenshots").glob("*.png"))
BEHIND_A_DIALOG = {"palette-dark"}
"""Its ground is dimmed."""
STYLE = (ROOT / "static" / "ringfence" / "frame.css").read_text()


def colours_of(theme: str) -> set[tuple[int, ...]]:
    """The page's ground and the surface of its cards."""
    pairs = re.findall(r"--(?:bg|surface): light-dark\(#(\w{6}), #(\w{6})\);", STYLE)
    assert len(pairs) == 2
    return {tuple(bytes.fromhex(pair[theme == "dark"])) for pair in pairs}


@pytest.mark.parametrize(
    "picture", [each for each in PICTURES if each.stem not in BEHIND_A_DIALOG], ids=lambda path: path.stem
)
def test_surfaces_have_exactly_their_colours(picture: Path) -> None:
    with Image.open(picture) as image:
        counted = image.convert("RGB").getcolors(1 << 24)
    assert counted is not None
    counts = {colour: count for count, colour in counted}
    for colour in colours_of(picture.stem.rpartition("-")[2]):
        assert counts.get(colour, 0) > image.width * image.height / 50, colour


def test_there_is_a_picture_of_each_and_a_film() -> None:
    assert len(PICTURES) > 25
    with Image.open(ROOT / "docs" / "screenshots" / "demo.gif") as film:
        assert getattr(film, "n_frames", 1) > 5
