"""Reads topics for the pages: lists, records with filters, the origins of records, and consumer groups."""
