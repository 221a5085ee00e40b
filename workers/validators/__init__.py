"""Validators: checks of a draft that need no model, behind one port."""
