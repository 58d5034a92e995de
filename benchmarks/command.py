"""What the commands of `python -m benchmarks` have in common: options, a folder for what they leave, and a page."""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rest import BenchmarkError
from ringfence.local.errors import LocalError


def new_parser(name: str, description: str | None, page: Path, *, nice: bool = False) -> argparse.ArgumentParser:
    """Return the parser of a command, with `--write` for its page. nice: whether it has `--nice`, too."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=description)
    if nice:
        parser.add_argument("--nice", type=int, default=0, metavar="N", help="on a machine with other work; needs root")
    parser.add_argument("--write", action="store_true", help=f"write benchmarks/results/{page.name}")
    return parser


@contextmanager
def new_folder(name: str) -> Iterator[Path]:
    """Yield a new folder for logs and data, which stays. The error of a run that cannot continue names it."""
    root = Path(tempfile.mkdtemp(prefix=f"ringfence-{name}-"))
    try:
        yield root
    except (BenchmarkError, LocalError) as error:
        raise BenchmarkError(f"{error}\nlogs: {root}") from error


def remove_data(root: Path) -> None:
    """Remove the broker's data and the lines to read: the files worth keeping are small."""
    for large in (root / "kafka", *root.glob("*.txt")):
        shutil.rmtree(large) if large.is_dir() else large.unlink(missing_ok=True)


def write_page(page: Path, text: str) -> None:
    """Write the page, and print where it is."""
    page.write_text(text)
    print(f"written: {page}")
