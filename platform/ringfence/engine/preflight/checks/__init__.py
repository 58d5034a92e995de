"""Preflight's checks of the clusters by subject; `cluster_checks.CHECKS` lists all of them."""
