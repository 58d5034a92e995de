"""WebhookSource: records from HTTP requests, answered once they are committed."""
