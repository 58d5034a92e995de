"""Real `/hooks/` of a web process, without the rest of the site: `python -m tests.security.hook_site PORT`.

Standard input has the endpoints of the tasks, as JSON by name, and keeps it running.
"""

import asyncio
import json
import sys
from typing import Any

import django
import uvicorn

from ringfence.connectors.api import Endpoint


async def serve(port: int, endpoints: dict[str, Endpoint]) -> None:
    from ringfence.web.hooks.links import Links
    from ringfence.web.hooks.receiver import Receiver, hook_name
    from ringfence.web.http_protocol import IDLE_SECONDS, BoundedProtocol

    async def ask(name: str) -> tuple[bool, Endpoint | None]:
        return name in endpoints, endpoints.get(name)

    receiver = Receiver(Links(ask))

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receiver(hook_name(scope) or "", scope, receive, send)

    config = uvicorn.Config(
        application,
        port=port,
        lifespan="off",
        http=BoundedProtocol,
        timeout_keep_alive=IDLE_SECONDS,
        access_log=False,
        proxy_headers=False,
    )
    server = asyncio.create_task(uvicorn.Server(config).serve())
    await asyncio.to_thread(sys.stdin.read)
    server.cancel()


if __name__ == "__main__":
    django.setup()
    described = json.loads(sys.stdin.readline())
    asyncio.run(serve(int(sys.argv[1]), {name: Endpoint(*fields) for name, fields in described.items()}))
