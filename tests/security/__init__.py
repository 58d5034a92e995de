"""Attacks that once worked, by people with few rights. Each must fail for good."""
