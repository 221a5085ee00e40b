"""What Hone has beside its core: commands that a service does without."""
