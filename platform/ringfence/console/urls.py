"""The routes below `/console/`: what concerns all connectors, and the acts that ask for a reason."""

from ringfence.console import (
    account_actions,
    cluster_actions,
    connector_actions,
    lists,
    rights,
    sessions,
    share_group_acts,
    views,
)

urlpatterns = [
    *views.urls, *connector_actions.urls, *cluster_actions.urls, *account_actions.urls, *rights.urls, *sessions.urls,
    *share_group_acts.urls, *lists.urls,
]  # fmt: skip
