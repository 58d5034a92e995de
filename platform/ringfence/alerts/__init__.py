"""Alerts: rules about the database's state, one incident per cause, and messages by webhook, Slack or mail."""
