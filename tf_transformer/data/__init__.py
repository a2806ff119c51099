"""Sources of sentence pairs, filters and noise, and batches."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "aligned": ["AlignedPairs"],
        "batching": ["make_batches", "padding_share", "with_known_length"],
        "counting": ["PairCounts", "count_pairs"],
        "demo": ["DemoSource"],
        "failures": ["original_errors"],
        "links": ["as_pharaoh", "word_links"],
        "noise": ["Noise"],
        "placeholders": ["PlaceholderPairs"],
        "sources": ["TextFiles", "TfdsSource", "TsvFile"],
        "text_filters": ["PairFilter", "PairLimits"],
    },
)
