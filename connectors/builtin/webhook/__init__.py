"""WebhookSource: records out of HTTP requests, answered once they are committed."""
