"""Every page that there is, and the routes that are none."""

_ONE = "/ui/connectors/{running}"

PAGES = {
    "overview": "/ui",
    "list": "/ui/connectors",
    "list, nothing matches": "/ui/connectors?q=no-connector-is-called-this",
    "connector": _ONE,
    "connector, failed": "/ui/connectors/{failed}",
    "connector, stopped": "/ui/connectors/{stopped}",
    "connector, none": "/ui/connectors/there-is-none",
    "tasks": "/ui/connectors/{failed}/tasks",
    "transactions": f"{_ONE}/transactions",
    "offsets": f"{_ONE}/offsets",
    "offsets, stopped": "/ui/connectors/{stopped}/offsets",
    "offsets, edited": "/ui/connectors/{stopped}/offsets/edit",
    "offsets, reset": "/ui/connectors/{stopped}/offsets/reset",
    "offsets, restored": "/ui/connectors/{stopped}/offsets/snapshots/{snapshot}",
    "snapshots, none": f"{_ONE}/snapshots",
    "snapshots, started": f"{_ONE}/snapshots/start",
    "snapshots, stopped": f"{_ONE}/snapshots/stop",
    "generations": f"{_ONE}/generations",
    "proof": f"{_ONE}/proof",
    "config": f"{_ONE}/config?from=1",
    "rollback": f"{_ONE}/versions/1/rollback",
    "edit": f"{_ONE}/edit",
    "edit, form": f"{_ONE}/edit?mode=form",
    "act": f"{_ONE}/actions/pause",
    "topics": f"{_ONE}/topics",
    "dead letters": f"{_ONE}/dead-letters",
    "delete": f"{_ONE}/delete",
    "repair, dead letter": "/ui/connectors/{failed}/repairs/dead-letter",
    "timeline": f"{_ONE}/timeline",
    "history": f"{_ONE}/history",
    "catalog": "/ui/new",
    "plugins": "/ui/plugins",
    "catalog, docs": "/ui/new/docs?class=VerifiableSource",
    "form": "/ui/new?class=VerifiableSource",
    "form, PostgreSQL": "/ui/new?class=PostgresSource",
    "form, SQL": "/ui/new?class=SqlSource",
    "pasted": "/ui/new?mode=json",
    "logs": f"{_ONE}/logs",
    "incidents": "/ui/incidents",
    "alert rules": "/ui/incidents/rules",
    "alert rules, new": "/ui/incidents/rules/new",
    "destinations": "/ui/incidents/destinations",
    "destinations, new": "/ui/incidents/destinations/new",
    "silences": "/ui/incidents/silences",
    "data browser": "/ui/topics",
    "data browser, topic": "/ui/topics/{queue}",
    "consumer groups": "/ui/consumer-groups",
    "consumer groups, one topic": "/ui/consumer-groups?topic={queue}",
    "consumer group": "/ui/consumer-groups/{readers}",
    "share groups": "/ui/share-groups",
    "share group": "/ui/share-groups/{group}",
    "share group, timeline": "/ui/share-groups/{group}/timeline?topic={queue}&partition=0",
    "workers": "/ui/workers",
    "kafka": "/ui/kafka",
    "documentation": "/ui/docs",
    "documentation, one document": "/ui/docs/sql",
    "documentation, the longest document": "/ui/docs/connectors",
    "login": "/ui/login",
    "nothing there": "/ui/nothing/there",
    "console, transactions": "/ui/transactions",
    "console, transactions of one": f"{_ONE}/coordinators",
    "console, stuck": "/ui/stuck",
    "console, accounts": "/ui/settings/people",
    "console, grants": "/ui/settings/roles",
    "console, sessions": "/ui/settings/sessions",
    "console, tokens": "/ui/settings/tokens",
    "console, new account": "/ui/settings/people/new",
    "console, audit": "/ui/settings/audit",
    "console, audit entry": "/ui/settings/audit/1",
    "console, fence": f"{_ONE}/fence",
    "console, fence one id": f"{_ONE}/transactions/0/fence",
    "console, move a share group": "/ui/share-groups/{group}/alter?to=earliest",
    "console, hand-over": "/ui/leader/hand-over",
}
"""A name and an address each; `{running}` and the like are the scene's connectors."""

