"""The icons are those of the lucide package."""

from importlib.resources import files
from zipfile import ZipFile

import pytest
from lucide.templatetags.lucide import lucide

from ringfence.web.icons import draw_icon


def test_each_icon_is_drawn_as_the_package_draws_it() -> None:
    with files("lucide").joinpath("lucide.zip").open("rb") as file:
        names = [name.removesuffix(".svg") for name in ZipFile(file).namelist()]
    assert len(names) > 1000
    for name in names[::40]:
        assert draw_icon(name, 16, "icon spin") == lucide(
            name, size=16, **{"class": "icon spin", "aria-hidden": "true"}
        )


def test_an_icon_that_is_not_there() -> None:
    with pytest.raises(KeyError, match=r"no-such-icon\.svg"):
        draw_icon("no-such-icon", 16, "icon")
