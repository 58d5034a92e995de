"""Preflight's checks of the clusters, each kind in a module; `cluster_checks.CHECKS` lists all of them."""
