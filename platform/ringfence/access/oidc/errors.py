"""Why a login by single sign-on failed. The messages are for people, and end with the remedy.

Apart from what raises them: that imports clients that a web process without single sign-on needs for nothing.
"""


class Unavailable(Exception):
    """The provider does not answer, or not correctly."""


class NotProven(Exception):
    """The provider's answer does not prove who logged in."""
