"""Django's settings, all from `RINGFENCE_*` variables. Kafka's settings are `CONNECT_*` worker keys.

RINGFENCE_DATABASE_URL   sqlite:///path (default ./ringfence.sqlite3) or postgres://user:password@host:port/name
RINGFENCE_REDIS_URL      redis://host:port/db, sentinel://host:port;sentinel://host:port/db or cluster://host:port
RINGFENCE_ENCRYPTION_KEY_FILE, RINGFENCE_ENCRYPTION_KEYS   see ringfence/encryption.py; web and workers need one of them
RINGFENCE_HTTP           host:port that the web process is bound to
RINGFENCE_TOKEN          a token that may do everything, to begin with; at least 24 characters
RINGFENCE_BEHIND_PROXY   1 behind a proxy: its X-Forwarded-For and X-Forwarded-Proto are trusted
RINGFENCE_SECURE_COOKIES 1 if browsers use TLS only: cookies are then never sent in clear text
RINGFENCE_ALLOWED_HOSTS  comma-separated host names to answer to; only needed for a name of its own
RINGFENCE_SESSION_IDLE_MINUTES  unused sessions end after this time; 720 by default, 0: no limit
RINGFENCE_SESSION_HOURS  all sessions end this long after their login; 336 by default
RINGFENCE_OIDC_ISSUER, RINGFENCE_OIDC_…  single sign-on; see docs/access.md
RINGFENCE_PASSWORD_LOGIN 0 if accounts log in by single sign-on only
RINGFENCE_QUERIES_PER_ACCOUNT, RINGFENCE_QUERIES_TOTAL, RINGFENCE_COMMANDS_PER_ACCOUNT, RINGFENCE_COMMANDS_TOTAL,
RINGFENCE_REQUESTS_PER_SECOND, RINGFENCE_REQUESTS_BURST, RINGFENCE_CONNECTIONS, RINGFENCE_CONNECTIONS_PER_ADDRESS,
RINGFENCE_STREAMS_PER_SESSION, RINGFENCE_STREAMS_PER_ACCOUNT, RINGFENCE_STREAMS_TOTAL   limits for each web process;
see ringfence/environment.py
RINGFENCE_SECRET_KEY     signs sessions; random by default, so that sessions end with the process
RINGFENCE_PUBLIC_URL     the address of these pages, for links in alerts: https://ringfence.example.org
RINGFENCE_SMTP_URL       smtp://user:password@host:port, or smtps://; the server for alerts by mail
RINGFENCE_MAIL_FROM      their sender
RINGFENCE_ALERTS_PRIVATE, RINGFENCE_ALERTS_LOOPBACK  1 allows webhooks to private networks, or to this machine
RINGFENCE_DEMO_RUN_FOLDER  set only by `ringfence demo`: the pid files of the workers that its button may kill
RINGFENCE_LOG_LEVEL      the least level of log lines; INFO by default
RINGFENCE_LOG_FORMAT     text, or json: each log line is a JSON object (ringfence/log_format.py)
RINGFENCE_ACCESS_LOG     0: no log line for each request
RINGFENCE_DEBUG          1 shows Django's own error pages; for developers only
"""

import os
import secrets
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ringfence import log_format
from ringfence.access.oidc.settings import oidc_settings, password_login
from ringfence.environment import (
    database,
    host_of,
    idle_minutes,
    is_loopback,
    request_limits,
    server_token,
    session_hours,
)

PACKAGE = Path(__file__).resolve().parent  # contains templates/ and static/: in a checkout as links to the top folders

DEBUG = os.environ.get("RINGFENCE_DEBUG") == "1"
SECRET_KEY = os.environ.get("RINGFENCE_SECRET_KEY") or secrets.token_urlsafe(48)

HTTP_ADDRESS = os.environ.get("RINGFENCE_HTTP", "127.0.0.1:8083")
ACCESS_TOKEN = server_token(os.environ.get("RINGFENCE_TOKEN", ""))

# Who needs no login, and the file of the one-time login link. No variable sets these: only `ringfence up` does, on the
# command line of its web process (commands/web.py).
NO_LOGIN = ""
# Whose descendants need a login nevertheless, and the file that tells `up` that all do (access/no_login.py).
PLATFORM_PID: int | None = None
NO_LOGIN_ENDED: Path | None = None
LOGIN_LINK: Path | None = None
# The file of `up` that says what it is still starting (heartbeats/starting.py).
STARTING: Path | None = None

# A user without a login has a browser, and a foreign page that points its own name at 127.0.0.1 (DNS rebinding) must
# not get access through it.
_NAMES = [name.strip() for name in os.environ.get("RINGFENCE_ALLOWED_HOSTS", "").split(",") if name.strip()]
ALLOWED_HOSTS = [*_NAMES, "localhost", "127.0.0.1", "[::1]", host_of(HTTP_ADDRESS)]
if not is_loopback(HTTP_ADDRESS):
    ALLOWED_HOSTS = _NAMES or ["*"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "lucide",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "ringfence.heartbeats",
    "ringfence.projection",
    "ringfence.access",
    "ringfence.audit",
    "ringfence.history",
    "ringfence.api",
    "ringfence.web",
    "ringfence.console",
    "ringfence.alerts",
]

