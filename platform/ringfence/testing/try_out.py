"""Tries a connector during development: is its example valid, and what does it read?

`python -m ringfence.testing.try_out FOLDER CONFIG`, in a separate process, so that it always loads the newest code.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ringfence.connectors.common_settings import CONNECTOR_CLASS
from ringfence.connectors.plural_forms import write_count
from ringfence.connectors.sdk import worker_limits
from ringfence.engine.plugins.calls import PluginRuntime, PreviewRecords, ValidateConfig
from ringfence.engine.plugins.errors import BadRequest, PluginError
from ringfence.local.errors import LocalError
from ringfence.testing.connector_run import list_errors
from ringfence.testing.project import Project

_BOUNDS = {"records": 10.0, "bytes": 1_000_000.0, "seconds": 5.0}
_WORKER = {"file.roots": "/", "file.write.roots": "/", "egress.allow": "public,private,loopback"}


def try_out(folder: Path, example: Path) -> int:
    """Print the errors, or the first records. Returns 0 if there are no errors, else 1."""
    worker_limits.declare(worker_limits.of_settings(_WORKER))
    try:
        config = _load(example)
        registry = Project(folder).registry()
        for name, why in registry.broken.items():
            raise LocalError(f"{name} cannot be loaded: {why}")
        runtime = PluginRuntime(registry, lambda _message: None)
        errors = _validate(runtime, config)
        if errors:
            print("Not valid yet:", *errors, sep="\n  ")
            return 1
        _show(PreviewRecords(config, [], {}, [], _BOUNDS).answer(runtime))
        return 0
    except (LocalError, PluginError, BadRequest) as error:
        print(error)
    except Exception:  # noqa: BLE001 - the author's code: its trace is what the author needs
        traceback.print_exc(file=sys.stdout)
    return 1


def _load(example: Path) -> dict[str, str]:
    try:
        content = json.loads(example.read_text(encoding="utf-8"))
        config = content.get("config", content)
        return {"name": str(content.get("name", "example"))} | {key: str(value) for key, value in config.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise LocalError(f"{example} is not a configuration ({error}): it must be a JSON object") from error


def _validate(runtime: PluginRuntime, config: Mapping[str, str]) -> list[str]:
    return list_errors(ValidateConfig(config.get(CONNECTOR_CLASS, ""), config).answer(runtime))


def _show(answer: Mapping[str, object]) -> None:
    records = cast("list[dict[str, object]]", answer["records"])
    for record in records:
        place = f"{json.dumps(record['source_partition'])} {json.dumps(record['source_offset'])}"
        if record["outcome"] != "written":
            print(f"  {place}: {record['outcome']} {record['error']}")
            continue
        output = cast("dict[str, object]", record["written"])
        print(f"  {place} -> {json.dumps(output, ensure_ascii=False)}")
    read = write_count(len(records), "record")
    print(f"{read} from the first of {answer['tasks']} tasks, in {answer['took_ms']} ms. {answer['note']}")


if __name__ == "__main__":
    sys.exit(try_out(Path(sys.argv[1]), Path(sys.argv[2])))
