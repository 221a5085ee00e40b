"""Ideas before drafts, weekdays of dates, and two servers of models."""
