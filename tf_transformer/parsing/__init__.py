"""Constituency trees: read, cleaned, written as a model's tokens, scored as EVALB does, and drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "cleaning": ["clean"],
        "demo": ["DemoTrees"],
        "drawing": ["draw_text", "plot_tree", "write_page"],
        "linearization": ["linearise"],
        "mending": ["Mended", "mend"],
        "reading": ["TreeFiles", "read_tree"],
        "scoring": ["ParseScorer", "score_trees"],
        "tree": ["Leaf", "Tree"],
    },
)
