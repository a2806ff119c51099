"""An imported model computes and says what MarianMT's equations, written again in NumPy, make it compute and say."""

import json

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from tests.decoding import by_hand
from tests.eager import eagerly
from tests.marian.folders import TAGS, change_json, marian_ids, write_folder
from tf_transformer import DecodingOptions, load_model
from tf_transformer.decoding import Stepper, beam_search, shift_right
from tf_transformer.errors import UserError
from tf_transformer.experiment import export_run_marian
from tf_transformer.marian import import_marian
from tf_transformer.marian.config import model_arguments, search_settings, with_defaults
from tf_transformer.model_card.files import language_tags
from tf_transformer.recipe import load_recipe
from tf_transformer.tokenizers.base import END_ID, START_ID
from tf_transformer.translation import Translator

TEXTS = ["A man sees a house.", "Our dog finds the green apple.", "unheard things"]


@pytest.fixture(scope="module", params=["joint", "separate"])
def imported(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def model(imported):
    return load_model(imported.run.path)


def in_our_ids(tokenizer, marian):
    """Ids of `vocab.json` as ours."""
    ours = {theirs: own for own, theirs in enumerate(tokenizer.marian_ids) if own != START_ID}
    return [ours[i] for i in marian]


def as_batch(rows):
    return tf.keras.utils.pad_sequences(rows, padding="post").astype("int32")


def test_logits_are_those_of_the_equations(imported, model):
    tokenizers = imported.run.load_tokenizers()
    random = np.random.default_rng(1)
    sources = [marian_ids(imported.folder, text) for text in TEXTS]
    padding = imported.config["pad_token_id"]
    choices = [i for i in range(imported.config["decoder_vocab_size"]) if i != padding]
    targets = [random.choice(choices, n).tolist() for n in (7, 4, 9)]
    source = as_batch([in_our_ids(tokenizers.source, ids) for ids in sources])
    target = as_batch([in_our_ids(tokenizers.target, ids) for ids in targets])
    logits = model((source, shift_right(target, START_ID))).numpy()
    columns = [own for own in range(tokenizers.target.vocab_size) if own != START_ID]
    theirs = np.array(tokenizers.target.marian_ids)[columns]
    for row, (of_source, of_target) in enumerate(zip(sources, targets, strict=True)):
        expected = imported.by_equations.logits(of_source, [padding, *of_target[:-1]])
        np.testing.assert_allclose(logits[row, : len(of_target)][:, columns], expected[:, theirs], rtol=0, atol=1e-4)
        # What no MarianMT model can say has no probability at all.
        assert logits[row, : len(of_target), START_ID].max() < expected.min() - 200


def test_steps_are_the_whole(imported, model):
    tokenizers = imported.run.load_tokenizers()
    source = as_batch([in_our_ids(tokenizers.source, marian_ids(imported.folder, text)) for text in TEXTS])
    target = np.random.default_rng(2).integers(4, tokenizers.target.vocab_size, (3, 6)).astype("int32")
    stepper, given = model.stepper(), shift_right(target, START_ID).numpy()
    cache, steps = stepper.start_cache(source), []
    for position in range(6):
        step, cache = stepper.step(given[:, position], position, cache, np.ones((1, 1, position + 1), bool))
        steps.append(step)
    np.testing.assert_allclose(tf.stack(steps, axis=1), model((source, given)), rtol=0, atol=1e-4)


def next_in_our_ids(imported, tokenizer, source):
    """The equations' log-probabilities as the plain searches take them."""
    by_theirs, theirs = imported.by_equations.next_log_probabilities(source), tokenizer.marian_ids

    def of(tokens):
        log_probabilities = by_theirs([theirs[token] for token in tokens])[theirs]
        log_probabilities[START_ID] = -np.inf
        return log_probabilities.tolist()

    return of


@pytest.mark.parametrize("beam_size", [1, 3])
def test_searches_find_what_plain_python_finds_by_the_equations(imported, model, beam_size):
    tokenizers, limit = imported.run.load_tokenizers(), 6
    translator = Translator(
        model, tokenizers, DecodingOptions(beam_size=beam_size, alpha=0.0, max_length=limit, extra_length=limit)
    )
    with eagerly():
        found = translator.translate(TEXTS)
    for row, text in enumerate(TEXTS):
        following = next_in_our_ids(imported, tokenizers.target, marian_ids(imported.folder, text))
        (score, tokens), *_ = by_hand.beam(following, limit, beam_size, 0.0, 1).hypotheses
        assert found["score"][row].numpy() == pytest.approx(score, abs=1e-4)
        text_of = tokenizers.target.detokenize(tf.constant([tokens]))[0]
        assert found["translation"][row].numpy() == text_of.numpy()


def test_neither_padding_nor_the_start_is_ever_said(imported, model):
    """The model's bias makes both the likeliest; a MarianMT model would be kept from its padding too."""
    tokenizers = imported.run.load_tokenizers()
    other = type(model).from_config(model.get_config())
    other.build(((None, None), (None, None)))
    other.set_weights(model.get_weights())
    bias = other.bias.numpy()
    bias[0] += 100
    other.bias.assign(bias)
    source = as_batch([in_our_ids(tokenizers.source, marian_ids(imported.folder, text)) for text in TEXTS])
    stepper = Stepper(other)
    ids, _ = beam_search(stepper, stepper.start_cache(source, 4), np.array([8, 8, 8]), START_ID, END_ID, alpha=0.0)
    said = ids.numpy()
    lengths = (said != 0).sum(axis=-1)
    assert START_ID not in said and (said[..., 0] != 0).all() and lengths.min() >= 1


def test_the_recipe_says_what_the_files_say(imported):
    recipe = load_recipe(imported.run.recipe)
    assert recipe.name == "run"
    assert (recipe.data.kind, recipe.data.source_language, recipe.data.target_language) == ("none", "en", "de")
    assert (recipe.model.num_layers, recipe.model.decoder_layers, recipe.model.max_length) == (2, 1, 40)
    assert (recipe.evaluation.beam_size, recipe.evaluation.alpha) == (4, 0.0)
    joint = imported.config["share_encoder_decoder_embeddings"]
    assert recipe.model.share_embeddings == ("all" if joint else "none")
    assert recipe.model.activation == imported.config["activation_function"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"source_language": "nl", "target_language": "fr"}, ("nl", "fr")),
        ({"target_language": "fr"}, ("en", "fr")),
    ],
    ids=["both", "target"],
)
def test_languages_that_are_given_come_first(joint, tmp_path, given, expected):
    data = load_recipe(import_marian(joint.folder, tmp_path / "run", **given).recipe).data
    assert (data.source_language, data.target_language) == expected


