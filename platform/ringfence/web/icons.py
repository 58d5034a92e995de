"""Draw the icons of the lucide package.

Its own functions read the list of all 1,745 files in its archive again for each icon that a process draws for the first
time: 10 ms of CPU time each. Here the archive stays open. `tests/web/test_icons.py` compares both.
"""

from functools import cache
from importlib.resources import files
from io import BytesIO
from xml.etree import ElementTree
from zipfile import ZipFile

_NAMESPACE = "{http://www.w3.org/2000/svg}"


def draw_icon(name: str, size: int, css_class: str) -> str:
    """Return the SVG of an icon, `size` pixels wide, hidden from screen readers. Raises KeyError if there is none."""
    svg = ElementTree.fromstring(_archive().read(f"{name}.svg"))  # noqa: S314 - of the installed package
    for node in svg.iter():
        node.tag = node.tag.removeprefix(_NAMESPACE)
    svg.attrib.update({"width": str(size), "height": str(size), "class": css_class, "aria-hidden": "true"})
    return ElementTree.tostring(svg, encoding="unicode")


@cache
def has_icon(name: str) -> bool:
    """Return whether there is an icon of this name."""
    return f"{name}.svg" in _archive().namelist()


@cache
def _archive() -> ZipFile:
    return ZipFile(BytesIO(files("lucide").joinpath("lucide.zip").read_bytes()))
