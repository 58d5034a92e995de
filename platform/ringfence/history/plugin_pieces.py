"""The file of an installation, as its bytes stand in the database."""

from collections.abc import Iterator

from ringfence.history.models import PluginInstallation, PluginPiece


def read_pieces(installation: PluginInstallation) -> Iterator[bytes]:
    """One after another: a plugin may be larger than what a process should hold."""
    pieces = PluginPiece.objects.filter(installation=installation).order_by("start")
    for key in list(pieces.values_list("pk", flat=True)):
        yield bytes(PluginPiece.objects.values_list("data", flat=True).get(pk=key))