def test_the_card_says_where_the_model_is_from(joint):
    card = joint.run.card.read_text(encoding="utf-8")
    assert "`opus-mt-en-de`" in card and "CC-BY 4.0" in card
    assert "translates from en to de" in card
    assert "learning_rate" not in card and "trained with" not in card


def test_the_card_names_the_language_tags(joint, separate):
    assert "| language_tags | >>deu<<, >>nld<< |" in joint.run.card.read_text(encoding="utf-8")
    assert language_tags(joint.run.path) == language_tags(joint.run.best) == list(TAGS)
    assert language_tags(separate.run.path) == []
    assert "language_tags" not in separate.run.card.read_text(encoding="utf-8")


def test_generation_config_comes_before_config(tmp_path):
    write_folder(tmp_path / "model", generation={"num_beams": 6, "length_penalty": 1.0, "no_repeat_ngram_size": 3})
    evaluation = load_recipe(import_marian(tmp_path / "model", tmp_path / "run").recipe).evaluation
    assert (evaluation.beam_size, evaluation.alpha, evaluation.no_repeat_ngram_size) == (6, 1.0, 3)


@pytest.mark.parametrize("said", [{}, {"num_beams": None, "length_penalty": None}], ids=["left out", "null"])
def test_without_a_word_of_the_search_it_is_the_transformers_library_s_own(joint, said):
    silent = {key: value for key, value in joint.config.items() if key not in ("num_beams", "length_penalty")}
    found = search_settings(with_defaults(silent | said, "config.json"), {}, "config.json")
    assert (found["beam_size"], found["alpha"]) == (1, 1.0)


def test_each_dropout_is_the_one_that_the_files_name(joint):
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    arguments = model_arguments(with_defaults(joint.config | rates, "config.json"))
    assert {name: arguments[f"{name}_rate"] for name in rates} == rates


def test_keys_that_ask_for_nothing_are_not_refused(joint):
    nothing = {"suppress_tokens": [], "begin_suppress_tokens": None, "guidance_scale": 1, "stop_strings": []}
    nothing |= {"forced_decoder_ids": [], "min_new_tokens": 0, "early_stopping": True}
    config = with_defaults(joint.config, "config.json")
    assert search_settings(config, nothing, "generation_config.json") == search_settings(config, {}, "config.json")


