"""`hone compare`: which of several settings is worth its money."""
