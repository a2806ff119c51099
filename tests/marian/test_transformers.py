"""Against the original: random MarianMT models that the transformers library makes, in and out and in again.

`make test-marian` runs this, in an environment with PyTorch.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.marian.folders import TAGS, write_folder
from tests.marian.test_importing import as_batch, in_our_ids
from tests.tiny_run import PAIRS
from tf_transformer import load_model, load_translator
from tf_transformer.decoding import shift_right
from tf_transformer.experiment import export_run_marian
from tf_transformer.marian import import_marian
from tf_transformer.tokenizers.base import START_ID

torch = pytest.importorskip("torch", reason="needs PyTorch and transformers: make test-marian")
transformers = pytest.importorskip("transformers", reason="needs PyTorch and transformers: make test-marian")

TEXTS = [
    "A man sees a house.",
    "Our dog finds the green apple. A woman loves the child.",
    ">>deu<< The child loves a house.",
    "unheard 狗 things, the house",
    "apple",
]
LIMIT = 40  # tokens of a translation
MODELS = {
    "as OPUS-MT": {"tags": TAGS},
    "deep, gelu, unscaled": {"activation_function": "gelu", "scale_embedding": False, "decoder_layers": 3},
    "relu, two vocabularies": {"separate": True, "activation_function": "relu", "encoder_layers": 1},
    "two vocabularies, untied": {"separate": True, "tie_word_embeddings": False},
}


class Original:
    """A folder that the library has written, and the library's model and tokenizer."""

    def __init__(self, path, **options):
        self.folder = path / "original"
        write_folder(
            self.folder, max_position_embeddings=90, **options
        )  # the tokenizer's files and the config; the weights are made again
        torch.manual_seed(8)
        config = transformers.MarianConfig.from_pretrained(self.folder)
        config.init_std = 0.4
        model = transformers.MarianMTModel(config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias") or "norm" in name:
                    parameter.add_(0.2 * torch.randn_like(parameter))
                elif "shared" in name or "embed_tokens" in name:
                    parameter.mul_(0.25)  # else a token's own embedding would make it the likeliest to follow
            model.model.decoder.layers[-1].final_layer_norm.weight.mul_(8)  # so that some tokens are likely
            bias = 0.5 * torch.randn_like(model.final_logits_bias)
            bias[0, model.config.eos_token_id] += 1
            model.final_logits_bias.copy_(bias)
        model.save_pretrained(self.folder)
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(self.folder)
        self.tokenizer.save_pretrained(self.folder)
        self.model = transformers.MarianMTModel.from_pretrained(self.folder).eval()
        self.path = path

    def generate(self, texts, **options):
        """Translations, and their scores, which greedy search has none of."""
        inputs = self.tokenizer(texts, return_tensors="pt", padding=True)
        padding = self.model.config.pad_token_id
        with torch.no_grad():
            found = self.model.generate(
                **inputs,
                bad_words_ids=[[padding]],
                forced_eos_token_id=None,
                return_dict_in_generate=True,
                output_scores=True,
                **options,
            )
        texts = self.tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        return texts, found.get("sequences_scores")


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS.keys())
def original(request, tmp_path_factory):
    return Original(tmp_path_factory.mktemp("marian"), **request.param)


@pytest.fixture(scope="module")
def run(original):
    return import_marian(original.folder, original.path / "run")


def test_ids_are_the_library_s(original, run):
    tokenizer = run.load_tokenizers().source
    theirs = tokenizer.marian_ids
    ours = [[theirs[i] for i in ids] for ids in tokenizer.tokenize(tf.constant(TEXTS)).to_list()]
    assert ours == [ids[:-1] for ids in original.tokenizer(TEXTS)["input_ids"]]


def test_target_ids_are_the_library_s(original, run):
    tokenizer, texts = run.load_tokenizers().target, ["Ein Mann sieht ein Haus.", "狗 Hund"]
    theirs = tokenizer.marian_ids
    ours = [[theirs[i] for i in ids] for ids in tokenizer.tokenize(tf.constant(texts)).to_list()]
    assert ours == [ids[:-1] for ids in original.tokenizer(text_target=texts)["input_ids"]]


