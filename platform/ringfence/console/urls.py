"""The console's pages and lists, added to its site."""

from django.contrib.auth.models import User

from ringfence.access.models import Grant, Token
from ringfence.audit.models import AuditEntry
from ringfence.console import account_actions, cluster_actions, connector_actions, sessions, share_group_acts, views
from ringfence.console.lists import Accounts, Audit, Grants, Tokens
from ringfence.console.site import site

__all__ = ["site"]

site.register(User, Accounts)
site.register(Grant, Grants)
site.register(Token, Tokens)
site.register(AuditEntry, Audit)
site.own_urls = [*views.urls, *connector_actions.urls, *cluster_actions.urls, *account_actions.urls, *sessions.urls]
site.own_urls += share_group_acts.urls