FIRST = frozenset({"overview", "connector, failed", "login"})
"""Pages that `make test` looks at, too."""

CONSOLE = frozenset({"console, transactions", "console, fence"})
"""Pages of the console whose templates make all of its others."""

SELDOM = frozenset(
    {
        "list, nothing matches",
        "connector, stopped",
        "offsets, stopped",
        "offsets, reset",
        "offsets, restored",
        "snapshots, none",
        "snapshots, started",
        "snapshots, stopped",
        "rollback",
        "edit, form",
        "act",
        "catalog, docs",
        "pasted",
        "destinations, new",
        "silences",
        "repair, dead letter",
        "consumer groups, one topic",
        "share group, timeline",
        "documentation, one document",
        "documentation, the longest document",
    }
)
"""Pages by the templates of others, which only `make test-all` looks at, and a text that takes as long as ten pages."""

STATUS = {"connector, none": 404, "snapshots, none": 404, "nothing there": 404}
"""Of those that are not a 200."""

NO_PAGES = frozenset(
    {
        # Redirects, the stream of changes, a file, parts of pages.
        "ui/events",
        "ui/connectors.csv",
        "ui/find",
        "ui/logs",
        # Asked in a dialog over the list.
        "ui/bulk/restart",
        "ui/bulk/stop",
        "ui/bulk/delete",
        "ui/vital-signs",
        # Made and looked at by test_incident_room.
        "ui/incidents/<int:number>",
        "ui/connectors/<name:name>/head",
        "ui/connectors/<name:name>/guarantee",
        "ui/connectors/<name:name>/history/moment",
        "ui/connectors/<name:name>/proof/run",
        "ui/connectors/<name:name>/proof/<int:number>/<str:form>",
        "ui/connectors/<name:name>/edit/newer",
        "ui/connectors/<name:name>/repairs/rollback",
        # The same form or sheet, made by the same template as those that are listed.
        "ui/connectors/<name:name>/repairs/setting",
        *(f"ui/connectors/<name:name>/actions/{act}" for act in ("resume", "stop", "restart", "restart-failed")),
        "ui/incidents/rules/<int:number>",
        "ui/incidents/rules/<int:number>/delete",
        "ui/incidents/destinations/<int:number>",
        "ui/incidents/destinations/<int:number>/delete",
        "ui/settings/sessions/<int:number>/end",
        "ui/settings/sessions/others/end",
        # Of single sign-on: tests/security/test_single_sign_on_in_a_browser.py looks at them.
        "ui/login/sso",
        "ui/login/sso/callback",
        "ui/login/sso/ended",
        "ui/settings/people/<name:name>/disable",
        "ui/settings/people/<name:name>/enable",
        "ui/settings/people/<name:name>/grant",
        "ui/settings/people/<name:name>/link",
        "ui/settings/people/<name:name>/unlink",
        "ui/settings/people/<name:name>/password",
        "ui/settings/people/<name:name>/token",
        "ui/settings/people/<name:name>/rights",
        "ui/connectors/<name:name>/round",
        "ui/settings/roles/<int:number>/take",
        "ui/settings/tokens/<int:number>/revoke",
        "ui/share-groups/<name:name>/process",
        "ui/share-groups/<name:name>/delete",
        "ui/share-groups/<name:name>/delete-offsets",
        "ui/share-groups/<name:name>/settings",
        "ui/waiting/<name:number>",
        # The frame around swagger-ui, as its makers have built it.
        "api/docs",
        "ui/workers/<name:name>/drain",
        "ui/workers/<name:name>/undrain",
    }
)
"""Routes that answer GET and are not looked at."""
