"""Requests and responses have the bytes of kafka-python, another implementation, in every version."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from ringfence.fencing.transactions import messages
from ringfence.fencing.transactions.messages import BatchResponse, Request, TopicMetadata
from ringfence.fencing.transactions.wire import MalformedResponse, Reader, i16, i32, uvarint

TOPIC_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
PLACES = [("a", 0), ("a", 3), ("täglich", 1)]
IDS: dict[str, Any] = {"transactional_id": "id", "producer_id": 2**40, "producer_epoch": 7}
OURS = ("id", 2**40, 7)
Data = ProduceRequest.TopicProduceData
Part = Data.PartitionProduceData
Added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
OffsetTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
Offset = OffsetTopic.TxnOffsetCommitRequestPartition


def produce(implicit: bool, long: bytes = b"y" * 200) -> messages.Produce:
    batches = {("a", 0): (b"head", b"x"), ("a", 3): (b"head", long), ("täglich", 1): (b"", b"z")}
    return messages.Produce("id", 30_000, batches, implicit, {"a": TOPIC_ID.bytes, "täglich": UUID(int=5).bytes})


def their_produce(long: bytes = b"y" * 200) -> ProduceRequest:
    first = [Part(index=0, records=b"headx"), Part(index=3, records=b"head" + long)]
    topics = [
        Data(name="a", topic_id=TOPIC_ID, partition_data=first),
        Data(name="täglich", topic_id=UUID(int=5), partition_data=[Part(index=1, records=b"z")]),
    ]
    return ProduceRequest(transactional_id="id", acks=-1, timeout_ms=30_000, topic_data=topics)


def their_offsets() -> TxnOffsetCommitRequest:
    def offset(partition: int, position: int) -> Any:
        return Offset(partition_index=partition, committed_offset=position, committed_metadata=None)

    topics = [
        OffsetTopic(name="a", partitions=[offset(0, 5), offset(3, 2**40)]),
        OffsetTopic(name="täglich", partitions=[offset(1, 0)]),
    ]
    member = {"generation_id": 9, "member_id": "m-1", "group_instance_id": None}
    return TxnOffsetCommitRequest(**IDS, group_id="g", topics=topics, **member)


def their_metadata() -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(topic_id=None, name=name) for name in ("a", "täglich")]
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


OFFSETS = {("a", 0): 5, ("a", 3): 2**40, ("täglich", 1): 0}
REQUESTS: list[tuple[Request, Any]] = [
    (messages.ApiVersions("1.0"), ApiVersionsRequest(client_software_name="ringfence", client_software_version="1.0")),
    (messages.Metadata(["a", "täglich"]), their_metadata()),
    (
        messages.FindCoordinator("id", messages.TRANSACTION_KEY),
        FindCoordinatorRequest(key="id", key_type=1, coordinator_keys=["id"]),
    ),
    (
        messages.FindCoordinator("g", messages.GROUP_KEY),
        FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"]),
    ),
    (
        messages.InitProducerId("id", 60_000),
        InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000),
    ),
    (messages.InitProducerId("id", 60_000, 2**40, 7), InitProducerIdRequest(**IDS, transaction_timeout_ms=60_000)),
    (
        messages.AddPartitions(*OURS, PLACES),
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=2**40,
            v3_and_below_producer_epoch=7,
            v3_and_below_topics=[Added(name="a", partitions=[0, 3]), Added(name="täglich", partitions=[1])],
        ),
    ),
    (messages.AddOffsets(*OURS, "g"), AddOffsetsToTxnRequest(**IDS, group_id="g")),
    (messages.CommitOffsets(*OURS, messages.GroupMember("g", 9, "m-1"), OFFSETS, True), their_offsets()),
    (messages.EndTransaction(*OURS, True, True), EndTxnRequest(**IDS, committed=True)),
    (messages.EndTransaction(*OURS, False, True), EndTxnRequest(**IDS, committed=False)),
    (produce(True), their_produce()),
    (produce(True, b"y" * 70_000), their_produce(b"y" * 70_000)),
    (
        messages.BrokerSetting(3, "a.b.ms"),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=4, resource_name="3", configuration_keys=["a.b.ms"]
                )
            ],
            include_synonyms=False,
            include_documentation=False,
        ),
    ),
    (messages.SaslHandshake("PLAIN"), SaslHandshakeRequest(mechanism="PLAIN")),
    (messages.SaslAuthenticate(b"\0user\0secret"), SaslAuthenticateRequest(auth_bytes=b"\0user\0secret")),
]


def versions(request: Request) -> Sequence[int]:
    first, last = request.versions
    return range(first, last + 1)


@pytest.mark.parametrize(
    "ours, theirs, version",
    [
        pytest.param(ours, theirs, version, id=f"{type(ours).__name__}-{number}-{version}")
        for number, (ours, theirs) in enumerate(REQUESTS)
        for version in versions(ours)
    ],
)
def test_requests(ours: Request, theirs: Any, version: int) -> None:
    assert ours.api == theirs.API_KEY
    assert b"".join(ours.encode(version)) == bytes(theirs.encode(version=version))


def read(request: Request, theirs: Any, version: int) -> Any:
    content = bytes(theirs.encode(version=version))
    reader = Reader(content)
    answer = request.decode(version, reader)
    for size in range(len(content) // 2):  # the last fields of some are of no interest
        with pytest.raises(MalformedResponse):
            request.decode(version, Reader(content[:size]))
    return answer


@pytest.mark.parametrize("version", range(9, 14))
def test_responses_to_metadata(version: int) -> None:
    topic, broker = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponseBroker
    part = topic.MetadataResponsePartition

    def partition(number: int, leader: int) -> Any:
        return part(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=4,
            replica_nodes=[1, 2],
            isr_nodes=[1],
            offline_replicas=[],
        )

    theirs = MetadataResponse(
        throttle_time_ms=5,
        brokers=[broker(node_id=1, host="one", port=9092, rack=None), broker(node_id=2, host="two", port=1, rack="r")],
        cluster_id="c",
        controller_id=1,
        topics=[
            topic(error_code=0, name="a", topic_id=TOPIC_ID, partitions=[partition(1, 2), partition(0, -1)]),
            topic(error_code=3, name="gone", topic_id=UUID(int=0), partitions=[]),
        ],
    )
    answer = read(messages.Metadata(["a", "gone"]), theirs, version)
    topic_id = TOPIC_ID.bytes if version >= 10 else messages.NO_TOPIC_ID
    assert answer.brokers == {1: ("one", 9092), 2: ("two", 1)}
    assert answer.topics == {"a": TopicMetadata(0, topic_id, [-1, 2]), "gone": TopicMetadata(3, bytes(16), [])}
    assert answer.throttle_ms == 5


@pytest.mark.parametrize("version", range(3, 6))
def test_responses_to_find_coordinator(version: int) -> None:
    where = {"node_id": 3, "host": "h", "port": 9, "error_code": 0, "error_message": None}
    theirs = FindCoordinatorResponse(
        throttle_time_ms=1, coordinators=[FindCoordinatorResponse.Coordinator(key="id", **where)], **where
    )
    answer = read(messages.FindCoordinator("id", messages.TRANSACTION_KEY), theirs, version)
    assert answer == messages.CoordinatorResponse(1, 0, 3, "h", 9)


@pytest.mark.parametrize("version", range(3, 6))
def test_responses_with_an_identity(version: int) -> None:
    theirs = InitProducerIdResponse(throttle_time_ms=1, error_code=51, producer_id=2**40, producer_epoch=7)
    assert read(messages.InitProducerId("id", 1), theirs, version) == messages.IdentityResponse(1, 51, 2**40, 7)
    end = EndTxnResponse(throttle_time_ms=1, error_code=0, producer_id=2**40, producer_epoch=8)
    answer = read(messages.EndTransaction(*OURS, True, True), end, version)
    assert answer == messages.IdentityResponse(1, 0, *((2**40, 8) if version == 5 else (-1, -1)))


@pytest.mark.parametrize("version", range(3, 6))
def test_responses_with_codes(version: int) -> None:
    codes = {("a", 0): 0, ("a", 3): 51, ("täglich", 1): 14}
    topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    part = topic.TxnOffsetCommitResponsePartition
    topics = [
        topic(name="a", partitions=[part(partition_index=0, error_code=0), part(partition_index=3, error_code=51)]),
        topic(name="täglich", partitions=[part(partition_index=1, error_code=14)]),
    ]
    request = messages.CommitOffsets(*OURS, messages.GroupMember("g"), OFFSETS, True)
    theirs = TxnOffsetCommitResponse(throttle_time_ms=2, topics=topics)
    assert read(request, theirs, version) == messages.CodesResponse(2, codes)


def test_response_to_add_partitions() -> None:
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = topic.AddPartitionsToTxnPartitionResult
    topics = [
        topic(
            name="a",
            results_by_partition=[part(partition_index=number, partition_error_code=code)],
        )
        for number, code in ((0, 0), (3, 55))
    ]
    theirs = AddPartitionsToTxnResponse(throttle_time_ms=2, results_by_topic_v3_and_below=topics)
    answer = read(messages.AddPartitions(*OURS, PLACES), theirs, 3)
    assert answer == messages.CodesResponse(2, {("a", 0): 0, ("a", 3): 55})


@pytest.mark.parametrize("version", [3, 4])
def test_response_to_add_offsets(version: int) -> None:
    theirs = AddOffsetsToTxnResponse(throttle_time_ms=2, error_code=16)
    assert read(messages.AddOffsets(*OURS, "g"), theirs, version) == messages.ErrorResponse(2, 16)


@pytest.mark.parametrize("version", range(9, 14))
def test_responses_to_produce(version: int) -> None:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    reason = part.BatchIndexAndErrorMessage
    good = part(index=0, error_code=0, base_offset=2**40, record_errors=[], error_message=None)
    bad = part(
        index=3,
        error_code=87,
        base_offset=-1,
        record_errors=[reason(batch_index=0, batch_index_error_message="no key")],
        error_message=None,
    )
    theirs = ProduceResponse(
        responses=[topic(name="a", topic_id=TOPIC_ID, partition_responses=[good, bad])], throttle_time_ms=9
    )
    answer = read(produce(True), theirs, version)
    assert answer.by_place == {("a", 0): BatchResponse(0, 2**40), ("a", 3): BatchResponse(87, -1, "no key")}
    assert answer.throttle_ms == 9


def test_response_to_api_versions() -> None:
    entry, level = ApiVersionsResponse.ApiVersion, ApiVersionsResponse.FinalizedFeatureKey
    theirs = ApiVersionsResponse(
        error_code=0,
        api_keys=[entry(api_key=0, min_version=3, max_version=13), entry(api_key=26, min_version=0, max_version=5)],
        throttle_time_ms=0,
        finalized_features_epoch=8,
        finalized_features=[
            level(name="kraft.version", max_version_level=1, min_version_level=1),
            level(name="transaction.version", max_version_level=2, min_version_level=2),
        ],
    )
    answer = messages.ApiVersions("1.0").decode(3, Reader(bytes(theirs.encode(version=3))))
    assert answer.ranges == {0: (3, 13), 26: (0, 5)}
    assert answer.features == {"kraft.version": 1, "transaction.version": 2}
    assert answer.transaction_version == 2
    old = messages.ApiVersions("1.0").decode(3, Reader(i16(35) + i32(0)))
    assert (old.error, old.transaction_version) == (35, 0)


def test_responses_to_a_question_for_a_setting() -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult
    synonym = config.DescribeConfigsSynonym
    common = {"read_only": True, "config_source": 5, "is_sensitive": False, "config_type": 3, "documentation": None}
    configs = [
        config(name="other", value=None, synonyms=[], **common),
        config(name="a.b.ms", value="20", synonyms=[synonym(name="a.b", value="20", source=5)], **common),
    ]
    ask = messages.BrokerSetting(3, "a.b.ms")
    head = {"resource_type": 4, "resource_name": "3"}
    theirs = result(error_code=0, error_message=None, configs=configs, **head)
    assert read(ask, DescribeConfigsResponse(throttle_time_ms=4, results=[theirs]), 4) == messages.SettingResponse(
        4, 0, "20"
    )
    denied = result(error_code=31, error_message="no", configs=[], **head)
    assert read(ask, DescribeConfigsResponse(throttle_time_ms=0, results=[denied]), 4) == messages.SettingResponse(
        0, 31, None
    )


def test_responses_to_logins() -> None:
    shake = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "SCRAM-SHA-256"])
    assert read(messages.SaslHandshake("X"), shake, 1) == messages.HandshakeResponse(0, 33, ["PLAIN", "SCRAM-SHA-256"])
    theirs = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"v=1", session_lifetime_ms=60_000)
    assert read(messages.SaslAuthenticate(b""), theirs, 2) == messages.AuthenticateResponse(0, 0, "", b"v=1", 60_000)


def test_what_no_response_holds_is_refused() -> None:
    with pytest.raises(MalformedResponse):
        Reader(b"\xff\xff\xff\xff\xff\xff").uvarint()
    with pytest.raises(MalformedResponse):
        Reader(uvarint(2**31) + b"abc").i32s()
    with pytest.raises(MalformedResponse):
        Reader(uvarint(10) + b"abc").string()
