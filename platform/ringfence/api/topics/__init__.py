"""Topics for API and pages alike: who may read which, pages of records, where records come from."""
