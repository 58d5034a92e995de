"""Topics for API and pages: who may read which, pages of records, and where records come from."""
