"""What every request passes: who asks, and whether they may."""
