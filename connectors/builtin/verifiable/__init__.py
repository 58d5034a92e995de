"""VerifiableSource: numbers without a gap, to check that none is missing and none comes twice."""
