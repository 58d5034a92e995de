"""`ringfence demo`: runs the main job on real input, with a kill in the middle and a count at the end."""
