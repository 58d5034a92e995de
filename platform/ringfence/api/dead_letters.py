"""A connector's dead letters and their replay, for pages and REST. A worker reads them; secrets are hidden."""

import base64
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ringfence import dispatch
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.engine.questions import ListDeadLetters, ReplayDeadLetters
from ringfence.http.errors import bad_request
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector

LEVELS: Final = ("read_committed", "read_uncommitted")
STAGES: Final = ("TRANSFORMATION", "HEADER_CONVERTER", "KEY_CONVERTER", "VALUE_CONVERTER")
MOST_PLACES: Final = 500
LONGEST_REASON: Final = 1000
READ_SECONDS, REPLAY_SECONDS = 20.0, 60.0
_LONGEST_CLASS: Final = 500
_BEFORE: Final = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18}){0,99}")
_TEXTS: Final = ("class", "error", "message", "trace", "topic", "source_partition", "source_offset")

Places = Sequence[tuple[int, int]]


def topic_of(row: Connector) -> str:
    """Return the connector's dead letter queue; "" if it has none."""
    return row.settings.get(DEAD_LETTERS, "").strip()


def find_dead_letters(
    row: Connector, *, stage: str = "", by: str = "", before: str = "", level: str = LEVELS[0]
) -> dict[str, Any]:
    """Return `topic`, `letters`, `before` (a string for the next page, "" after the last), `partitions`, `at_most`,
    `complete`.

    Keys and values are encoded for `web.connector.record_text`. Raises `ConnectError`, `Refusal`.
    """
    stage, by = _filters(stage, by)
    if level not in LEVELS:
        raise bad_request(f"level must be one of {', '.join(LEVELS)}.")
    if before and not _BEFORE.fullmatch(before):
        raise bad_request("before must be the value of the previous page: partition:offset,partition:offset…")
    config = _config(row)
    older = [[int(number) for number in each.split(":")] for each in before.split(",")] if before else None
    question = ListDeadLetters(config, stage, by, older, committed_only=level == LEVELS[0])
    answer = dispatch.ask(question, READ_SECONDS)
    masker = Masker([row.class_name])

    def scrub(text: str) -> str:
        return masker.scrub(text, config)

    for letter in answer["letters"]:
        letter.update({key: scrub(letter[key]) for key in _TEXTS})
        letter.update({key: _scrub(letter[key], scrub) for key in ("key", "value")})
        letter["headers"] = [[name, _scrub(encoded, scrub), size] for name, encoded, size in letter["headers"]]
    following = answer["before"] or ()
    answer["before"] = ",".join(f"{partition}:{offset}" for partition, offset in following)
    answer["at_most"] = sum(max(0, each["end"] - each["first"]) for each in answer["partitions"])
    return answer


def replay(
    row: Connector, user: str, *, places: Places | None = None, stage: str = "", by: str = "", reason: str = ""
) -> dict[str, Any]:
    """Replay the records at `places`, or without them all that match, the oldest first. Returns `topic`, `results`,
    `left`.

    Raises `ConnectError`, `Refusal`.
    """
    selection: dict[str, Any] = {}
    if places is None:
        selection["stage"], selection["class"] = _filters(stage, by)
    elif not 1 <= len(places) <= MOST_PLACES:
        raise bad_request(f"From 1 to {MOST_PLACES} dead letters can be replayed at a time: nothing was replayed.")
    else:
        selection["places"] = [list(place) for place in places]
    if len(reason) > LONGEST_REASON:
        raise bad_request(f"reason may have up to {LONGEST_REASON} characters: nothing was replayed.")
    config = _config(row)
    masker = Masker([row.class_name])
    secret = sorted(key for key in config if masker.secret(row.class_name, key))
    details = {"by": user, "at_ms": str(int(time.time() * 1000)), **({"reason": reason} if reason else {})}
    answer = dispatch.ask(ReplayDeadLetters(config, selection, details, secret), REPLAY_SECONDS)
    for result in answer["results"]:
        result["why"] = masker.scrub(result["why"], config)
    return answer


def count_outcomes(results: Sequence[Mapping[str, Any]]) -> str:
    """Summarise the outcomes in one line, for people and the audit trail."""
    topics: dict[str, int] = {}
    for each in results:
        if each["became"] == "written":
            topics[each["topic"]] = topics.get(each["topic"], 0) + 1
    parts = [f"{count} written to {topic}" for topic, count in sorted(topics.items())]
    words = {
        "dropped": "dropped by a transform",
        "failed": "failed again",
        "replayed": "replayed before",
        "undecided": "not decided yet",
        "missing": "not there",
    }
    for became, text in words.items():
        count = sum(each["became"] == became for each in results)
        parts += [f"{count} {text}"] if count else []
    return ", ".join(parts) or "no dead letter matched"


def audit_text(done: Mapping[str, Any], reason: str) -> str:
    """Return the message of a replay's audit entry."""
    summary = f"replayed dead letters of {done['topic']}: {count_outcomes(done['results'])}"
    return f"{reason}. {summary}" if reason else summary


def _scrub(encoded: str | None, scrub: Callable[[str], str]) -> str | None:
    """Remove the connector's secrets from bytes in Base64."""
    if encoded is None:
        return None
    text = base64.b64decode(encoded).decode("utf-8", "surrogateescape")
    return base64.b64encode(scrub(text).encode("utf-8", "surrogateescape")).decode("ascii")


def _config(row: Connector) -> dict[str, str]:
    if not topic_of(row):
        raise bad_request(f"{row.name} keeps no dead letters: set errors.tolerance=all and {DEAD_LETTERS}.")
    return {**row.settings, "name": row.name}


def _filters(stage: str, by: str) -> tuple[str, str]:
    if stage and stage not in STAGES:
        raise bad_request(f"stage must be one of {', '.join(STAGES)}.")
    if len(by) > _LONGEST_CLASS:
        raise bad_request(f"class may have up to {_LONGEST_CLASS} characters.")
    return stage, by.strip()
