"""What must come out of a translation as it went in: links, placeholders, tags, terms of a glossary."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"glossary": ["Glossary"]})
