"""The login page, for where others can reach the server: Django's accounts, or the token."""

import secrets
from typing import TYPE_CHECKING

from django import forms
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpResponse
from django.views.generic import FormView


class TokenForm(forms.Form):
    """One field: the token that RINGFENCE_TOKEN holds."""

    token = forms.CharField(widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}))

    def clean_token(self) -> str:
        given = str(self.cleaned_data["token"])
        expected = settings.ACCESS_TOKEN
        if not expected or not secrets.compare_digest(given.encode(), expected.encode()):
            raise forms.ValidationError("This is not the token of this server.")
        return given


if TYPE_CHECKING:
    _TokenView = FormView[TokenForm]
else:
    _TokenView = FormView


class Login(RedirectURLMixin, _TokenView):
    """Who knows the token gets a session, so that pages need not carry it."""

    template_name = "ringfence/login.html"
    form_class = TokenForm
    next_page = "/ui/connectors"
    extra_context = {"section": "login"}

    def form_valid(self, form: TokenForm) -> HttpResponse:
        user, _ = User.objects.get_or_create(username="token")
        login(self.request, user, backend="django.contrib.auth.backends.ModelBackend")
        return super().form_valid(form)
