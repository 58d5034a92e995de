"""What a worker reads of topics for people: lists, pages of records with filters, where records came from, groups."""
