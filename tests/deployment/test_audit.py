"""`make audit` tells a hole from a network that is away. The reports are pip-audit's."""

from typing import Any

from tools.audit import FOUND, UNKNOWN, judge

SOUND = {"name": "amqp", "version": "5.4.2", "vulns": []}
SKIPPED = {"name": "amqp", "skip_reason": "Dependency not found on PyPI and could not be audited: amqp (5.4.2)"}
HOLE = {
    "name": "django",
    "version": "5.2.1",
    "vulns": [{"id": "PYSEC-2025-1", "fix_versions": ["5.2.8"], "aliases": ["CVE-2025-64459"], "description": "…"}],
}


def test_a_hole_fails_also_where_the_others_could_not_be_asked() -> None:
    for others in ([], [SOUND], [SKIPPED]):
        code, lines = judge({"dependencies": [*others, HOLE], "fixes": []})
        assert code == FOUND
        assert lines[0] == "django 5.2.1: PYSEC-2025-1, fixed in 5.2.8"


def test_silence_is_no_finding_and_no_all_clear() -> None:
    nothing: list[dict[str, Any] | None] = [
        None,
        *({"dependencies": some} for some in ([], [SKIPPED], [SOUND, SKIPPED])),
    ]
    for report in nothing:
        code, lines = judge(report, "Could not resolve host")
        assert code == 0
        assert "nothing is known" in lines[-1]
        assert judge(report, strict=True)[0] == UNKNOWN


def test_all_sound() -> None:
    assert judge({"dependencies": [SOUND]}, strict=True) == (0, ["1 packages were checked, 0 vulnerabilities found"])
