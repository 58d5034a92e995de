"""Explains errors of the database to people: what happened, what is kept, and the remedy."""

from ringfence.heartbeats.cluster_view import look

_AWAY = (
    "The database does not answer ({error}). Running connectors are not affected. Check RINGFENCE_DATABASE_URL and "
    "that the database is up, then try again."
)
_FULL = (
    "The database cannot write: its disk is full. Nothing was changed, and running connectors are not affected. Make "
    "room on that disk, then try again."
)
_LOCKED = (
    "{doubt}The database is locked: another process has not finished a write, and may be frozen in it. Nothing was "
    "changed, and running connectors are not affected. Try again; if it happens again, look for a worker that does not "
    "report, and end or wake it."
)
_LOCKED_WORDS = "database is locked"
_LOCKED_SQLSTATE = "55P03"
_FULL_SQLSTATE = "53100"
_FULL_WORDS = ("database or disk is full", "No space left on device")


def explain_database_error(error: Exception) -> str:
    """Explain a database error without its own message, which may quote a statement's values."""
    cause = error.__cause__
    if getattr(cause, "sqlstate", "") == _FULL_SQLSTATE or any(words in str(error) for words in _FULL_WORDS):
        return _FULL
    if _LOCKED_WORDS in str(error) or getattr(cause, "sqlstate", "") == _LOCKED_SQLSTATE:
        doubt = look.vitals().refusal
        return _LOCKED.format(doubt=f"{doubt} " if doubt else "")
    return _AWAY.format(error=type(error).__name__)
