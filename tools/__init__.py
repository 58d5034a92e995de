"""Generates files of the repository: golden results for the tests, pictures for the documents."""
