"""Single sign-on with OpenID Connect: its settings, the provider's answers, and the account for them."""
