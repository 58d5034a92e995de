"""The form of a destination shows what the chosen kind needs, also where scripts are switched off."""

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.up import Up

FIELDS = {
    "webhook": {"Address", "Secret or key"},
    "slack": {"Address"},
    "teams": {"Address"},
    "pagerduty": {"Address", "Secret or key"},
    "opsgenie": {"Address", "Secret or key"},
    "mail": {"Recipients"},
}


@pytest.mark.parametrize("scripts", [True, False])
def test_only_the_fields_of_the_chosen_kind_are_shown(chromium: Browser, platform: Up, scripts: bool) -> None:
    context = chromium.new_context(base_url=platform.rest.url, java_script_enabled=scripts)
    try:
        page = context.new_page()
        page.goto("/ui/incidents/destinations/new")
        for kind, fields in FIELDS.items():
            page.get_by_label("Kind").select_option(kind)
            for name in ("Address", "Secret or key", "Recipients"):
                field = page.get_by_label(name, exact=True)
                if name in fields:
                    expect(field).to_be_visible()
                else:
                    expect(field).to_be_hidden()
    finally:
        context.close()