def test_logits_are_the_library_s(original, run):
    tokenizers, model = run.load_tokenizers(), load_model(run.path)
    inputs = original.tokenizer(TEXTS, return_tensors="pt", padding=True)
    size, padding = original.model.config.decoder_vocab_size, original.model.config.pad_token_id
    random = np.random.default_rng(3)
    targets = random.choice([i for i in range(size) if i != padding], (len(TEXTS), 9))
    decoder = np.concatenate([np.full((len(TEXTS), 1), padding), targets[:, :-1]], axis=1)
    with torch.no_grad():
        expected = original.model(**inputs, decoder_input_ids=torch.tensor(decoder)).logits.numpy()
    source = as_batch([in_our_ids(tokenizers.source, ids) for ids in original.tokenizer(TEXTS)["input_ids"]])
    target = as_batch([in_our_ids(tokenizers.target, ids) for ids in targets.tolist()])
    logits = model((source, shift_right(target, START_ID))).numpy()
    columns = [own for own in range(tokenizers.target.vocab_size) if own != START_ID]
    theirs = np.array(tokenizers.target.marian_ids)[columns]
    assert np.abs(expected).max() > 3  # not so small that all would be near
    np.testing.assert_allclose(logits[..., columns], expected[..., theirs], rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def translator(run):
    return load_translator(run.path)


def test_greedy_translations_are_the_library_s(original, translator):
    expected, _ = original.generate(TEXTS, num_beams=1, max_new_tokens=LIMIT)
    found = translator.translate(TEXTS, beam_size=1, max_length=LIMIT)["translation"].numpy()
    assert [text.decode() for text in found] == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize(("beams", "penalty"), [(4, 1.0), (4, 0.0), (3, 0.5)], ids=str)
def test_translations_with_a_beam_are_the_library_s(original, translator, beams, penalty):
    """But for one of five at most, with the same scores.

    Its beam is filled up again with what has not closed, where ours gets narrower; its search is told not to stop
    before it could find none better, as ours does.
    """
    options = {"num_beams": beams, "length_penalty": penalty, "early_stopping": "never"}
    expected, scores = original.generate(TEXTS, max_new_tokens=LIMIT, **options)
    found = translator.translate(TEXTS, beam_size=beams, alpha=penalty, max_length=LIMIT)
    translations = [text.decode() for text in found["translation"].numpy()]
    same = [row for row in range(len(TEXTS)) if translations[row] == expected[row]]
    assert len(same) >= len(TEXTS) - 1, (translations, expected)
    np.testing.assert_allclose(found["score"].numpy()[same], scores.numpy()[same], rtol=0, atol=1e-4)


def test_the_library_loads_what_is_written(original, run, tmp_path):
    """The same weights, bit by bit, and the same translations by its own tokenizer and search."""
    folder = export_run_marian(run, tmp_path / "out")
    loaded = transformers.MarianMTModel.from_pretrained(folder).eval()
    before, after = original.model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    inputs = tokenizer(TEXTS, return_tensors="pt", padding=True)
    assert torch.equal(inputs["input_ids"], original.tokenizer(TEXTS, return_tensors="pt", padding=True)["input_ids"])
    with torch.no_grad():  # with its own generation_config.json
        found = loaded.generate(**inputs, num_beams=1, forced_eos_token_id=None, max_new_tokens=LIMIT)
    expected, _ = original.generate(TEXTS, num_beams=1, max_new_tokens=LIMIT)
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == expected


def test_the_library_translates_with_a_run_of_ones_own(tiny_run_directory, tmp_path):
    """Trained by this package with its own tokenizer and the demo's settings; it knows its sentences by heart."""
    folder = export_run_marian(tiny_run_directory, tmp_path / "out")
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    sources, targets = zip(*PAIRS, strict=True)
    with torch.no_grad():  # with its own generation_config.json
        found = model.generate(**tokenizer(list(sources), return_tensors="pt", padding=True))
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == list(targets)
    ours = tiny_run_directory.load_tokenizers().source
    text = "unheard 狗 things"
    theirs = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert theirs == [*ours.pieces(ours.tokenize([text]).to_list()[0]), "</s>"]


def test_pytorch_s_own_pickles_are_the_same_model(original, run, tmp_path):
    """Both formats of `torch.save`, with what a model's state has in it beside: each gives the same weights."""
    for legacy in (False, True):
        folder = tmp_path / f"pickled {legacy}"
        folder.mkdir()
        for file in original.folder.iterdir():
            if file.name != "model.safetensors":
                (folder / file.name).write_bytes(file.read_bytes())
        state = original.model.state_dict()
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        pickled = import_marian(folder, tmp_path / f"run {legacy}".replace(" ", "-"))
        for one, other in zip(load_model(pickled.path).get_weights(), load_model(run.path).get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
