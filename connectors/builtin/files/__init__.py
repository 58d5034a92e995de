"""FilesSource: the rows of many files in a folder or an object store, each file once."""
