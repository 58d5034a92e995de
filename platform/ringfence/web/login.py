"""The login page, for servers that others can reach: an account's name and password, or a token."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib.auth import authenticate, login
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import rotate_token
from django.views.generic import FormView

from ringfence.access import throttle, tokens
from ringfence.access.authorise import PUBLIC
from ringfence.access.client_address import address_of
from ringfence.access.identify import (
    MASTER_KEY,
    TOKEN_KEY,
    Nobody,
    by_secret,
    is_master,
    master_mark,
)
from ringfence.access.login_link import redeem
from ringfence.audit.models import Outcome
from ringfence.audit.trail import record

_OLD_LINK = (
    "This link was used already, or is older than an hour. Start `ringfence up` again for a new one, or enter the "
    "token that is in the file `token` of its data folder."
)
_WRONG = "These credentials are not valid. Check the name and the password, or leave the name empty and enter a token."
_NO_PASSWORDS = "Accounts log in by single sign-on here. Below, only a token without a name is accepted."


class LoginForm(forms.Form):
    """A name with its password; without a name, the secret is a token."""

    name = forms.CharField(
        required=False, max_length=150, widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True})
    )
    secret = forms.CharField(
        max_length=4096, strip=True, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class TooMany(Exception):
    """Too many failures. wait: seconds until the next try is accepted."""

    def __init__(self, wait: int) -> None:
        super().__init__(wait)
        self.wait = wait


if TYPE_CHECKING:
    _LoginView = FormView[LoginForm]
else:
    _LoginView = FormView


class Login(RedirectURLMixin, _LoginView):
    """Begin a session for valid credentials. It has the rights of the account or token, and ends with it."""

    access = {"GET": PUBLIC, "POST": PUBLIC}
    http_method_names = ["get", "head", "post", "options"]
    template_name = "ringfence/login.html"
    form_class = LoginForm
    next_page = "/ui/connectors"
    extra_context = {"section": "login"}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, **ways_in(self.get_redirect_url()))

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        code = request.GET.get("link", "")
        if not code:
            return super().get(request, *args, **kwargs)
        if not redeem(settings.LOGIN_LINK, code):
            form = LoginForm(data={})
            form.errors.clear()
            form.add_error(None, _OLD_LINK)
            return self.render_to_response(self.get_context_data(form=form), status=401)
        _begin_master_session(request)
        _remember(request, "token", Outcome.DONE)
        return HttpResponseRedirect(self.get_success_url())

    def form_valid(self, form: LoginForm) -> HttpResponse:
        name, secret = form.cleaned_data["name"], form.cleaned_data["secret"]
        try:
            if name and not settings.PASSWORD_LOGIN:
                form.add_error(None, _NO_PASSWORDS)
                return self.form_invalid(form)
            user = _with_password(self.request, name, secret) if name else _with_token(self.request, secret)
        except TooMany as many:
            form.add_error(None, f"Too many failed attempts: wait {many.wait} s, then try again.")
            response = self.render_to_response(self.get_context_data(form=form), status=429)
            response["Retry-After"] = str(many.wait)
            return response
        _remember(self.request, user or name, Outcome.DONE if user else Outcome.REFUSED)
        if user is None:
            form.add_error(None, _WRONG)
            return self.form_invalid(form)
        return super().form_valid(form)


def ways_in(next_page: str) -> dict[str, object]:
    """Return the login methods. next_page: where a login leads, already checked, or ""."""
    oidc = settings.OIDC
    return {
        "sign_on": oidc.label if oidc else "",
        "sign_on_at": f"/ui/login/sso?{urlencode({'next': next_page})}" if next_page else "/ui/login/sso",
        "passwords": settings.PASSWORD_LOGIN,
    }


def _with_password(request: HttpRequest, name: str, password: str) -> str | None:
    """Log an account in, and return its name. The password of a locked account is not checked. Raises `TooMany`."""
    limits = throttle.keys(address_of(request), name)
    if wait := throttle.wait_seconds(limits):
        raise TooMany(wait)
    user = authenticate(request, username=name, password=password)
    if user is None:
        throttle.record_failure(limits)
        return None
    throttle.record_success(limits)
    request.session.flush()  # otherwise the data of a token's session would pass to the account's
    login(request, user)
    return user.get_username()


def _with_token(request: HttpRequest, secret: str) -> str | None:
    """Begin a session with the rights of the token, and return its name. Raises `TooMany`."""
    who = by_secret(request, secret)
    if isinstance(who, Nobody):
        if who.wait:
            raise TooMany(who.wait)
        return None
    request.session.flush()
    row = tokens.find(secret)
    if row is not None:
        request.session[TOKEN_KEY] = row.pk
    elif is_master(secret):
        request.session[MASTER_KEY] = master_mark()
    rotate_token(request)
    return who.name


def _begin_master_session(request: HttpRequest) -> None:
    request.session.flush()
    request.session[MASTER_KEY] = master_mark()
    rotate_token(request)


def _remember(request: HttpRequest, name: str, outcome: Outcome) -> None:
    record("login", user=name, via="login", address=address_of(request), outcome=outcome)
