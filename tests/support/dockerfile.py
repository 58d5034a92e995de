"""What the Dockerfile copies."""

from tests.support.compose import ROOT

LINES = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]


def copied() -> set[str]:
    """Names that come out of the checkout."""
    found: set[str] = set()
    for line in LINES:
        match line.split():
            case ["COPY", *names, _] if not names[0].startswith("--from"):
                found |= set(names)
    return found
