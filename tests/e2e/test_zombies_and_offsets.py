"""Stop, reset, delete and create again, each beside a frozen task of the last generation: it adds nothing any more."""

from collections.abc import Callable

import pytest

from tests.e2e import processes
from tests.e2e.checker import source_offsets
from tests.e2e.flow import OFFSETS, Flow
from tests.e2e.up import Up

Make = Callable[..., Flow]


@pytest.mark.slow
def test_reset_offsets_beside_a_zombie(platform: Up, flow: Make) -> None:
    one = flow(throughput=1000)
    rest, path = platform.rest, f"/connectors/{one.name}"
    victim = one.worker_of()
    with processes.frozen([one.process(victim)]):
        rest.settled(204, "PUT", f"{path}/stop")
        one.check()  # what was visible stays, and is all that there is
        rest.settled(200, "DELETE", f"{path}/offsets")
        assert source_offsets(platform.connection, OFFSETS, one.name) == {}
        assert rest.expect(200, "GET", f"{path}/offsets") == {"offsets": []}
        one.begin_anew()
        rest.settled(202, "PUT", f"{path}/resume")
        one.await_progress(200)
    one.await_end_of_attempts(victim)
    one.settle()  # from 0 once more, and nothing of the zombie's


@pytest.mark.thorough
def test_offsets_set_by_hand_beside_a_zombie(platform: Up, flow: Make) -> None:
    one = flow(throughput=1000)
    rest, path = platform.rest, f"/connectors/{one.name}"
    victim = one.worker_of()
    with processes.frozen([one.process(victim)]):
        rest.settled(204, "PUT", f"{path}/stop")
        one.check()
        offsets = [{"partition": {"id": 0}, "offset": {"seqno": 4999}}]
        rest.settled(200, "PATCH", f"{path}/offsets", {"offsets": offsets})
        assert rest.expect(200, "GET", f"{path}/offsets") == {"offsets": offsets}
        one.begin_anew(first=5000)
        rest.settled(202, "PUT", f"{path}/resume")
        one.await_progress(200)
    one.await_end_of_attempts(victim)
    one.settle()


@pytest.mark.thorough
def test_delete_and_create_again_beside_a_zombie(platform: Up, flow: Make) -> None:
    one = flow(throughput=1000)
    victim = one.worker_of()
    with processes.frozen([one.process(victim)]):
        one.delete()
        one.begin_counts()
        one.create()  # offsets outlive a connector, so its numbers go on
    one.await_end_of_attempts(victim)
    one.settle()
