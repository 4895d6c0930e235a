"""mexma: train cross-lingual sentence encoders and mine parallel text with them."""

__version__ = "0.1.0"
