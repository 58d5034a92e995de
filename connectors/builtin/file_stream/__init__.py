"""FileStreamSource: the lines of a file, and those that are appended to it."""
