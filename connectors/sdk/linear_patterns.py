"""Regular expressions of tenants, matched in time linear in the text: for the names of topics, tables and files.

Python's engine goes back to try other ways through a pattern, and `(a+)+b` has more of them than anybody can wait for.
A pattern with at most two alternatives or repetitions of single characters is left to it. For others, all ways are
followed at once, as in Thompson's construction, which includes look-around.
Back references, atomic groups and possessive repetitions are refused: they are about the order of ways. Where groups
are asked for (`search`), ways keep their order, and each remembers where its groups begin and end (Pike's machine).
"""

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

# Private modules: tests/connectors/test_linear_patterns.py holds their trees against what they mean to `re` itself.
_parser: Any = importlib.import_module("re._parser")
_compiler: Any = importlib.import_module("re._compiler")

LONGEST_PATTERN: Final = 4096
"""Characters."""
LONGEST_TEXT: Final = 4096
"""Characters: longer than the names of topics, tables and files. A longer text matches nothing."""
_MOST_STEPS: Final = 5000
_MOST_WAYS: Final = 2
_MOST_CACHED: Final = 1000
"""Texts: the names that a task meets are few, and come again with each record."""

_SINGLE: Final = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}
_REPEATS: Final = {"MAX_REPEAT", "MIN_REPEAT"}
_ORDERED: Final = {"GROUPREF", "GROUPREF_EXISTS", "ATOMIC_GROUP", "POSSESSIVE_REPEAT"}
_LOOKS: Final = {"ASSERT", "ASSERT_NOT"}


@dataclass(slots=True)
class _Step:
    """One step of the program. `matches`: for a character; `after`: the next steps, the preferred one first; `look`:
    what must hold here; `bound`: which begin or end of a group is here.
    """

    matches: Callable[[str], Any] | None = None
    after: list[int] = field(default_factory=list)
    look: "_Look | None" = None
    anchor: re.Pattern[str] | None = None
    bound: int | None = None


class Match(NamedTuple):
    """Where a pattern was found. `groups`: their texts, the whole match first; None for a group that has none."""

    start: int
    end: int
    groups: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    steps: list[_Step]
    behind: int | None
    """For look-behind, how many characters; None for look-ahead."""
    negative: bool


class LinearPattern:
    """A compiled pattern. Raises `ValueError` with the reason for one that is none, is too large, or not supported.

    captures: for `search`. A pattern that is left to Python's engine may then refer back.
    """

    def __init__(self, pattern: str, flags: int = 0, *, captures: bool = False) -> None:
        if len(pattern) > LONGEST_PATTERN:
            raise ValueError(f"it has more than {LONGEST_PATTERN:,} characters")
        self.pattern = pattern
        self._matches_all = lru_cache(_MOST_CACHED)(self._follow_all)
        self._find_first = lru_cache(_MOST_CACHED)(self._follow_groups)
        self._steps: list[_Step] = []
        self._quick: re.Pattern[str] | None = None
        try:
            tree = _parser.parse(pattern, flags)
            self.groups: int = tree.state.groups - 1
            self.names: dict[str, int] = dict(tree.state.groupdict)
            if _is_quick(tree, captures):
                self._quick = re.compile(pattern, flags)
            else:
                if captures:
                    _refuse_unclear_groups(tree)
                self._steps = _Compiler(tree.state.flags).program(tree)
        except (re.error, RecursionError, OverflowError, MemoryError) as error:
            raise ValueError(str(error) or "it is too deeply nested") from error

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        if len(text) > LONGEST_TEXT:
            return False
        if self._quick is not None:
            return self._quick.fullmatch(text) is not None
        return self._matches_all(text)

    def search(self, text: str) -> Match | None:
        """Return the first match in the text, the one that Python's engine would find. Needs `captures`."""
        if len(text) > LONGEST_TEXT:
            return None
        if self._quick is not None:
            quick = self._quick.search(text)
            return quick and Match(quick.start(), quick.end(), (quick[0], *quick.groups()))
        return self._find_first(text)

    def _follow_all(self, text: str) -> bool:
        return _Run(text).reaches(self._steps, 0, len(text))

    def _follow_groups(self, text: str) -> Match | None:
        bounds = _Run(text).find(self._steps, self.groups)
        if bounds is None:
            return None
        spans = zip(bounds[::2], bounds[1::2], strict=True)
        return Match(bounds[0], bounds[1], tuple(text[start:end] if end >= 0 else None for start, end in spans))


