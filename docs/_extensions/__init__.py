"""What the site is built with beside Sphinx's own extensions."""