MIDDLEWARE = [
    "ringfence.web.middleware.ServerTimingMiddleware",
    "ringfence.api.v1.base.ProblemMiddleware",
    "ringfence.api.paths.PathMiddleware",
    "ringfence.web.middleware.SecurityHeadersMiddleware",
    "ringfence.web.compression.CompressionMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "ringfence.middleware.AccessMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "ringfence.api.loggers.LogLevelMiddleware",
    "ringfence.web.middleware.DatabaseAwayMiddleware",
]

ROOT_URLCONF = "ringfence.urls"
ASGI_APPLICATION = "ringfence.asgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PACKAGE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["ringfence.web.templatetags.ringfence"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "ringfence.web.page_context.page",
            ],
        },
    }
]

DATABASES = {"default": database(os.environ.get("RINGFENCE_DATABASE_URL", "sqlite:///ringfence.sqlite3"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STATIC_URL = "/static/"
STATICFILES_DIRS = [PACKAGE / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_ALLOW_ALL_ORIGINS = False  # no other site has a use for them
WHITENOISE_MAX_AGE = 0 if DEBUG else 3600

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
USE_THOUSAND_SEPARATOR = False

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "/ui/login"
LOGIN_REDIRECT_URL = "/ui/"
SESSION_ENGINE = "ringfence.access.sessions"
SESSION_COOKIE_NAME = "ringfence_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
REQUEST_LIMITS = request_limits(os.environ)
DEMO_RUN_FOLDER = Path(os.environ["RINGFENCE_DEMO_RUN_FOLDER"]) if os.environ.get("RINGFENCE_DEMO_RUN_FOLDER") else None
SESSION_IDLE_MINUTES = idle_minutes(os.environ.get("RINGFENCE_SESSION_IDLE_MINUTES", ""))
SESSION_HOURS = session_hours(os.environ.get("RINGFENCE_SESSION_HOURS", ""))
SESSION_COOKIE_AGE = SESSION_HOURS * 3600
OIDC = oidc_settings(os.environ)
PASSWORD_LOGIN = password_login(os.environ.get("RINGFENCE_PASSWORD_LOGIN", "").strip(), OIDC)
CSRF_COOKIE_NAME = "ringfence_csrf"
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_FAILURE_VIEW = "ringfence.http.error_pages.csrf_failure"
BEHIND_PROXY = bool(os.environ.get("RINGFENCE_BEHIND_PROXY"))
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_PROXY else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = os.environ.get("RINGFENCE_SECURE_COOKIES") == "1"
SECURE_HSTS_SECONDS = 31_536_000 if SESSION_COOKIE_SECURE else 0
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

PUBLIC_URL = os.environ.get("RINGFENCE_PUBLIC_URL", "").rstrip("/")
ALERTS_PRIVATE = os.environ.get("RINGFENCE_ALERTS_PRIVATE") == "1"
ALERTS_LOOPBACK = os.environ.get("RINGFENCE_ALERTS_LOOPBACK") == "1"
_SMTP = urlsplit(os.environ.get("RINGFENCE_SMTP_URL", ""))
EMAIL_HOST, EMAIL_PORT = _SMTP.hostname or "", _SMTP.port or (465 if _SMTP.scheme == "smtps" else 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = unquote(_SMTP.username or ""), unquote(_SMTP.password or "")
EMAIL_USE_SSL = _SMTP.scheme == "smtps"
EMAIL_USE_TLS = _SMTP.scheme == "smtp" and bool(_SMTP.username)  # a password is never sent in clear text
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("RINGFENCE_MAIL_FROM", "ringfence@localhost")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "ringfence.http.errors.handle",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Ringfence",
    "DESCRIPTION": "Everything that Kafka Connect's REST API does not cover. That API is at the root of this port.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENABLE_DJANGO_DEPLOY_CHECK": False,
    "APPEND_COMPONENTS": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"}}
    },
    "SECURITY": [{"token": []}, {"basic": []}],
}

ACCESS_LOG = os.environ.get("RINGFENCE_ACCESS_LOG", "1").strip() != "0"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "ringfence.log_format.formatter"}},
    # Django logs each 5xx answer; our answers contain the reason, so that only a trace adds information.
    "filters": {"traces": {"()": "django.utils.log.CallbackFilter", "callback": lambda record: bool(record.exc_info)}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line"},
        "traces": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["traces"]},
    },
    "root": {"handlers": ["console"], "level": log_format.least_level()},
    "loggers": {"django.request": {"handlers": ["traces"], "level": "ERROR", "propagate": False}},
}