def _name(node: Any) -> str:
    return str(node[0])


def _is_quick(tree: Any, captures: bool) -> bool:
    """captures: such a pattern may have parts that are about the order of ways."""
    nodes = list(_walk(tree))
    names = [_name(node) for node in nodes]
    repeats = [node for node, name in zip(nodes, names, strict=True) if name in _REPEATS or name == "POSSESSIVE_REPEAT"]
    single = all(len(node[1][2]) == 1 and _name(node[1][2][0]) in _SINGLE for node in repeats)
    quick = single and names.count("BRANCH") + len(repeats) <= _MOST_WAYS
    if not _ORDERED.isdisjoint(names) and not (quick and captures):
        where = "beside so many repetitions and alternatives" if captures else "here"
        raise ValueError(f"back references, atomic groups and possessive repetitions are not supported {where}")
    return quick


def _refuse_unclear_groups(tree: Any) -> None:
    """Raise `ValueError` for groups whose text depends on how an engine goes back."""
    for node in _walk(tree):
        name = _name(node)
        unclear = name in _LOOKS or (name in _REPEATS and node[1][2].getwidth()[0] == 0)
        if unclear and any(_name(part) == "SUBPATTERN" and part[1][0] is not None for part in _walk(_parts(node)[0])):
            raise ValueError(
                "a group in a look-around, or in a repetition of what may be empty, is not supported beside so many "
                "repetitions and alternatives: write (?:…) in place of (…)"
            )


def _walk(tree: Any) -> Iterator[Any]:
    for node in tree:
        yield node
        for part in _parts(node):
            yield from _walk(part)


def _parts(node: Any) -> list[Any]:
    match _name(node):
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [node[1][2]]
        case "SUBPATTERN":
            return [node[1][3]]
        case "BRANCH":
            return list(node[1][1])
        case "ASSERT" | "ASSERT_NOT":
            return [node[1][1]]
        case "ATOMIC_GROUP":
            return [node[1]]
        case _:
            return []


class _Compiler:
    """Makes steps of a tree; step 0 is the first, a step without `after` the end."""

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self._steps: list[_Step] = []

    def program(self, tree: Any) -> list[_Step]:
        outer, self._steps = self._steps, []
        start = self._add(_Step())
        self._steps[start].after = [self._sequence(tree, self._add(_Step()), self._flags)]
        steps, self._steps = self._steps, outer
        return steps

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= _MOST_STEPS:
            raise ValueError(f"it has more than {_MOST_STEPS:,} steps: write fewer or smaller repetitions")
        self._steps.append(step)
        return len(self._steps) - 1

    def _sequence(self, tree: Any, after: int, flags: int) -> int:
        """Add the steps of a tree before `after`; returns the first."""
        for node in reversed(list(tree)):
            after = self._node(tree, node, after, flags)
        return after

    def _node(self, tree: Any, node: Any, after: int, flags: int) -> int:
        name, value = _name(node), node[1]
        if name in _SINGLE:
            return self._add(_Step(matches=self._alone(tree, node, flags).fullmatch, after=[after]))
        match name:
            case "AT":
                return self._add(_Step(anchor=self._alone(tree, node, flags), after=[after]))
            case "BRANCH":
                return self._add(_Step(after=[self._sequence(each, after, flags) for each in value[1]]))
            case "SUBPATTERN" if (group := value[0]) is not None:
                end = self._add(_Step(bound=2 * group + 1, after=[after]))
                begin = self._sequence(value[3], end, (flags | value[1]) & ~value[2])
                return self._add(_Step(bound=2 * group, after=[begin]))
            case "SUBPATTERN":
                return self._sequence(value[3], after, (flags | value[1]) & ~value[2])
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(value, after, flags, greedy=name == "MAX_REPEAT")
            case "ASSERT" | "ASSERT_NOT":
                behind = value[1].getwidth()[1] if value[0] < 0 else None
                program = _Compiler(flags).program(value[1])
                return self._add(_Step(look=_Look(program, behind, name == "ASSERT_NOT"), after=[after]))
            case "FAILURE":
                return self._add(_Step(matches=lambda _: None, after=[after]))
            case _:
                raise ValueError("it uses something that is not supported here")

    def _repeat(self, value: Any, after: int, flags: int, *, greedy: bool) -> int:
        least, most, what = value
        order = slice(None) if greedy else slice(None, None, -1)
        if most == _parser.MAXREPEAT:
            loop = self._add(_Step())
            self._steps[loop].after = [self._sequence(what, loop, flags), after][order]
            first = loop
        else:
            first = after
            for _ in range(most - least):
                first = self._add(_Step(after=[self._sequence(what, first, flags), after][order]))
        for _ in range(least):
            first = self._sequence(what, first, flags)
        return first

    @staticmethod
    def _alone(tree: Any, node: Any, flags: int) -> re.Pattern[str]:
        """Compile one node by itself, so that it means exactly what it means to Python."""
        part = _parser.SubPattern(tree.state, [node])
        compiled: re.Pattern[str] = _compiler.compile(part, flags)
        return compiled


