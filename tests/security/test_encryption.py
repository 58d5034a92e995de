"""Keys, and what is encrypted under them."""

import os
from pathlib import Path

import pytest

from ringfence.encryption import Keyring, NoKey, Purpose, key_id, new_key

DATABASE, MESSAGES = Purpose.DATABASE, Purpose.MESSAGES


def test_only_the_same_key_purpose_and_place_give_it_back() -> None:
    key = new_key()
    ring = Keyring([key])
    text = ring.encrypt(DATABASE, b"secret", "connector a")
    assert ring.decrypt(DATABASE, text, "connector a") == b"secret"
    assert ring.encrypt(DATABASE, b"secret", "connector a") != text
    for purpose, about in ((MESSAGES, "connector a"), (DATABASE, "connector b")):
        with pytest.raises(ValueError, match="belongs elsewhere"):
            ring.decrypt(purpose, text, about)
    changed = text[:-2] + ("A" if text[-2] != "A" else "B") + text[-1]
    with pytest.raises(ValueError):
        ring.decrypt(DATABASE, changed, "connector a")
    with pytest.raises(NoKey, match=key_id(text)):
        Keyring([new_key()]).decrypt(DATABASE, text, "connector a")


def test_an_older_key_decrypts_and_the_newest_encrypts(tmp_path: Path) -> None:
    file, old, new = tmp_path / "keys", new_key(), new_key()
    file.write_text(f"# a word\n{old}\n")
    ring = Keyring(file=file)
    text = ring.encrypt(DATABASE, b"secret")
    file.write_text(f"{new}\n{old}\n")  # while the process runs
    os.utime(file, ns=(1, 1))
    assert ring.decrypt(DATABASE, text) == b"secret"
    assert key_id(ring.encrypt(DATABASE, b"secret")) == Keyring([new]).keys[0].id != key_id(text)
    file.unlink()
    assert ring.decrypt(DATABASE, text) == b"secret"  # what was read goes on serving


@pytest.mark.parametrize("given", [{}, {"RINGFENCE_ENCRYPTION_KEY_FILE": "/nowhere/keys"}])
def test_no_key_is_said_with_the_remedy(given: dict[str, str]) -> None:
    with pytest.raises(NoKey, match="ringfence keys new"):
        _ = Keyring.from_environment(given).keys


def test_what_is_no_key_is_not_repeated() -> None:
    with pytest.raises(NoKey) as refused:
        Keyring(["hunter22"])
    assert "hunter22" not in str(refused.value)
