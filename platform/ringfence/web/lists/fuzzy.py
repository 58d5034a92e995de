"""Compares what somebody types with a text: words in any order, parts of words, and left-out letters. Pure."""

from typing import Final

_EXACT: Final = 100
_BEGINS: Final = 60
_IN_WORD: Final = 40
_LETTERS: Final = 10
_SHORTEST: Final = 3
_NAME: Final = 60
"""Letters may be left out across the words of a name, not of a longer text, where they are always somewhere."""
_SEPARATORS: Final = str.maketrans("-_./:", "     ")


def match(typed: str, text: str) -> int:
    """Return how well all words of `typed` are in the text, 0 if one is not. A word may leave out letters, if it has at
    least three and begins as a word of the text.
    """
    typed, text = typed.casefold().strip(), text.casefold()
    if typed == text:
        return _EXACT * 2
    words = text.translate(_SEPARATORS).split()
    whole = "".join(words) if len(words) > 1 and len(text) <= _NAME else ""
    total = 0
    for part in typed.split():
        score = max((_score(part, word) for word in words), default=0)
        if not score:
            score = _IN_WORD if part in text else _score(part, whole) if whole else 0
        if not score:
            return 0
        total += score
    # Of two texts with the same words the shorter one is meant.
    return max(1, total - len(text) // 8)


def _score(part: str, word: str) -> int:
    if part == word:
        return _EXACT
    if word.startswith(part):
        return _BEGINS
    if part in word:
        return _IN_WORD
    return _LETTERS if len(part) >= _SHORTEST and part[0] == word[0] and _leaves_letters_out(part, word) else 0


def _leaves_letters_out(part: str, word: str) -> bool:
    letters = iter(word)
    return all(letter in letters for letter in part)
