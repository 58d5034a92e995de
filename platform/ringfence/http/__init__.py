"""What the API and the pages share: errors, masked secrets."""
