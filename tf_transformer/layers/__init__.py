"""The Transformer's layers, on `keras.ops`; on the TensorFlow backend some call TensorFlow too, mostly for speed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "attention": ["MultiHeadAttention", "scaled_dot_product_attention"],
        "decoder": ["Decoder", "DecoderLayer"],
        "embedding": ["TokenEmbedding"],
        "encoder": ["Encoder", "EncoderLayer"],
        "feed_forward": ["FeedForward"],
        "masks": ["look_ahead_mask", "padding_mask"],
        "next_word": ["NextWord"],
        "positions": ["PositionEncoding", "positional_encoding"],
        "residual": ["Residual"],
        "tree_state": ["TreeState"],
    },
)
