"""`make icons`: the console's font of icons anew. It is unfold's, with those icons alone that the pages can show.

unfold's own holds some four thousand icons in 292 kB, which each page of the console would fetch. Ours has the same
address; it is found first, because our folder of static files (`STATICFILES_DIRS`) comes before those of apps. An icon
is written as its name, and a ligature makes the drawing of it.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import unfold
from django.conf import settings
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

from ringfence.console.navigation import GROUPS

FILE = "unfold/fonts/material-symbols/Material-Symbols-Outlined.woff2"
ADDRESS = f"/static/{FILE}"
OURS = settings.PACKAGE / "static" / FILE
_UNFOLD = Path(unfold.__file__).parent
THEIRS = _UNFOLD / "static" / FILE
REMEDY = "unfold has changed, or an icon is new: make icons, look at the console, commit the font"

# A word alone between quotes or tags. Many are no icons: one too many is about 70 bytes, one too few is a bare word.
_WORD = re.compile(r"""(?<=["'])[a-z0-9_]+(?=["'])|(?<=[>}\n])\s*[a-z0-9_]+\s*(?=[<{\n])""")


def load(path: Path) -> Any:
    """A font, with the time stamp in it left as it is."""
    return TTFont(path, recalcTimestamp=False)


def ligatures(font: Any) -> dict[str, str]:
    """The glyph of each icon's name."""
    letters = {glyph: chr(code) for code, glyph in font.getBestCmap().items()}
    return {
        "".join(letters[part] for part in (first, *ligature.Component)): ligature.LigGlyph
        for lookup in font["GSUB"].table.LookupList.Lookup
        for table in lookup.SubTable
        for first, found in table.ligatures.items()
        for ligature in found
    }


def used(known: set[str]) -> set[str]:
    """Of these icons those that unfold's pages or ours may show: too many rather than too few."""
    words = {word.strip() for path in _sources() for word in _WORD.findall(path.read_text())}
    return (words & known) | named_by_us()


def named_by_us() -> set[str]:
    return {str(settings.UNFOLD["SITE_SYMBOL"]), *(icon for _, items in GROUPS for _, _, icon, _ in items)}


def _sources() -> Iterator[Path]:
    """What makes the console's pages: unfold without its optional parts, and our templates and styles."""
    for kind in ("*.py", "templates/**/*.html", "static/unfold/**/*.css", "static/unfold/js/*.js"):
        yield from (path for path in _UNFOLD.rglob(kind) if "contrib" not in path.relative_to(_UNFOLD).parts)
    for folder in ("admin", "console"):
        yield from (settings.PACKAGE / "templates" / folder).rglob("*.html")
    yield settings.PACKAGE / "static" / "ringfence" / "console.css"


def subset() -> bytes:
    """Their font with the icons in use; the letters stay, because names are written with them."""
    font = load(THEIRS)
    font_icons = ligatures(font)
    names = used(set(font_icons))
    options = Options(layout_features=["*"], layout_closure=False, glyph_names=False, drop_tables=["FFTM"])
    subsetter = Subsetter(options)
    subsetter.populate(text="".join(names), glyphs=[font_icons[name] for name in names])
    subsetter.subset(font)
    font.flavor = "woff2"
    made = BytesIO()
    font.save(made)
    return made.getvalue()


if __name__ == "__main__":
    OURS.parent.mkdir(parents=True, exist_ok=True)
    OURS.write_bytes(subset())
    print(f"{OURS}: {len(ligatures(load(OURS)))} icons, {OURS.stat().st_size} bytes")
