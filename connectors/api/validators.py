"""Validators for `ConfigDef.define(validator=...)`, and recommenders. Any callable `(name, value)` that raises can be a
validator.
"""

from collections.abc import Callable, Mapping, Sequence

from ringfence.connectors.api.config_types import ConfigException, Validator


class Range:
    """A number of at least `minimum` and at most `maximum`; both are optional."""

    def __init__(self, minimum: float | None = None, maximum: float | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def __call__(self, name: str, value: object) -> None:
        if not isinstance(value, int | float):
            raise ConfigException.invalid(name, value, "Not a number")
        if self.minimum is not None and not value >= self.minimum:
            raise ConfigException.invalid(name, value, f"Value must be at least {self.minimum}")
        if self.maximum is not None and not value <= self.maximum:
            raise ConfigException.invalid(name, value, f"Value must be no more than {self.maximum}")


class OneOf:
    """One of the given strings. `ignore_case` ignores case, as Kafka does for its enumerations."""

    def __init__(self, *allowed: str, ignore_case: bool = False) -> None:
        self.allowed = allowed
        self.ignore_case = ignore_case

    def __call__(self, name: str, value: object) -> None:
        text = str(value)
        if text in self.allowed:
            return
        if self.ignore_case and text.lower() in {choice.lower() for choice in self.allowed}:
            return
        raise ConfigException.invalid(name, value, f"String must be one of: {', '.join(self.allowed)}")


class NonEmpty:
    """A string or list that is not empty."""

    def __call__(self, name: str, value: object) -> None:
        if isinstance(value, str) and not value:
            raise ConfigException.invalid(name, value, "String must be non-empty")
        if isinstance(value, list) and not value:
            raise ConfigException.invalid(name, "[]", "List must be non-empty")


class NoControlCharacters:
    """A string without ISO control characters, such as line breaks."""

    def __call__(self, name: str, value: object) -> None:
        codes = [ord(char) for char in str(value)]
        bad = sorted({code for code in codes if code < 0x20 or 0x7F <= code <= 0x9F})
        if bad:
            characters = ", ".join(map(str, bad))
            reason = f"String may not contain control sequences but had the following ASCII chars: {characters}"
            raise ConfigException.invalid(name, repr(value)[1:-1], reason)


class UniqueItems:
    """A list without duplicates and empty items."""

    def __call__(self, name: str, value: object) -> None:
        if isinstance(value, list):
            if len(set(value)) < len(value):
                raise ConfigException.invalid(name, ",".join(value), "Duplicate alias provided.")
            if "" in value:
                raise ConfigException.invalid(name, ",".join(value), "List must not contain an empty item")


class AllOf:
    """All of the given validators, in order."""

    def __init__(self, *validators: Validator) -> None:
        self.validators: Sequence[Validator] = validators

    def __call__(self, name: str, value: object) -> None:
        for validator in self.validators:
            validator(name, value)


class Choices:
    """A recommender that always offers the same values, in order."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        return self.values

    def visible(self, name: str, config: Mapping[str, object]) -> bool:
        return True


class ShownIf(Choices):
    """A recommender that shows a setting only where another setting has a fitting value.

    A setting that has a value of its own is shown in any case.
    """

    def __init__(self, other: str, fits: Callable[[str], bool], *values: object) -> None:
        """fits: called with the other setting's value as a string, "" if it has none. values: those to offer."""
        super().__init__(*values)
        self._other, self._fits = other, fits

    def visible(self, name: str, config: Mapping[str, object]) -> bool:
        value = config.get(self._other)
        return self._fits("" if value is None else str(value).strip())


class InstalledChoices(Choices):
    """Offers fixed values, and after them the names of the entry points of a group."""

    def __init__(self, group: str, *values: object) -> None:
        super().__init__(*values)
        self._group = group

    def valid_values(self, name: str, config: Mapping[str, object]) -> Sequence[object]:
        from importlib.metadata import entry_points  # slow to import, and needed for few settings only

        return [*self.values, *sorted({point.name for point in entry_points(group=self._group)})]
