"""The pages' font, made from Inter's variable font on npm: Latin only, the weights that the pages use.

`make font` fetches the package that is named here and writes `static/ringfence/fonts/`, with the licence (SIL OFL 1.1).
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

PACKAGE = "@fontsource-variable/inter@5.3.0"
SOURCE = "package/files/inter-latin-wght-normal.woff2"
FOLDER = Path(__file__).resolve().parent.parent / "static" / "ringfence" / "fonts"
WEIGHTS = (400, 700)
# ASCII, Latin-1, and the punctuation and arrows that the pages use.
LETTERS = [*range(0x20, 0x7F), *range(0xA0, 0x100), 0x2013, 0x2014, 0x2018, 0x2019, 0x201C, 0x201D, 0x2026, 0x2190]
LETTERS += [0x2191, 0x2192, 0x2193, 0x2212, 0x00D7]
# No contextual alternates: they draw `->` and `10x20` in names and values as other characters.
FEATURES = ["kern", "tnum"]


def make(package: Path, folder: Path) -> int:
    """Write font and licence from an unpacked `npm pack`. Returns the font's size in bytes."""
    font = TTFont(package / SOURCE)
    options = subset.Options(layout_features=FEATURES, flavor="woff2", notdef_outline=True, name_IDs=[0, 1, 2, 13, 14])
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=LETTERS)
    subsetter.subset(font)
    small = instancer.instantiateVariableFont(font, {"wght": WEIGHTS})
    small.flavor = "woff2"
    folder.mkdir(parents=True, exist_ok=True)
    small.save(folder / "inter.woff2")
    (folder / "LICENSE.txt").write_bytes((package / "package" / "LICENSE").read_bytes())
    return (folder / "inter.woff2").stat().st_size


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", "--silent", "--pack-destination", scratch, PACKAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        archive = next(Path(scratch).glob("*.tgz"))
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        size = make(Path(scratch), FOLDER)
    sys.stdout.write(f"{FOLDER / 'inter.woff2'}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
