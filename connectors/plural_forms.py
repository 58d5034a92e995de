"""Numbers with their nouns, for people: `1 record`, `2,345 records`."""


def write_count(number: int, noun: str, plural: str = "") -> str:
    """`plural`: where it is not the noun with an s."""
    return f"{number:,} {write_noun(number, noun, plural)}"


def write_noun(number: int, noun: str, plural: str = "") -> str:
    """The noun alone, as it stands beside that number."""
    return noun if number == 1 else plural or f"{noun}s"
