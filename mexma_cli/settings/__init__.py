"""Settings: one model for each stage, whose fields are options of its command, keys of recipes, and keywords
of the Python API. Names, types, bounds, defaults and help stand here; what they mean is done above.

`stages` has the models of all stages but training. `corpus` and `training` are the recipes, which `load`
reads from YAML; objectives are registered in `registry`. Nothing here imports torch or an engine.
"""
