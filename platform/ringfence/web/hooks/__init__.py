"""Webhooks: requests from anywhere, brought to the tasks that commit them."""
