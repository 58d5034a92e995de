"""As much of a Kubernetes API as Spark asks for its executors: each pod is a process on this machine."""

import json
import os
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ringfence.local.guarded_process import GuardedProcess
from ringfence.local.java import find_java

Json = dict[str, Any]
_ADDRESS = "127.0.0.1"


class Kubernetes:
    """`master` is for `spark.master`. `requests`: what was asked, for a look when something goes wrong."""

    def __init__(self, root: Path, image: str) -> None:
        self._root, self._image = root, image
        self._objects: dict[tuple[str, str], Json] = {}
        self._turn = threading.Lock()
        self.processes: dict[str, GuardedProcess] = {}
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer((_ADDRESS, 0), self._handler())
        threading.Thread(target=self._server.serve_forever, name="kubernetes", daemon=True).start()

    @property
    def master(self) -> str:
        return f"k8s://http://{_ADDRESS}:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self.processes.values():
            process.kill()

    def answer(self, method: str, path: str, body: Json | None) -> tuple[int, Json]:
        """To a request below `/api/v1/namespaces/default`."""
        self.requests.append(f"{method} {path}")
        parts = urlsplit(path).path.strip("/").split("/")[4:]
        kind, name = (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else "")
        with self._turn:
            if body is not None and method in ("POST", "PUT"):
                return 201, self._made(kind, body)
            if method == "DELETE":
                for key in [key for key in self._objects if key[0] == kind and name in ("", key[1])]:
                    self._gone(*key)
                return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            if name:
                found = self._objects.get((kind, name))
                return (200, found) if found else (404, {"kind": "Status", "apiVersion": "v1", "code": 404})
            items = [self._seen(one) for (of, _), one in self._objects.items() if of == kind]
            listed = {"pods": "PodList", "configmaps": "ConfigMapList"}.get(kind, "List")
            return 200, {"kind": listed, "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}

    def _made(self, kind: str, made: Json) -> Json:
        metadata = made.setdefault("metadata", {})
        metadata.update({"namespace": "default", "uid": metadata["name"], "resourceVersion": "1"})
        metadata["creationTimestamp"] = "2025-01-01T00:00:00Z"
        self._objects[kind, metadata["name"]] = made
        if kind == "pods":
            made["status"] = {"phase": "Running", "podIP": _ADDRESS}
            self._start(made)
        return made

    def _start(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        assert container["image"] == self._image
        assert "command" not in container, "the image's own entrypoint takes the arguments"
        fields = {"status.podIP": _ADDRESS, "metadata.name": name}
        env = {
            one["name"]: one.get("value") or fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container["env"]
            if "value" in one or "valueFrom" in one
        }
        work = self._root / name
        work.mkdir()
        ours: Mapping[str, str] = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            "SPARK_LOCAL_DIRS": str(work),
            "SPARK_LOCAL_IP": _ADDRESS,
        }
        command = [str(Path(sys.executable).with_name("ringfence")), *container["args"]]
        self.processes[name] = GuardedProcess.start(
            name, command, log=self._root / f"{name}.log", env={**env, **ours}, cwd=work
        )

    def _gone(self, kind: str, name: str) -> None:
        del self._objects[kind, name]
        if kind == "pods" and name in self.processes:
            self.processes.pop(name).kill()

    def _seen(self, made: Json) -> Json:
        """With the state that it has now."""
        name = made["metadata"]["name"]
        if made.get("kind") == "Pod" and name in self.processes and self.processes[name].poll() is not None:
            ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
            made["status"] = {"phase": "Failed", "containerStatuses": [{"name": "x", "image": "x", "state": ended}]}
        return made

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, given = answer(self.command, self.path, body)
                text = json.dumps(given).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self) -> None:
                self._any()

            def do_POST(self) -> None:
                self._any()

            def do_PUT(self) -> None:
                self._any()

            def do_DELETE(self) -> None:
                self._any()

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        return Handler
