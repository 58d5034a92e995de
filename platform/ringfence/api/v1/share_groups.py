"""`/api/v1/share-groups`: the share groups of the cluster (KIP-932), queried from Kafka now, and actions on them.

A group that a connector of this cluster reads is changed together with the connector's ledger, while the connector is
stopped.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ringfence.access.routes import somewhere
from ringfence.access.verbs import Verb
from ringfence.api.share_groups import acts, archived_records, cached_reports
from ringfence.api.share_groups.acts import Foreseen, MoveCounts
from ringfence.api.share_groups.archived_records import ArchivedRecords
from ringfence.api.share_groups.readers import Readers, find_readers
from ringfence.api.v1.base import V1View
from ringfence.api.v1.share_group_shapes import (
    ShareAlterShape,
    ShareArchivedShape,
    ShareConfigureShape,
    ShareDeleteOffsetsQueryShape,
    ShareDeleteQueryShape,
    ShareGroupListShape,
    ShareGroupOffsetsShape,
    ShareGroupShape,
    ShareMovedShape,
    ShareProcessShape,
    ShareSettingsShape,
)
from ringfence.requests.share_group_act import AlterShareGroupOffsets, Move


class ShareGroupView(V1View):
    """What the views of one group share."""

    def find_readers(self, name: str, verb: Verb = Verb.VIEW) -> Readers:
        """Return the readers. Raises `Forbidden` if the permission is not granted on the group."""
        readers = cached_reports.readers_now()
        readers.authorise(self.http_request, verb, name)
        return readers

    def find_readers_to_act(self, name: str, *, offsets: bool = True) -> Readers:
        """Return the readers for an action, which is written to the audit trail."""
        readers = cached_reports.readers_now()
        readers.authorise_act(self.http_request, name, offsets=offsets)
        return readers

    def move(self, name: str, act: Move, fields: Mapping[str, Any]) -> Response:
        """Report the action's effect, or carry it out."""
        reason, dry_run = fields["reason"], fields["dry_run"]
        readers = self.find_readers_to_act(name)
        self.tell_reason(f"{reason} (dry run)" if dry_run else reason)
        if dry_run:
            foreseen = acts.foresee(readers, name, act)
        else:
            foreseen = acts.carry_out(self.http_request, readers, name, act, reason)
        return Response(ShareMovedShape(_serialize_moves(name, foreseen, dry_run)).data)


class ShareGroups(V1View):
    """Every share group that the caller may see; a grant's pattern matches share groups by name, like connectors."""

    access = {"GET": somewhere(Verb.VIEW)}
    shape = ShareGroupListShape

    def get(self, request: Request) -> Response:
        self.parse_parameters()
        answer = cached_reports.ask_for_list()
        readers = find_readers(answer["worker_group"])
        who = self.principal
        rows = [
            {**each, "connectors": who.filter_names(readers.of(each["group"]))}
            for each in answer["groups"]
            if readers.may(who, Verb.VIEW, each["group"])
        ]
        return Response(ShareGroupListShape({"results": rows}).data)


