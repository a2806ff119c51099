"""The site's own Sphinx extensions."""
