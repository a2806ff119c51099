"""How Sphinx builds the site from these pages: `make docs`."""

import os
import sys
from pathlib import Path

# Nothing is computed here but small graphs for the signatures' tables.
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

sys.path.insert(0, str(Path(__file__).parent))

from tf_transformer import __version__  # noqa: E402
from tf_transformer.terminal.process import quiet_tensorflow  # noqa: E402

with quiet_tensorflow():
    import tensorflow  # noqa: F401

project = "tf_transformer"
version = release = __version__

extensions = [
    "myst_nb",  # MyST's Markdown, and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "_extensions.site_pages",
    "_extensions.python_reference",
]
exclude_patterns = ["_extensions", "**/*.ipynb"]  # a notebook's page is made of its text, which stands beside it
smartquotes_action = "D"  # dashes alone: a quoted word is often what to type
add_function_parentheses = False

# -- Markdown ----
myst_heading_anchors = 4  # links to headings are as on GitHub

# -- notebooks ----
# A notebook runs when its code has changed. To run it again because the package has: rm -r build/notebooks
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parents[1] / "build" / "notebooks")
nb_execution_in_temp = True  # what it writes stays out of the repository
nb_execution_timeout = 1200  # seconds for a cell
nb_execution_raise_on_error = True
nb_merge_streams = True

# -- docstrings ----
default_role = "py:obj"  # `name` in a docstring is a link where the reference has that name, and code everywhere
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False  # Keras's own methods are in Keras's reference
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True

# -- HTML ----
html_theme = "pydata_sphinx_theme"
html_title = "tf_transformer"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_sidebars = {"project/readme": []}  # it has no pages below it
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "logo": {"text": f"tf_transformer {version}"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "show_version_warning_banner": False,
    "footer_start": [],
    "footer_end": ["sphinx-version", "theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system has it
