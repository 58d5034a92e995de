"""Preflight's questions to the clusters by what they are about; `cluster_checks.CHECKS` lists them all."""
