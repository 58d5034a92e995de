"""One attempt of a source task: its start, poll loop, transactions and reports."""
