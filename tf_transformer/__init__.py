"""The Transformer of "Attention Is All You Need" for TensorFlow and Keras.

Nothing heavy is loaded before it is used.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        *("data", "decoding", "distributed", "evaluation", "export", "inspection", "layers", "models", "protection"),
        *("runs", "tensorboard", "tokenizers", "training", "translation"),
    ],
    submod_attrs={
        "data.batching": ["make_batches"],
        "data.demo": ["DemoSource"],
        "data.sources": ["TextFiles", "TfdsSource", "TsvFile"],
        "decoding.options": ["DecodingOptions"],
        "distributed.strategy": ["make_strategy"],
        "errors": ["UserError"],
        "evaluation.scores": ["score_translations"],
        "export.ctranslate2": ["export_ctranslate2"],
        "export.saved_model": ["export_saved_model"],
        "inspection.pictures": ["plot_attention"],
        "layers.attention": ["MultiHeadAttention", "scaled_dot_product_attention"],
        "layers.decoder": ["Decoder", "DecoderLayer"],
        "layers.embedding": ["TokenEmbedding"],
        "layers.encoder": ["Encoder", "EncoderLayer"],
        "layers.feed_forward": ["FeedForward"],
        "layers.masks": ["look_ahead_mask", "padding_mask"],
        "layers.next_word": ["NextWord"],
        "layers.positions": ["PositionEncoding", "positional_encoding"],
        "layers.residual": ["Residual"],
        "layers.tree_state": ["TreeState"],
        "models.ensemble": ["Ensemble"],
        "models.presets": ["PRESETS"],
        "models.recurrent": ["RecurrentModel"],
        "models.sequence_model": ["SequenceModel"],
        "models.transformer": ["Transformer"],
        "protection": ["Glossary"],
        "recipe": ["Recipe", "load_recipe"],
        "runs.loading": ["load_model"],
        "tokenizers": ["TokenizerPair", "train_tokenizers"],
        "training.loss": ["SmoothedCrossEntropy"],
        "training.metrics": ["Perplexity", "TokenAccuracy"],
        "training.optimizer": ["TransformerAdam"],
        "training.schedule": ["CosineSchedule", "InverseSqrtSchedule", "TransformerSchedule"],
        "translation.loading": ["load_translator"],
        "translation.translator": ["Translator"],
    },
)
