"""Validators of settings with a syntax of their own."""

from ringfence.connectors.api import ConfigException


def check_slot_name(name: str, value: object) -> None:
    text = str(value)
    if not text or len(text) > 63 or not all(char in "abcdefghijklmnopqrstuvwxyz0123456789_" for char in text):
        raise ConfigException.invalid(name, value, "Use 1 to 63 lowercase letters, digits and underscores")


def check_topic_prefix(name: str, value: object) -> None:
    text = str(value)
    if not text or not all(char.isascii() and (char.isalnum() or char in "._-") for char in text):
        raise ConfigException.invalid(name, value, "Use letters, digits, '.', '_' and '-'")


def check_operations(name: str, value: object) -> None:
    operations = {str(one) for one in value} if isinstance(value, list) else set()
    if operations - {"c", "u", "d", "t", "m", "r", "none"}:
        raise ConfigException.invalid(name, value, "Use c, u, d, t, m and r, or none")


def check_key_columns(name: str, value: object) -> None:
    for part in str(value).split(";"):
        table, colon, columns = part.strip().rpartition(":")
        if part.strip() and not (table and colon and columns):
            raise ConfigException.invalid(name, value, "Use schema.table:column,column;…")
