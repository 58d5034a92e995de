"""Installs on this worker the plugins that users install on all workers, and reports what it has.

The wanted plugins are in the database, so a worker that starts later installs them, too. Each worker has its own rows.
"""

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast

from django.db import DatabaseError, close_old_connections

from ringfence import django_apps
from ringfence.engine.plugins.errors import PluginError
from ringfence.engine.plugins.host import PluginHost
from ringfence.fencing.clock import epoch_ms

if TYPE_CHECKING:
    from ringfence.history.models import PluginInstallation, WorkerInstallation

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 2.0


class InstallFailed(Exception):
    """Why a plugin is not installed, with the remedy. Nothing of it is left."""


class Installer(Protocol):
    """Puts a plugin into this worker's folder: whole, or not at all.

    Both methods return `{"folder", "connectors": {class: version}, "files": {name: sha256}}`, even if the same plugin
    is installed already, and raise `InstallFailed`.
    """

    def fetch(self, plugin: str) -> Mapping[str, object]:
        """Install from Maven Central by coordinates, or from PyPI by `name==version`."""

    def unpack(self, name: str, sha256: str, pieces: Iterable[bytes]) -> Mapping[str, object]:
        """Install a file with this name."""

    def prepare_java(self) -> None:
        """Fetch what Java plugins need to run, where it is missing. Raises `InstallFailed`."""


class PluginInstallations:
    """One object per worker. installer: None if plugins must not be installed here."""

    def __init__(self, worker: str, incarnation: str, plugins: PluginHost, installer: Installer | None) -> None:
        self._worker = worker
        self._incarnation = incarnation
        self._plugins = plugins
        self._installer = installer
        self._reported_state: object = None

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`. If the database or a plugin process does not respond, it is tried again."""
        django_apps.load()
        while not stop.wait(_LOOK_SECONDS):
            try:
                while self.install_next():
                    pass
                self.tell_versions()
                self._plugins.close_unused()
            except (DatabaseError, PluginError, InstallFailed) as error:
                log.info("The plugins to install here will be looked up again soon: %s", error)
            finally:
                close_old_connections()

    def tell_versions(self) -> None:
        """Report the installed versions if plugins have changed since the last call."""
        from ringfence.history.models import WorkerPlugins

        state = self._plugins.installed_plugins.read()
        if state == self._reported_state:
            return
        if self._installer is not None and self._plugins.installed_plugins.have_jars():
            self._installer.prepare_java()  # somebody may have put them there by hand
        plugins = self._plugins.plugins()
        versions = {str(each["class"]): each["versions"] for each in plugins}
        row = {
            "incarnation": self._incarnation,
            "plugins": json.dumps(versions),
            "titles": json.dumps(_list_titles(plugins)),
            "installs": self._installer is not None,
            "time_ms": epoch_ms(),
        }
        WorkerPlugins.objects.update_or_create(worker=self._worker, defaults=row)
        self._reported_state = state

    def install_next(self) -> bool:
        """Install the oldest plugin that this worker has not processed. Returns whether there was one.

        A plugin that was being installed when the worker was killed is installed again.
        """
        from ringfence.history.models import PluginInstallation, WorkerInstallation

        if self._installer is None:
            return False
        finished_shares = WorkerInstallation.objects.filter(worker=self._worker).exclude(state="running")
        installations = PluginInstallation.objects.filter(ready=True).exclude(
            pk__in=finished_shares.values("installation")
        )
        if (next_one := installations.order_by("pk").first()) is None:
            return False
        share, _ = WorkerInstallation.objects.get_or_create(
            installation=next_one, worker=self._worker, defaults={"started_ms": epoch_ms()}
        )
        try:
            share.report = json.dumps(self._install(self._installer, next_one))
            share.state = "done"
            log.info("Plugin %s, requested by %s, is installed: %s", next_one.plugin, next_one.user, share.report)
        except InstallFailed as error:
            share.state, share.error = "failed", str(error)
            log.warning("Plugin %s, requested by %s, is not installed: %s", next_one.plugin, next_one.user, error)
        share.ended_ms = epoch_ms()
        self._audit(next_one, share)
        # Not `save`, which would create it again if the installation was withdrawn in the meantime.
        WorkerInstallation.objects.filter(pk=share.pk).update(
            state=share.state, error=share.error, report=share.report, ended_ms=share.ended_ms
        )
        return True

    def _audit(self, installation: "PluginInstallation", share: "WorkerInstallation") -> None:
        """Record the result here, with the SHA-256 of each file: unlike the rows, an audit entry is not deleted."""
        from ringfence.audit.models import Outcome
        from ringfence.audit.trail import record

        record(
            "plugin installed",
            user=installation.user,
            via=f"worker {self._worker}",
            address="",
            outcome=Outcome.DONE if share.state == "done" else Outcome.FAILED,
            request=installation.plugin,
            message=share.error,
            after=json.loads(share.report) if share.report else {},
        )

    def _install(self, installer: Installer, installation: "PluginInstallation") -> Mapping[str, object]:
        from ringfence.history.plugins import read_pieces

        if not installation.sha256:
            return installer.fetch(installation.plugin)
        return installer.unpack(installation.plugin, installation.sha256, read_pieces(installation))


def _list_titles(plugins: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return the titles of the catalog by all names of their connectors."""
    titles: dict[str, str] = {}
    for plugin in plugins:
        entry = cast("Mapping[str, object] | None", plugin.get("catalog"))
        if entry is not None:
            titles |= {name: str(entry["title"]) for name in cast("list[str]", plugin["names"])}
    return titles
