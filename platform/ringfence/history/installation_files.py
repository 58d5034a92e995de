"""Reads the file of an installation from the database."""

from collections.abc import Iterator

from ringfence.history.models import PluginInstallation, PluginPiece


def read_pieces(installation: PluginInstallation) -> Iterator[bytes]:
    """Yield its pieces one by one: a plugin may be larger than a process should hold in memory."""
    pieces = PluginPiece.objects.filter(installation=installation).order_by("start")
    for key in list(pieces.values_list("pk", flat=True)):
        yield bytes(PluginPiece.objects.values_list("data", flat=True).get(pk=key))
