"""FileStreamSource: the lines of a file, including those that are appended later."""
