"""Proof of life: what workers and the projection leave in the database every two seconds, and what follows from it."""