def test_renormalized_probabilities_leave_padding_out(joint, tmp_path):
    """Padding would have most of the probability; a search without its share finds other translations."""
    folder, limit = tmp_path / "model", 6
    weights = joint.weights | {"final_logits_bias": joint.weights["final_logits_bias"].copy()}
    weights["final_logits_bias"][0, joint.config["pad_token_id"]] += 3
    write_folder(folder, tags=TAGS, weights=weights, generation={"renormalize_logits": True})
    run = import_marian(folder, tmp_path / "run")
    tokenizers = run.load_tokenizers()
    options = DecodingOptions(beam_size=3, alpha=0.0, max_length=limit, extra_length=limit)
    with eagerly():
        found = Translator(load_model(run.path), tokenizers, options).translate(TEXTS)
    for row, text in enumerate(TEXTS):
        following = next_in_our_ids(joint, tokenizers.target, marian_ids(folder, text))

        def renormalized(tokens, following=following):
            values = np.array(following(tokens))
            return (values - np.log(np.exp(values).sum())).tolist()

        (score, tokens), *_ = by_hand.beam(renormalized, limit, 3, 0.0, 1).hypotheses
        assert found["score"][row].numpy() == pytest.approx(score, abs=1e-4)
        assert found["translation"][row].numpy() == tokenizers.target.detokenize(tf.constant([tokens]))[0].numpy()
    # What is written says the same to a library that does not renormalise; all else is as it was.
    after = load_file(export_run_marian(run, tmp_path / "out") / "model.safetensors")
    changed = [name for name, tensor in weights.items() if not np.array_equal(tensor, after[name])]
    assert changed == ["final_logits_bias"]
    places = np.flatnonzero(after["final_logits_bias"][0] != weights["final_logits_bias"][0])
    assert places.tolist() == [joint.config["pad_token_id"]] and after["final_logits_bias"][0, places[0]] < -500