class ShareGroup(ShareGroupView):
    """One share group: its members, its start in each partition, and its settings. DELETE deletes it, and the offsets
    of the connector that reads it.
    """

    access = {"GET": somewhere(Verb.VIEW), "DELETE": somewhere(Verb.SHARE_GROUPS).writing()}
    shape = ShareGroupShape
    answers = {"DELETE": ShareMovedShape}
    queries = {"DELETE": ShareDeleteQueryShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        readers = self.find_readers(name)
        group = cached_reports.ask_for_one(name)
        return Response(ShareGroupShape({**group, "connectors": self.principal.filter_names(readers.of(name))}).data)

    def delete(self, request: Request, name: str) -> Response:
        return self.move(name, {"kind": "delete"}, self.parse_query())


class ShareGroupOffsets(ShareGroupView):
    """Where a group starts. PATCH moves its start, DELETE deletes its offsets in `topic`. Both are refused while the
    group has members. For a connector's group they also change the connector's ledger, while the connector is stopped.
    """

    access = {
        "GET": somewhere(Verb.VIEW),
        "PATCH": somewhere(Verb.SHARE_GROUPS).writing(),
        "DELETE": somewhere(Verb.SHARE_GROUPS).writing(),
    }
    shape = ShareGroupOffsetsShape
    takes = {"PATCH": ShareAlterShape}
    answers = {"PATCH": ShareMovedShape, "DELETE": ShareMovedShape}
    queries = {"DELETE": ShareDeleteOffsetsQueryShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        readers = self.find_readers(name)
        group = cached_reports.ask_for_one(name)
        ledger = [
            {**place._asdict(), "topic": state.topic, "low": state.low, "done": state.done.pairs()}
            for place, state in acts.ledger_of(self.principal.filter_names(readers.of(name))).items()
        ]
        body = {"group": name, "ledger": ledger, "partitions": group["partitions"]}
        return Response(ShareGroupOffsetsShape(body).data)

    def patch(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        act: AlterShareGroupOffsets = {
            "kind": "alter",
            "to": fields["to"],
            "topics": [fields["topic"]] if "topic" in fields else None,
            "partitions": list(dict.fromkeys(fields["partitions"])) if "partitions" in fields else None,
        }
        return self.move(name, act, fields)

    def delete(self, request: Request, name: str) -> Response:
        query = self.parse_query()
        return self.move(name, {"kind": "delete_offsets", "topics": [query["topic"]]}, query)


class ShareGroupArchived(ShareGroupView):
    """Records that the group no longer delivers. POST has the tasks of the connector that reads it process those that
    are not done in its ledger, or make them dead letters as `share.exhausted` specifies, without waiting for
    `share.sweep.after.ms`.
    """

    access = {"GET": somewhere(Verb.VIEW), "POST": somewhere(Verb.SHARE_GROUPS).writing()}
    shape = ShareArchivedShape
    takes = {"POST": ShareProcessShape}
    answers = {"POST": ShareArchivedShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        backlog = archived_records.find(self._only_visible(name, self.find_readers(name)), name)
        return Response(ShareArchivedShape(_serialize_archived(name, backlog, True)).data)

    def _only_visible(self, name: str, readers: Readers) -> Readers:
        """Leave out connectors that the caller may not see."""
        visible = self.principal.filter_names(readers.of(name))
        return Readers(readers.worker_group, {**readers.by_group, name: visible})

    def post(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        reason, topic, dry_run = fields["reason"], fields["topic"], fields["dry_run"]
        readers = self.find_readers_to_act(name, offsets=False)
        self.tell_reason(f"{reason} (dry run)" if dry_run else reason)
        if dry_run:
            backlog = archived_records.find(readers, name).only(topic)
        else:
            backlog = archived_records.process_now(self.http_request, readers, name, reason, topic)
        return Response(ShareArchivedShape(_serialize_archived(name, backlog, dry_run)).data, 200 if dry_run else 202)


class ShareGroupSettings(ShareGroupView):
    """The group's settings. A connector sets those of its own group that its `share.*` settings name."""

    access = {"GET": somewhere(Verb.VIEW), "PATCH": somewhere(Verb.SHARE_GROUPS).writing()}
    shape = ShareSettingsShape
    takes = {"PATCH": ShareConfigureShape}

    def get(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        self.find_readers(name)
        return Response(
            ShareSettingsShape({"group": name, "settings": cached_reports.ask_for_one(name)["settings"]}).data
        )

    def patch(self, request: Request, name: str) -> Response:
        self.parse_parameters()
        fields = self.parse_body()
        reason, settings = fields["reason"], fields["settings"]
        readers = self.find_readers_to_act(name, offsets=False)
        self.tell_reason(reason)
        after = acts.configure(self.http_request, readers, name, settings, reason)
        return Response(ShareSettingsShape({"group": name, "settings": after}).data)


def _serialize_moves(name: str, foreseen: Foreseen, dry_run: bool) -> dict[str, Any]:
    return {
        "group": name,
        "connectors": foreseen.connectors,
        "dry_run": dry_run,
        "refusal": foreseen.refusal,
        "members": foreseen.members,
        "again": foreseen.again,
        "skipped": foreseen.skipped,
        "partitions": [_serialize_partition(one) for one in foreseen.moves],
    }


def _serialize_archived(name: str, backlog: ArchivedRecords, dry_run: bool) -> dict[str, Any]:
    return {
        "group": name,
        "connectors": backlog.connectors,
        "dry_run": dry_run,
        "refusal": backlog.refusal,
        "waiting": backlog.waiting,
        "left_out": backlog.left_out,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.place.partition,
                "archived": one.archived,
                "waiting": one.offsets.pairs(),
            }
            for one in backlog.partitions
        ],
    }


def _serialize_partition(one: MoveCounts) -> dict[str, Any]:
    move = one.move
    return {
        "topic": move.topic,
        "partition": move.partition,
        "first": move.first,
        "end": move.end,
        "before": move.start,
        "after": move.to,
        "forgets": move.forgets,
        "again": one.again,
        "skipped": one.skipped,
        "sure": one.sure,
    }
