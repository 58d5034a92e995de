"""`ringfence keys rotate`: everything that is stored is under the new key, and nothing is lost."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import encrypted_rows, messages
from ringfence.alerts.models import Destination
from ringfence.commands import keys
from ringfence.encrypted_rows import survey
from ringfence.encryption import KEY_FILE, KEYS, Keyring, NoKey, Purpose, decrypt_text, encrypt_text, keyring, new_key
from ringfence.history.models import ConfigVersion
from ringfence.local.errors import LocalError
from ringfence.projection.models import Connector, Task
from tests.support import database

SECRET = '{"db.password": "hunter22"}'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A key file with one key, in use by this process."""
    path = tmp_path / "keys"
    keys.write_new(path)
    monkeypatch.setenv(KEY_FILE, str(path))
    monkeypatch.setattr(keys, "connect", lambda _data: None)  # the test's database is there already
    monkeypatch.setattr(keys, "topic_counts", lambda _args: {})
    keyring.cache_clear()
    yield path
    database.empty()  # reads rows, which takes the key
    monkeypatch.undo()
    keyring.cache_clear()


def rotate(*, drop_old: bool = False) -> int:
    return keys.run(argparse.Namespace(action="rotate", drop_old=drop_old, data=None, config=None))


def fill() -> str:
    """One value in each kind of row, one of them still clear; the id of the key that is used."""
    Connector.objects.create(name="a", config=encrypt_text(SECRET, "connector a"))
    Connector.objects.create(name="b", config=SECRET)
    ConfigVersion.objects.create(
        connector="a", number=1, config_offset=1, time_ms=1, config=encrypt_text(SECRET, "version of a")
    )
    Task.objects.create(connector="a", number=0, failure=encrypt_text(SECRET, "failure a-0"))
    Destination.objects.create(name="d", kind="webhook", url="https://example.com/hunter22", secret="hunter22")
    return keyring().keys[0].id


def shown() -> list[str]:
    """Every value in clear."""
    stored = Connector.objects.order_by("name").values_list("name", "config")
    found = [decrypt_text(text, f"connector {name}") for name, text in stored]
    found += [decrypt_text(row.config, "version of a") for row in ConfigVersion.objects.all()]
    found += [decrypt_text(row.failure, "failure a-0") for row in Task.objects.all()]
    return [*found, *(f"{row.url} {row.secret}" for row in Destination.objects.all())]


def key_lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if not line.startswith("#")]


def test_all_is_under_the_new_key_and_the_old_one_still_decrypts(file: Path) -> None:
    old = fill()
    before = shown()
    message = keyring().encrypt(Purpose.MESSAGES, b"under way")
    assert rotate() == 0
    newest = keyring().keys[0].id
    assert newest != old
    assert survey() == {newest: 6}
    assert shown() == before
    assert len(key_lines(file)) == 2
    assert file.stat().st_mode & 0o077 == 0
    assert keyring().decrypt(Purpose.MESSAGES, message) == b"under way"


def test_the_old_key_goes_once_nothing_needs_it(file: Path) -> None:
    old = fill()
    before = shown()
    assert rotate(drop_old=True) == 0
    assert [key.id for key in Keyring(key_lines(file)).keys] == list(survey()) != [old]
    assert shown() == before


def test_the_old_keys_stay_while_a_value_is_under_a_key_that_is_missing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill()
    strange = Keyring([new_key()]).encrypt(Purpose.DATABASE, SECRET.encode(), "connector c")
    Connector.objects.create(name="c", config=strange)
    with pytest.raises(LocalError, match="The older keys stay: 1 values"):
        rotate(drop_old=True)
    assert len(key_lines(file)) == 2
    assert Connector.objects.get(name="c").config == strange, "what cannot be read was changed"


def test_a_value_that_is_written_meanwhile_is_not_overwritten(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    monkeypatch.setattr(encrypted_rows, "encrypt_text", lambda text, about: overtaken(text, about))

    def overtaken(text: str, about: str) -> str:
        """A write between the read of the old value and the write of the new one."""
        if about == "connector a":
            later = encrypt_text('{"later": "1"}', about)
            Connector.objects.filter(name="a").update(config=later)
        return encrypt_text(text, about)

    assert rotate() == 0
    assert Connector.objects.get(name="a").settings == {"later": "1"}


def test_a_value_of_another_row_or_column_cannot_be_read(file: Path) -> None:
    fill()
    stored = Connector.objects.get(name="a").config
    Connector.objects.filter(name="b").update(config=stored)
    Task.objects.filter(connector="a").update(config=stored)
    with pytest.raises(NoKey, match="connector b"):
        _ = Connector.objects.get(name="b").settings
    with pytest.raises(NoKey, match="task a-0"):
        _ = Task.objects.get(connector="a").settings
    with pytest.raises(ValueError, match="belongs elsewhere"):
        messages.decode(stored)
    with pytest.raises(LocalError, match="The older keys stay: 2 values"):
        rotate(drop_old=True)


def test_keys_in_a_variable_are_rotated_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "connect", lambda _data: None)
    monkeypatch.delenv(KEY_FILE, raising=False)
    assert os.environ.get(KEYS)
    with pytest.raises(LocalError, match=KEYS):
        rotate()
