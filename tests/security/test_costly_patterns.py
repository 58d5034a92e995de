"""Patterns of tenants cost about what they and the names weigh, also those that make other matchers go back."""

import re
import time

from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from ringfence.access.principal import Principal, Right, Verb
from ringfence.fencing.name_patterns import matches, regular_expression
from ringfence.web.new.form_state import carries_secret
from tests.support import database

STARS = "*a" * 60 + "*b"
NAME = "a" * 20_000
MOST_CPU_SECONDS = 2.0


def test_a_name_is_compared_in_steps_of_its_length() -> None:
    began = time.process_time()
    assert not matches(STARS, NAME)
    assert matches(STARS, f"{NAME}b")
    assert time.process_time() - began < MOST_CPU_SECONDS


def test_so_does_the_database() -> None:
    database.migrate()
    database.empty()
    User.objects.create_user(NAME[:140])
    who = Principal("ann", "token", (Right(frozenset({Verb.VIEW}), STARS, ("*",)),))
    began = time.process_time()
    assert not User.objects.filter(who.query(field="username")).exists()
    assert time.process_time() - began < MOST_CPU_SECONDS


_PATTERNS = st.text(st.sampled_from("ab*?."), max_size=10)
_NAMES = st.text(st.sampled_from("ab.\n"), max_size=10)


@given(_PATTERNS, _NAMES)
def test_the_meaning_is_that_of_the_expression_for_the_database(pattern: str, name: str) -> None:
    assert matches(pattern, name) is (re.search(regular_expression(pattern), name, re.DOTALL) is not None)


_BEFORE = re.compile(r"://[^/\s@]*:[^/\s@]*@|(pass\w*|pwd|secret|token|key)\s*[=:]", re.IGNORECASE)
"""How it was said before, in one expression that goes back."""


@given(st.lists(st.sampled_from(["://", "a", ":", "@", "/", " ", "=", "pass", "PWD", "key", "Token", "_", "\u017f"])))
def test_secrets_in_values_are_the_same_ones(pieces: list[str]) -> None:
    value = "".join(pieces)
    assert carries_secret(value) is (_BEFORE.search(value) is not None)


def test_a_long_value_of_a_draft_is_read_once() -> None:
    began = time.process_time()
    for value in ("pass" * 100_000, "://" + "a:" * 200_000, "key" + " " * 400_000, "://" * 100_000):
        assert not carries_secret(value)
    assert time.process_time() - began < MOST_CPU_SECONDS
