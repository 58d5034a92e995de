"""Checks configuration files that people bring, without a cluster: what `ringfence check` prints."""
