"""Kafka Connect's internal requests between workers: session keys (KIP-507) and the signed fence (KIP-618)."""

import base64
import binascii
from collections.abc import Callable

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.session_keys import SessionKeys, SignatureCheck
from ringfence.requests.commands import Fence
from ringfence.requests.request import Refusal

_WRITE_SECONDS = 20.0


def rotate_key(term: Term, keys: SessionKeys, now_ms: int) -> None:
    """Write a new key if the newest has expired. Call it on the leader's thread."""
    if keys.due(term.state.session_key, now_ms):
        key = keys.make_key(now_ms)
        term.write(lambda state: [key] if keys.due(state.session_key, now_ms) else [], Deadline.after(_WRITE_SECONDS))


def check_signature(keys: SessionKeys, state: ClusterState, request: Fence) -> None:
    """Raise `Refusal`, with Kafka Connect's message, unless the request is signed with the newest key."""
    algorithm = request.algorithm
    try:
        payload = base64.b64decode(request.payload, validate=True)
    except binascii.Error:
        raise Refusal(400, "The request's body did not arrive whole. Send it again") from None
    match keys.verdict(state.session_key, payload, request.signature, algorithm):
        case SignatureCheck.VALID:
            return
        case SignatureCheck.UNSUPPORTED:
            raise Refusal(
                400,
                f"This worker does not support the '{algorithm}' key signing algorithm. Use one of "
                "inter.worker.verification.algorithms",
            )
        case SignatureCheck.MALFORMED:
            raise Refusal(400, "X-Connect-Authorization must be the base64 of the body's HMAC")
        case SignatureCheck.NO_KEY:
            raise Refusal(
                503,
                "This worker is still starting up and has not been able to write a session key to the config topic "
                "yet. Send the request again",
                passing=True,
            )
        case SignatureCheck.INVALID:
            raise Refusal(
                403,
                "Internal request contained invalid signature. Sign the body with the newest session-key of the "
                "config topic: it may have been rotated",
            )


def await_fencing_round(state: ClusterState, name: ConnectorName, await_round: Callable[[ConnectorName], None]) -> None:
    """Wait until the round of the connector's newest generation is over. Raises `Refusal`, 404 for no such connector.

    It starts no round: the reconcile loop starts each one that is due.
    """
    if name not in state:
        raise Refusal(404, f"Connector {name} not found")
    if state.connector(name).tasks_stale:
        raise Refusal(409, "Cannot complete request momentarily due to stale configuration. Send it again", retry=True)
    try:
        await_round(name)
    except Refusal as late:
        raise Refusal(
            500,
            f"Request timed out: the old tasks of {name} are still being fenced. Fencing is repeated until it "
            "succeeds; the connector's fencing events show what prevents it",
        ) from late
