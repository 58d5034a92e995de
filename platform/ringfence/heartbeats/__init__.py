"""Heartbeats: written to the database by workers and projection every two seconds, and their assessment."""
