"""Routes below `/ui/`: pages about people and the cluster, and the actions that ask for a reason."""

from ringfence.console import (
    access_lists,
    account_actions,
    cluster_actions,
    connector_actions,
    provider_links,
    sessions,
    share_group_acts,
    views,
)

urlpatterns = [
    *views.urls, *connector_actions.urls, *cluster_actions.urls, *account_actions.urls, *provider_links.urls,
    *sessions.urls,
    *share_group_acts.urls, *access_lists.urls,
]  # fmt: skip
