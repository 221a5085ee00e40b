"""How replies of models are read: texts between marks or without, doubts about them, objects."""
