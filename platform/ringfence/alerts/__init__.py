"""Alerts: rules over what the database shows, one incident per cause, messages by webhook, Slack or mail."""
