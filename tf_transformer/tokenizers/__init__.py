"""Text to ids and back, as TensorFlow ops."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "base": ["END_ID", "PAD_ID", "START_ID", "UNKNOWN_ID", "Tokenizer"],
        "brackets": ["BracketTokenizer"],
        "mapping": ["TokenMapping", "map_tokens"],
        "marian": ["MarianTokenizer"],
        "pair": ["TokenizerPair"],
        "sentencepiece": ["SentencePieceTokenizer"],
        "training": ["train_parsing_tokenizers", "train_tokenizers"],
        "wordpiece": ["WordPieceTokenizer"],
    },
)
