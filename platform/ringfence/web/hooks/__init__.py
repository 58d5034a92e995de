"""Webhooks: HTTP requests from anywhere, passed to the tasks that commit them."""
