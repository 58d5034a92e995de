"""Routes below `/ui/`: pages about people and the cluster, and the actions that ask for a reason."""

from ringfence.console import access_lists, account_actions, actions, share_group_acts, views

urlpatterns = [
    *views.urls,
    *actions.urls,
    *account_actions.urls,
    *share_group_acts.urls,
    *access_lists.urls,
]
