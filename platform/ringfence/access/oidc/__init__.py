"""Single sign-on with OpenID Connect: what is configured, what a provider says, and which account that is."""
