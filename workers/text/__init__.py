"""Measures of texts and safe edits, shared by the editor and the validators."""
