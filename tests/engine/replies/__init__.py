"""Replies as real models write them, and what is read from each."""
