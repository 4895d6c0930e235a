"""Settings: one model for each stage, whose fields are options of its command, keys of recipes, and keywords
of the Python API. Names, types, bounds, defaults and help stand here; what they mean is done above.

A file has one stage's model, so that a command loads no other. `corpus`, `training` and `decompose` are the
recipes, which `load` reads from YAML; objectives are registered in `registry`. Nothing here imports torch or
an engine.
"""
