"""The demo's button: sends SIGKILL to a worker of this machine, to show how its transactions are aborted
and repeated.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence.access.authorise import everywhere, requires
from ringfence.access.principal import Verb
from ringfence.audit.trail import note, record_change

if TYPE_CHECKING:
    import psutil


class NotRunning(Exception):
    """The worker has no running process."""


def find_process(folder: Path, worker: str) -> "psutil.Process":
    """Return the process in the worker's pid file in that folder, if it is that worker's. Raises NotRunning."""
    import psutil

    missing = NotRunning(f"{worker} does not run at the moment. Wait until it is started again")
    if not re.fullmatch(r"worker-[0-9]{1,4}", worker):
        raise NotRunning("Only workers that the demo has started can be killed")
    try:
        process = psutil.Process(int((folder / f"{worker}.pid").read_text()))
        command = process.cmdline()
    except (OSError, ValueError, psutil.Error) as error:
        raise missing from error
    if _arguments(command)[:3] != ["worker", "--id", worker]:
        raise missing
    return process


def _arguments(command: list[str]) -> list[str]:
    """Return the arguments after the program's module."""
    return command[command.index("ringfence.cli") + 1 :] if "ringfence.cli" in command else []


@requires(POST=everywhere(Verb.ADMIN).writing())
@require_POST
def kill_worker(request: HttpRequest) -> HttpResponse:
    """Kill `worker=<id>` without notice; `up` starts it again."""
    worker, folder = request.POST.get("worker", ""), settings.DEMO_RUN_FOLDER
    assert folder is not None  # otherwise this route does not exist
    import psutil

    try:
        process = find_process(folder, worker)
        process.kill()
    except (NotRunning, psutil.NoSuchProcess) as error:
        note(request, str(error))
        return render(request, "ringfence/parts/notice.html", {"tone": "bad", "text": str(error)}, status=409)
    record_change(request, before={"worker": worker, "process": process.pid}, after=None, action="kill worker")
    text = (
        f"SIGKILL to {worker}, process {process.pid}. Watch the lanes: its open transactions are aborted and "
        "written again."
    )
    return render(request, "ringfence/parts/notice.html", {"tone": "motion", "text": text})
