"""Proposals: presets that learn from what people say of their refinements, with proof."""
