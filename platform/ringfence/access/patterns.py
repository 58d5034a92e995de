"""Patterns of connector names and topics; a task reads those of topics, too."""

from fencing.name_patterns import EVERYTHING, matches, regular_expression

__all__ = ["EVERYTHING", "matches", "regular_expression"]