def test_older_files_hold_copies_and_positions(joint, tmp_path):
    """They change nothing; one that is no copy is refused by name."""
    folder = tmp_path / "model"
    config, weights = write_folder(folder, tags=(">>deu<<", ">>nld<<"))
    shared = weights["model.shared.weight"]
    from tests.marian.reference import sinusoids

    table = sinusoids(config["max_position_embeddings"], config["d_model"]).astype("float16")
    copies = {
        **{f"model.{side}.embed_tokens.weight": shared for side in ("encoder", "decoder")},
        **{f"model.{side}.embed_positions.weight": table for side in ("encoder", "decoder")},
        "lm_head.weight": shared,
    }
    save_file(weights | copies, folder / "model.safetensors")
    run = import_marian(folder, tmp_path / "run")
    for one, other in zip(load_model(run.path).get_weights(), load_model(joint.run.path).get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    for name, told in (
        ("lm_head.weight", "lm_head.weight differs from"),
        ("model.encoder.embed_positions.weight", "sinusoids"),
    ):
        save_file(weights | copies | {name: copies[name] + 1}, folder / "model.safetensors")
        with pytest.raises(UserError, match=told):
            import_marian(folder, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_is_read(joint, tmp_path, dtype):
    folder = tmp_path / "model"
    _, weights = write_folder(folder)
    save_file({name: tensor.astype(dtype) for name, tensor in weights.items()}, folder / "model.safetensors")
    model = load_model(import_marian(folder, tmp_path / "run").path)
    kernel = model.encoder.layers[0].feed_forward.hidden.kernel.numpy()
    expected = weights["model.encoder.layers.0.fc1.weight"].T.astype(dtype).astype("float32")
    np.testing.assert_array_equal(kernel, expected)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "bart"}, "model_type is 'bart'; only 'marian' is supported"),
        ({"normalize_before": True}, "normalize_before is true"),
        ({"normalize_embedding": True}, "normalize_embedding is true"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm is true"),
        ({"static_position_embeddings": False}, "static_position_embeddings is false"),
        ({"encoder_layerdrop": 0.1}, "encoder_layerdrop is 0.1"),
        ({"activation_function": "gelu_new"}, "activation_function is 'gelu_new'; supported are relu"),
        ({"decoder_attention_heads": 4}, "decoder_attention_heads is 4; it must be encoder_attention_heads, 2"),
        ({"decoder_ffn_dim": 48}, "decoder_ffn_dim is 48"),
        ({"decoder_start_token_id": 0}, "decoder_start_token_id is 0; it must be pad_token_id"),
        ({"forced_eos_token_id": 5}, "forced_eos_token_id is 5; it must be eos_token_id, 0"),
        ({"bad_words_ids": [[5]]}, "bad_words_ids is"),
        ({"repetition_penalty": 1.2}, "repetition_penalty is 1.2"),
        ({"forced_bos_token_id": 7}, "forced_bos_token_id is 7"),
        ({"guidance_scale": 1.5}, "guidance_scale is 1.5; only 1.0 is supported"),
        ({"forced_decoder_ids": [[1, 7]]}, "forced_decoder_ids is [[1, 7]]; only null is supported"),
        ({"stop_strings": ["."]}, "stop_strings is ['.']"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is false"),
        ({"quantization_config": {"bits": 8}}, "quantization_config is"),
        ({"vocab_size": 9}, "decoder_vocab_size is"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0; it must be from 0 to 10"),
        ({"renormalize_logits": "yes"}, "renormalize_logits is 'yes'; it must be true or false"),
        ({"d_model": 8}, "has shape"),
        ({"encoder_layers": 3}, "no model.encoder.layers.2"),
        ({"encoder_layers": 1}, "is not a weight of a MarianMT model"),
    ],
    ids=lambda value: next(iter(value)) + str(next(iter(value.values()))) if isinstance(value, dict) else "",
)
def test_what_is_not_supported_is_refused_by_name(joint, tmp_path, changes, told):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in joint.folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    change_json(folder / "config.json", **changes)
    with pytest.raises(UserError, match="^[^\n]*" + told.replace("[", r"\[") + "[^\n]*$"):
        import_marian(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("missing", ["config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"])
def test_a_missing_file_is_named(joint, tmp_path, missing):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in joint.folder.iterdir():
        if file.name != missing:
            (folder / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=missing.replace(".", r"\.")):
        import_marian(folder, tmp_path / "run")
    (folder / missing).write_bytes(b"{ damaged")
    with pytest.raises(UserError, match="^[^\n]*" + missing.replace(".", r"\.") + "[^\n]*$"):
        import_marian(folder, tmp_path / "run")


def test_all_missing_files_are_told_in_a_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(UserError) as raised:
        import_marian(tmp_path, tmp_path / "run")
    names = "vocab.json, source.spm, target.spm, model.safetensors or pytorch_model.bin"
    assert str(raised.value) == f"{tmp_path}: missing {names}; copy the whole folder of the model"
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    with pytest.raises(
        UserError, match=r"^[^\n]*index\.json: the weights are split into several files, [^\n]*max_shard_size[^\n]*$"
    ):
        import_marian(tmp_path, tmp_path / "run")
    (tmp_path / "model.bin").touch()
    with pytest.raises(UserError, match=f"^{tmp_path}: a CTranslate2 model, "):
        import_marian(tmp_path, tmp_path / "run")


def test_nothing_is_overwritten(joint, tmp_path):
    (tmp_path / "mine").write_text("mine")
    for path in tmp_path, tmp_path / "mine":
        with pytest.raises(UserError, match="was not changed"):
            import_marian(joint.folder, path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert import_marian(joint.folder, tmp_path / "empty").best.is_file()


def test_a_folder_without_a_name_of_its_own_is_refused(joint, tmp_path, monkeypatch):
    """Were it replaced, whoever stands in it would stand in a folder that is gone."""
    monkeypatch.chdir(tmp_path)
    for path in ".", "", "none/..":
        with pytest.raises(UserError, match="has no name of its own; give the name of a new folder$"):
            import_marian(joint.folder, path)
    assert not list(tmp_path.iterdir())


def test_the_vocabulary_must_be_the_models(joint, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in joint.folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    swapped = vocabulary | {"<pad>": vocabulary["</s>"], "</s>": vocabulary["<pad>"]}
    (folder / "vocab.json").write_text(json.dumps(swapped), encoding="utf-8")
    with pytest.raises(UserError, match="</s> is"):
        import_marian(folder, tmp_path / "run")
    del vocabulary["<pad>"]
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    with pytest.raises(UserError, match="pieces, but config.json needs"):
        import_marian(folder, tmp_path / "run")


def test_the_checkpoint_holds_each_weight_once(joint):
    """Nothing got lost between the two."""
    model, weights = load_model(joint.run.path), load_file(joint.folder / "model.safetensors")
    numbers = sum(tensor.size for tensor in weights.values())
    one_row_more = joint.config["d_model"] + 1  # START's, and its bias
    assert model.count_params() == numbers + one_row_more
