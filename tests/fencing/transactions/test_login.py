"""Logins by SASL, with the examples of RFC 7677, and brokers that do not know the password."""

import pytest

from ringfence.fencing.errors import Fatal
from ringfence.fencing.transactions.login import _scram, login

CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
KNOWS = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram() -> None:
    exchange = _scram("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(CHALLENGE) == PROOF
    with pytest.raises(StopIteration):
        exchange.send(KNOWS)


@pytest.mark.parametrize("answer", [b"", b"v=", b"e=other-error", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="])
def test_a_broker_that_does_not_know_the_password(answer: bytes) -> None:
    exchange = _scram("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(exchange)
    exchange.send(CHALLENGE)
    with pytest.raises(Fatal, match="impostor"):
        exchange.send(answer)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        CHALLENGE.replace(b"4096", b"1"),
        CHALLENGE.replace(b"4096", b"99999999999"),
        CHALLENGE.replace(b"==", b"\x80"),
        CHALLENGE.replace(b"==", b""),
    ],
)
def test_a_challenge_that_would_give_the_password_away_or_take_for_ever(challenge: bytes) -> None:
    exchange = _scram("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(exchange)
    with pytest.raises(Fatal):
        exchange.send(challenge)


def test_names_with_commas_and_equals_signs() -> None:
    assert next(_scram("sha512", "a,b=c", "x", "n")) == b"n,,n=a=2Cb=3Dc,r=n"


def test_plain_and_what_is_not_supported() -> None:
    assert next(login("PLAIN", "user", "secret")) == b"\0user\0secret"
    with pytest.raises(Fatal, match="GSSAPI is not supported"):
        login("GSSAPI", "", "")
