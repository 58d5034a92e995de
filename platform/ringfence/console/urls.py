"""The routes below `/console/`: pages about all connectors, and the actions that ask for a reason."""

from ringfence.console import (
    account_actions,
    cluster_actions,
    connector_actions,
    lists,
    provider_links,
    rights,
    sessions,
    share_group_acts,
    views,
)

urlpatterns = [
    *views.urls, *connector_actions.urls, *cluster_actions.urls, *account_actions.urls, *provider_links.urls,
    *rights.urls, *sessions.urls,
    *share_group_acts.urls, *lists.urls,
]  # fmt: skip