class _Run:
    """One text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._looks: dict[tuple[int, int], bool] = {}

    def reaches(self, steps: list[_Step], start: int, end: int | None) -> bool:
        """Return whether the steps lead from `start` to exactly `end`; None: to anywhere."""
        here = self._follow(steps, [0], start)
        for position in range(start, len(self._text) if end is None else end):
            if end is None and any(not steps[each].after for each in here):
                return True
            character = self._text[position]
            moved = [
                next_step
                for each in here
                if (matches := steps[each].matches) is not None and matches(character) is not None
                for next_step in steps[each].after
            ]
            if not moved:
                return False
            here = self._follow(steps, moved, position + 1)
        return any(not steps[each].after for each in here)

    def find(self, steps: list[_Step], groups: int) -> tuple[int, ...] | None:
        """Return begin and end of the first match, and of each group; -1 for a group without a text."""
        first: tuple[int, ...] | None = None
        ways: list[tuple[int, tuple[int, ...]]] = []
        nothing = (-1,) * (2 * groups + 1)
        for position in range(len(self._text) + 1):
            if first is None:
                ways.append((0, (position, *nothing)))
            here, ways = self._follow_in_order(steps, ways, position), []
            for number, bounds in here:
                step = steps[number]
                if not step.after:
                    first = (bounds[0], position, *bounds[2:])
                    break  # the ways behind are less preferred
                if position < len(self._text) and step.matches is not None and step.matches(self._text[position]):
                    ways += [(each, bounds) for each in step.after]
            if first is not None and not ways:
                break
        return first

    def _follow_in_order(
        self, steps: list[_Step], ways: list[tuple[int, tuple[int, ...]]], position: int
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Return the steps that are reached without a character, the preferred ones first."""
        reached = []
        visited: set[int] = set()
        waiting = ways[::-1]
        while waiting:
            number, bounds = waiting.pop()
            if number in visited:
                continue
            visited.add(number)
            step = steps[number]
            if step.matches is not None or not step.after:
                reached.append((number, bounds))
            elif self._holds(step, position):
                if step.bound is not None:
                    bounds = (*bounds[: step.bound], position, *bounds[step.bound + 1 :])
                waiting += [(each, bounds) for each in reversed(step.after)]
        return reached

    def _follow(self, steps: list[_Step], waiting: list[int], position: int) -> set[int]:
        """Return the steps that are reached without a character."""
        reached: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            step = steps[number]
            if step.matches is None and self._holds(step, position):
                waiting.extend(step.after)
        return reached

    def _holds(self, step: _Step, position: int) -> bool:
        if step.anchor is not None:
            return step.anchor.match(self._text, position) is not None
        return step.look is None or self._sees(step.look, position)

    def _sees(self, look: _Look, position: int) -> bool:
        key = id(look), position
        if key not in self._looks:
            if look.behind is None:
                match = self.reaches(look.steps, position, None)
            else:
                match = position >= look.behind and self.reaches(look.steps, position - look.behind, position)
            self._looks[key] = match is not look.negative
        return self._looks[key]
