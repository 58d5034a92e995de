"""Who reads the config topic in the platform reads it with the keys, or stops every encrypted connector."""

from pathlib import Path

import ringfence

PLATFORM = Path(ringfence.__file__).parent


def test_the_config_topic_is_opened_in_one_place() -> None:
    opened = {
        path.relative_to(PLATFORM).as_posix()
        for folder in sorted(PLATFORM.iterdir())
        if not folder.is_symlink()
        for path in ([folder] if folder.suffix == ".py" else folder.rglob("*.py"))
        if " ConfigLog(" in path.read_text()
    }
    assert opened == {"engine/config_topic.py"}
