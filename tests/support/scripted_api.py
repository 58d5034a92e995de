"""A web server on the loopback interface whose responses a test writes itself, byte for byte."""

from collections.abc import Callable

from tests.support.loopback_api import Answer, LoopbackApi, Request


class ScriptedApi(LoopbackApi):
    """`answer` gets the path with the query, and may be replaced at any time. requests: the paths, in order."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self.answer = answer
        self.requests: list[str] = []
        super().__init__()

    def respond(self, request: Request) -> Answer:
        self.requests.append(request.path)
        return self.answer(request.path)
