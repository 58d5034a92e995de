"""Routes below `/ui/`: pages about people and the cluster, and the actions that ask for a reason."""

from ringfence.console import access_lists, account_actions, actions, views

urlpatterns = [
    *views.urls,
    *actions.urls,
    *account_actions.urls,
    *access_lists.urls,
]
