"""A broker of a producer's conversations that answers everything at once."""

from ringfence.fencing.transactions.messages import (
    NO_TOPIC_ID,
    AddOffsets,
    AddPartitions,
    BatchResponse,
    BrokerSetting,
    CodesResponse,
    CoordinatorResponse,
    EndTransaction,
    ErrorResponse,
    FindCoordinator,
    IdentityResponse,
    InitProducerId,
    Metadata,
    MetadataResponse,
    Produce,
    ProduceResponse,
    Request,
    Response,
    SettingResponse,
    TopicMetadata,
)


class WillingBroker:
    """Answers everything at once. wait: what it says of how long leaders wait."""

    def __init__(self, wait: str | None) -> None:
        self.kinds: list[type] = []
        self._wait = wait
        self._epoch = 0

    def answer(self, request: Request) -> Response:
        self.kinds.append(type(request))
        match request:
            case FindCoordinator():
                return CoordinatorResponse(0, 0, 1, "h", 1)
            case Metadata():
                return MetadataResponse(0, {1: ("h", 1)}, {"t": TopicMetadata(0, NO_TOPIC_ID, [1])})
            case BrokerSetting():
                return SettingResponse(0, 0 if self._wait else 31, self._wait)
            case Produce():
                return ProduceResponse(0, {place: BatchResponse(0, -1) for place in request.batches})
            case AddPartitions():
                return CodesResponse(0, dict.fromkeys(request.places, 0))
            case AddOffsets():
                return ErrorResponse(0, 0)
        assert isinstance(request, InitProducerId | EndTransaction)
        self._epoch += 1
        return IdentityResponse(0, 0, 7, self._epoch)
