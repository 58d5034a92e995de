"""VerifiableSource: consecutive numbers, to check that none is missing and none is repeated."""
