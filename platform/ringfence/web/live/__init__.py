"""Event streams of open pages, and the fragments that pages share."""
