"""Every page that there is, and the routes that are none."""

_ONE = "/ui/connectors/{running}"
_CONSOLE = "/console/connectors/{running}"

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
    "history": f"{_ONE}/history",
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
    "catalog": "/ui/new",
    "plugins": "/ui/plugins",
    "catalog, docs": "/ui/new/docs?class=VerifiableSource",
    "form": "/ui/new?class=VerifiableSource",
    "pasted": "/ui/new?mode=json",
    "logs": f"{_ONE}/logs",
    "alerts": "/ui/alerts",
    "alerts, new rule": "/ui/alerts/rules/new",
    "alerts, new destination": "/ui/alerts/destinations/new",
    "data browser": "/ui/topics",
    "data browser, topic": "/ui/topics/{queue}",
    "consumer groups": "/ui/consumer-groups",
    "consumer groups, one topic": "/ui/consumer-groups?topic={queue}",
    "consumer group": "/ui/consumer-groups/{readers}",
    "share groups": "/ui/share-groups",
    "share group": "/ui/share-groups/{group}",
    "share group, timeline": "/ui/share-groups/{group}/timeline?topic={queue}&partition=0",
    "workers": "/ui/workers",
    "documentation": "/ui/docs",
    "documentation, one document": "/ui/docs/sql",
    "documentation, the longest document": "/ui/docs/connectors",
    "login": "/ui/login",
    "nothing there": "/ui/nothing/there",
    "console": "/console/",
    "console, connectors": "/console/connectors/",
    "console, transactions": "/console/transactions/",
    "console, transactions of one": f"{_CONSOLE}/transactions/",
    "console, workers": "/console/workers/",
    "console, stuck": "/console/stuck/",
    "console, accounts": "/console/auth/user/",
    "console, grants": "/console/access/grant/",
    "console, sessions": "/console/sessions/",
    "console, tokens": "/console/access/token/",
    "console, new account": "/console/accounts/new/",
    "console, audit": "/console/audit/auditentry/",
    "console, audit entry": "/console/audit/auditentry/1/change/",
    "console, fence": f"{_CONSOLE}/fence/",
    "console, fence one id": f"{_CONSOLE}/transactions/0/fence/",
    "console, move a share group": "/console/share-groups/{group}/alter/?to=earliest",
    "console, hand-over": "/console/leader/hand-over/",
}
"""A name and an address each; `{running}` and the like are the scene's connectors."""

FIRST = frozenset({"overview", "connector, failed", "login"})
"""Pages that `make test` looks at, too."""

CONSOLE = frozenset({"console", "console, fence"})
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
        "alerts, new destination",
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
        "console",
        "ui/events",
        "ui/connectors.csv",
        "ui/find",
        "ui/vital-signs",
        "ui/alerts/incidents/<int:number>",
        "ui/connectors/<name:name>/head",
        "ui/connectors/<name:name>/guarantee",
        "ui/connectors/<name:name>/history/series",
        "ui/connectors/<name:name>/history/moment",
        "ui/connectors/<name:name>/proof/run",
        "ui/connectors/<name:name>/proof/<int:number>/<str:form>",
        "ui/connectors/<name:name>/edit/newer",
        "ui/connectors/<name:name>/repairs/rollback",
        # The same form or sheet, made by the same template as those that are listed.
        "ui/connectors/<name:name>/repairs/setting",
        *(f"ui/connectors/<name:name>/actions/{act}" for act in ("resume", "stop", "restart", "restart-failed")),
        "ui/alerts/rules/<int:number>",
        "ui/alerts/destinations/<int:number>",
        "console/sessions/<int:number>/end/",
        "console/sessions/others/end/",
        # Of single sign-on: tests/security/test_single_sign_on_in_a_browser.py looks at them.
        "ui/login/sso",
        "ui/login/sso/callback",
        "ui/login/sso/ended",
        "console/accounts/<name:name>/disable/",
        "console/accounts/<name:name>/enable/",
        "console/accounts/<name:name>/grant/",
        "console/accounts/<name:name>/link/",
        "console/accounts/<name:name>/unlink/",
        "console/accounts/<name:name>/password/",
        "console/accounts/<name:name>/token/",
        "console/accounts/<name:name>/rights/",
        "console/connectors/<name:name>/restart/",
        "console/connectors/<name:name>/round/",
        "console/connectors/<name:name>/tasks/<int:task>/restart/",
        "console/grants/<int:number>/take/",
        "console/tokens/<int:number>/revoke/",
        "console/share-groups/<name:name>/process/",
        "console/share-groups/<name:name>/delete/",
        "console/share-groups/<name:name>/delete-offsets/",
        "console/share-groups/<name:name>/settings/",
        "console/waiting/<name:number>/",
        "console/workers/<name:name>/drain/",
        "console/workers/<name:name>/undrain/",
        # swagger-ui, as its makers have built it.
        "api/docs",
    }
)
"""Routes that answer GET and are not looked at."""
