"""The parts that the API and the pages share: errors, and masking of secrets."""
