"""All slots are in use: a connector says so, and starts by itself once there is room."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.facts import state
from tests.e2e.flow import Flow
from tests.e2e.up import Up

Make = Callable[..., Flow]


SLOTS = 3


@pytest.fixture(scope="module")
def shared_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A platform with few slots: by default a worker has as many as its memory carries."""
    with Up(tmp_path_factory.mktemp("slots"), workers=1, settings={"CONNECT_TASK_SLOTS": str(SLOTS)}) as up:
        yield up


@pytest.mark.slow
def test_no_free_slot(visitors: Visitors, platform: Up, flow: Make) -> None:
    full = flow(tasks=SLOTS, throughput=0)
    full.worker_of()
    late = Flow(platform, f"{full.name}-late", throughput=50)
    platform.rest.create(late.name, late.config())
    try:
        ann, bob = visitors(), visitors()
        page, listed = ann.go(f"/ui/connectors/{late.name}"), bob.go(f"/ui/connectors?q={late.name}")
        expect(page.locator("#no-slot")).to_contain_text(f"Waits for a slot: {SLOTS} of {SLOTS} in use")
        expect(page.locator("#no-slot")).to_contain_text("Stop a connector")
        expect(listed.locator(f'[data-row="{late.name}"]')).to_contain_text("Waits for a slot")
        platform.rest.settled(204, "PUT", f"/connectors/{full.name}/stop")
        state(page, "Healthy")
        expect(page.locator("#no-slot")).to_have_count(0)
    finally:
        late.close()
