"""Numbers with their nouns: `1 record`, `2,345 records`."""


def write_count(number: int, noun: str, plural: str = "") -> str:
    """Return the number and the noun. plural: required if it is not the noun with an s."""
    return f"{number:,} {write_noun(number, noun, plural)}"


def write_noun(number: int, noun: str, plural: str = "") -> str:
    """Return only the noun, in the form for that number."""
    return noun if number == 1 else plural or f"{noun}s"
