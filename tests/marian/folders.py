"""MarianMT folders with random weights, made without the transformers library and without PyTorch."""

import io
import json

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

from tests.tiny_run import PAIRS

SOURCE_TEXTS, TARGET_TEXTS = zip(*PAIRS, strict=True)
TAGS = (">>deu<<", ">>nld<<")
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
}


def spm(texts, vocab_size=70):
    """A SentencePiece model as OPUS-MT's are: unigrams, its own special pieces in front."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model):
    """A SentencePiece model's pieces, but for its special ones."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.vocab_size()) if not special(processor, i)]


def special(processor, i):
    return processor.is_control(i) or processor.is_unknown(i)


def vocabulary_of(*models, tags=()):
    """`</s>` and `<unk>` first and `<pad>` last, as Marian's converter has them."""
    pieces = dict.fromkeys(piece for model in models for piece in pieces_of(model))
    return {piece: i for i, piece in enumerate(["</s>", "<unk>", *tags, *pieces, "<pad>"])}


def config_of(vocabulary, target_vocabulary=None, **changes):
    """`config.json` as the files of OPUS-MT have it, with the keys that nobody reads any more."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "_num_labels": 3,
        "activation_function": "swish",
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "bad_words_ids": [[vocabulary["<pad>"]]],
        "bos_token_id": 0,
        "dropout": 0.1,
        "decoder_start_token_id": vocabulary["<pad>"],
        "eos_token_id": vocabulary["</s>"],
        "forced_eos_token_id": vocabulary["</s>"],
        "is_encoder_decoder": True,
        "length_penalty": 0.0,
        "max_length": 40,
        "normalize_before": False,
        "normalize_embedding": False,
        "num_beams": 4,
        "pad_token_id": vocabulary["<pad>"],
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": target_vocabulary is None,
        "static_position_embeddings": True,
        "vocab_size": len(vocabulary),
        "decoder_vocab_size": len(target_vocabulary or vocabulary),
        **SIZES,
        **changes,
    }


def random_weights(config, seed=0):
    """Every tensor that such a model has, so large that no mistake in one would be hidden."""
    random = np.random.default_rng(seed)
    width, inner = config["d_model"], config["encoder_ffn_dim"]
    weights = {}

    def add(name, *shape, scale=1.0, around=0.0):
        weights[name] = (around + scale * random.standard_normal(shape)).astype("float32")

    def linear(name, inputs, outputs):
        add(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)
        add(f"{name}.bias", outputs, scale=0.2)

    def norm(name):
        add(f"{name}.weight", width, scale=0.2, around=1)
        add(f"{name}.bias", width, scale=0.2)

    for side in "encoder", "decoder":
        for i in range(config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{i}"
            for attention in ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",):
                for part in "qkv":
                    linear(f"{layer}.{attention}.{part}_proj", width, width)
                linear(f"{layer}.{attention}.out_proj", width, width)
                norm(f"{layer}.{attention}_layer_norm")
            linear(f"{layer}.fc1", width, inner)
            linear(f"{layer}.fc2", inner, width)
            norm(f"{layer}.final_layer_norm")
    sizes = config["vocab_size"], config["decoder_vocab_size"]
    scale = 1.0 if not config["scale_embedding"] else width**-0.5
    if config["share_encoder_decoder_embeddings"]:
        add("model.shared.weight", sizes[0], width, scale=scale)
    else:
        add("model.encoder.embed_tokens.weight", sizes[0], width, scale=scale)
        add("model.decoder.embed_tokens.weight", sizes[1], width, scale=scale)
        if not config.get("tie_word_embeddings", True):
            add("lm_head.weight", sizes[1], width, scale=width**-0.5)
    add("final_logits_bias", 1, sizes[1], scale=0.5)
    return weights


def write_folder(path, separate=False, tags=(), weights=None, generation=None, **changes):
    """Writes a folder, and gives its config and weights."""
    path.mkdir(parents=True, exist_ok=True)
    models = spm(SOURCE_TEXTS), spm(TARGET_TEXTS)
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (path / name).write_bytes(model)
    settings = {"source_lang": "eng", "target_lang": "deu", "separate_vocabs": separate}
    if separate:
        vocabularies = vocabulary_of(models[0]), vocabulary_of(models[1])
        # One config has one id for padding and one to close with: the shorter vocabulary is filled up.
        shorter = min(vocabularies, key=len)
        del shorter["<pad>"]
        while len(shorter) < max(map(len, vocabularies)) - 1:
            shorter[f"<filler {len(shorter)}>"] = len(shorter)
        shorter["<pad>"] = len(shorter)
        _write_json(path / "target_vocab.json", vocabularies[1])
    else:
        vocabularies = (vocabulary_of(*models, tags=tags),)
    _write_json(path / "vocab.json", vocabularies[0])
    _write_json(path / "tokenizer_config.json", settings)
    config = config_of(*vocabularies, **changes)
    _write_json(path / "config.json", config)
    if generation:
        _write_json(path / "generation_config.json", generation)
    weights = random_weights(config) if weights is None else weights
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    return config, weights


def change_json(path, **changes):
    _write_json(path, json.loads(path.read_text(encoding="utf-8")) | changes)


def _write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2), encoding="utf-8")


def marian_ids(path, text, model="source.spm", vocabulary="vocab.json"):
    """A text's ids in `vocab.json`, by the SentencePiece library and a dictionary, with the closing one."""
    ids = json.loads((path / vocabulary).read_text(encoding="utf-8"))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path / model))
    tag, rest = [], text
    if text.startswith(">>") and "<<" in text:
        end = text.index("<<") + 2
        tag, rest = [text[:end]], text[end:]
    return [ids.get(piece, ids["<unk>"]) for piece in [*tag, *processor.encode(rest, out_type=str)]] + [ids["</s>"]]
