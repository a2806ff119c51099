"""What a person can do wrong: one line says what to do, and nothing is harmed."""

import pytest

from tests.cli.command import assert_mistake, contents, train_on

pytestmark = pytest.mark.usefixtures("loaded_once")


def score(model, source, reference):
    return ["evaluate", model, "--source", source, "--reference", reference]


LONG_NAME = "x" * 300

# What was typed ({} is the folder of mistakes), and what the one line must tell.
MISTAKES = {
    "translate: a file that is not there": (
        ["translate", "{}/versions/3", "{}/none.en"],
        ["{}/none.en", "No such file"],
    ),
    "translate: a folder for a file": (
        ["translate", "{}/versions/3", "{}"],
        ["{}: neither a run nor a SavedModel; give the folder of one"],
    ),
    "translate: an ensemble of an export": (
        ["translate", "{}/run", "{}/versions/3", "{}/pairs.en"],
        ["{}/versions/3: a SavedModel, but an ensemble is made from runs", "export RUN RUN DEST"],
    ),
    "translate: an ensemble with CTranslate2": (
        ["translate", "{}/run", "{}/run", "--engine", "ctranslate2"],
        ["CTranslate2 has no ensembles"],
    ),
    "translate: an ensemble of two tokenizers": (
        ["translate", "{}/run", "{}/other tokenizer", "{}/pairs.en"],
        ["{}/other tokenizer: its tokenizer differs from that of {}/run", "the same tokenizer settings"],
    ),
    "evaluate: an ensemble of parsers": (
        ["evaluate", "{}/run", "{}/run", "--trees", "{}/pairs.en"],
        ["--trees scores one parser, but 2 models are given"],
    ),
    "export: an ensemble for CTranslate2": (
        ["export", "{}/run", "{}/run", "{}/new", "--format", "ctranslate2"],
        ["CTranslate2 has no ensembles"],
    ),
    "export: onto a run": (["export", "{}/run", "{}/run"], ["{}/run: a run, but DEST is expected"]),
    "translate: an unreadable file": (["translate", "{}/versions/3", LONG_NAME], [LONG_NAME, "File name too long"]),
    "translate: not UTF-8": (["translate", "{}/versions/3", "{}/latin.de"], ["{}/latin.de, line 3", "UTF-8"]),
    "translate: too long": (["translate", "{}/versions/3", "{}/long.en"], ["{}/long.en, line 2", "--cut"]),
    "translate: no model": (["translate", "{}/none", "{}/pairs.en"], ["{}/none", "no such folder"]),
    "translate: a folder that is no model": (
        ["translate", "{}", "{}/pairs.en"],
        ["{}: neither a run nor a SavedModel"],
    ),
    "translate: no checkpoint": (["translate", "{}/unfinished"], ["{}/unfinished/checkpoints", "no checkpoint"]),
    "translate: more than the beam holds": (
        ["translate", "{}/run", "--nbest", "5", "--beam-size", "2"],
        ["--nbest is 5", "at most --beam-size, 2"],
    ),
    "translate: an impossible probability": (
        ["translate", "{}/versions/3", "--top-p", "2"],
        ["--top-p is 2.0", "at most 1"],
    ),
    "translate: lengths that exclude each other": (
        ["translate", "{}/run", "--min-length", "5", "--max-length", "3"],
        ["--max-length is 3", "at least --min-length, 5"],
    ),
    "translate: more than the positions": (
        ["translate", "{}/run", "--max-length", "1000"],
        ["--max-length is 1000", "40 positions"],
    ),
    "translate: an unknown engine": (
        ["translate", "{}/run", "--engine", "marian"],
        ["--engine is marian", "tensorflow, ctranslate2"],
    ),
    "translate: without its engine": (
        ["translate", "{}/ctranslate2"],
        ["{}/ctranslate2: a CTranslate2 model", "--engine ctranslate2"],
    ),
    "translate: an unreadable model": (["translate", LONG_NAME], [LONG_NAME, "File name too long"]),
    "translate: a sentence for a file": (
        ["translate", "{}/run", "A man rides a bike."],
        ["A man rides a bike.: ", "echo 'A man rides a bike.' | tf-transformer translate MODEL"],
    ),
    "parse: a sentence for a file": (
        ["parse", "{}/run", "A man rides a bike."],
        ["A man rides a bike.: ", "to parse a sentence: echo 'A man rides a bike.' | tf-transformer parse MODEL"],
    ),
    "parse: ranking where one is found": (
        ["parse", "{}/run", "--beam-size", "1", "--alpha", "2"],
        ["--alpha has no effect", "beam size of 1", "or give a larger --beam-size"],
    ),
    "translate: the other way round": (
        ["translate", "{}/pairs.en", "{}/run"],
        ["{}/pairs.en: a file, but a model is expected"],
    ),
    "translate: half a gzip file": (
        ["translate", "{}/versions/3", "{}/cut.gz"],
        ["{}/cut.gz: incomplete or damaged gzip file (", "after line 0"],
    ),
    "translate: a beam where tokens are drawn": (
        ["translate", "{}/run", "--temperature", "1", "--beam-size", "9"],
        ["--beam-size is 9, but sampling uses no beam"],
    ),
    "translate: ranking where one is drawn": (
        ["translate", "{}/run", "--temperature", "1", "--alpha", "2"],
        ["--alpha has no effect", "--nbest"],
    ),
    "translate: ranking where one is found": (
        ["translate", "{}/run", "--beam-size", "1", "--alpha", "2"],
        ["--alpha has no effect", "beam size of 1", "--nbest"],
    ),
    "translate: ranking where a model finds one": (
        ["translate", "{}/greedy", "--alpha", "2"],
        ["--alpha has no effect", "beam size of 1", "--nbest"],
    ),
    "evaluate: ranking where one is found": (
        [*score("{}/versions/3", "{}/pairs.en", "{}/pairs.de"), "--beam-size", "1", "--alpha", "1.4"],
        ["--alpha has no effect", "leave it out, or give a larger --beam-size"],
    ),
    "evaluate: ranking where a model finds one": (
        [*score("{}/greedy", "{}/pairs.en", "{}/pairs.de"), "--alpha", "1.4"],
        ["--alpha has no effect", "leave it out, or give a larger --beam-size"],
    ),
    "evaluate: ranking where a parser finds one tree": (
        ["evaluate", "{}/greedy", "--trees", "{}/pairs.en", "--alpha", "1.4"],
        ["--alpha has no effect", "leave it out, or give a larger --beam-size"],
    ),
    "translate: draws where nothing is drawn": (
        ["translate", "{}/run", "--top-k", "3"],
        ["--top-k is 3, but it only applies to sampling"],
    ),
    "translate: several translations of paragraphs": (
        ["translate", "{}/run", "--paragraphs", "--nbest", "2"],
        ["--nbest ranks translations of one sentence", "leave out --paragraphs"],
    ),
    "translate: a checkpoint that is not there": (
        ["translate", "{}/run/checkpoints/step-7.keras"],
        ["{}/run/checkpoints/step-7.keras: no such"],
    ),
    "translate: a checkpoint without its run": (
        ["translate", "{}/alone.keras"],
        ["{}/alone.keras: a checkpoint outside its run"],
    ),
    "evaluate: a file that is not there": (
        score("{}/run", "{}/none.en", "{}/pairs.de"),
        ["{}/none.en does not exist", "give the path"],
    ),
    "evaluate: a folder for a file": (score("{}/run", "{}/pairs.en", "{}"), ["{} is not a regular file"]),
    "evaluate: an unreadable file": (score("{}/run", LONG_NAME, "{}/pairs.de"), [LONG_NAME, "File name too long"]),
    "evaluate: unequal lengths": (
        score("{}/run", "{}/pairs.en", "{}/short.de"),
        ["{}/pairs.en has 24 lines", "{}/short.de has 5", "make them equal"],
    ),
    "evaluate: not UTF-8": (score("{}/run", "{}/pairs.en", "{}/latin.de"), ["{}/latin.de, line 3", "UTF-8", "0xfc"]),
    "evaluate: empty": (score("{}/run", "{}/empty.txt", "{}/empty.txt"), ["no sentence pairs in {}/empty.txt"]),
    "evaluate: no model": (score("{}/none", "{}/pairs.en", "{}/pairs.de"), ["{}/none: neither a run nor a SavedModel"]),
    "evaluate: no checkpoint": (score("{}/unfinished", "{}/pairs.en", "{}/pairs.de"), ["no checkpoint yet"]),
    "evaluate: an unknown engine": (
        [*score("{}/run", "{}/pairs.en", "{}/pairs.de"), "--engine", "marian"],
        ["--engine is marian", "tensorflow, ctranslate2"],
    ),
    "evaluate: an unknown tokenizer": (
        [*score("{}/versions/3", "{}/pairs.en", "{}/pairs.de"), "--tokenize", "13b"],
        ["--tokenize='13b'", "13a"],
    ),
    "average: no run": (["average", "{}"], ["{}: not a run", "give a folder that `train` wrote"]),
    "average: more than there are": (
        ["average", "{}/run", "--last", "9"],
        ["{}/run/checkpoints: ", "the last 9 can't be averaged", "give a smaller --last"],
    ),
    "train: a recipe that is not there": (["train", "{}/none.yaml"], ["{}/none.yaml", "no such recipe"]),
    "train: a folder for a recipe": (["train", "{}"], ["{}: ", "Is a directory"]),
    "train: tabs": (["train", "{}/tabs.yaml"], ["{}/tabs.yaml: line 2: ", "indent with spaces, not tabs"]),
    "train: a wrong type": (
        ["train", "{}/wrong_type.yaml"],
        ["{}/wrong_type.yaml: training.steps is many", "must be a whole number"],
    ),
    "train: an unknown key": (
        ["train", "{}/unknown_key.yaml"],
        ["warm_up_steps", "did you mean training.warmup_steps?"],
    ),
    "train: heads that do not divide": (["train", "{}/heads.yaml"], ["model.num_heads is 5", "must divide d_model"]),
    "train: a wrong setting": (
        train_on("training.steps=-1"),
        ["--set training.steps=-1", "greater than or equal to 1"],
    ),
    "train: not a setting": (train_on("steps"), ["--set steps", "key=value"]),
    "train: no corpus": (train_on("data.test=[pairs.en, none.de]"), ["{}/none.de does not exist"]),
    "train: unequal lengths": (train_on("data.train=[short.de, pairs.en]"), ["has 5 lines", "has 24"]),
    "train: unequal lengths in the test set": (train_on("data.test=[short.de, pairs.en]"), ["has 5 lines", "has 24"]),
    "train: not UTF-8": (train_on("data.train=[pairs.en, latin.de]"), ["{}/latin.de, line 3", "data.invalid_utf8"]),
    "train: an empty corpus": (train_on("data.train=[empty.txt, empty.txt]"), ["no sentence pairs in {}/empty.txt"]),
    "train: too large a vocabulary": (train_on("tokenizer.vocab_size=5000"), ["5000 is larger than", "or fewer"]),
    "train: too small a vocabulary": (train_on("tokenizer.vocab_size=100"), ["100 is too small", "or more"]),
    "train: nothing short enough": (
        train_on("data.max_length=2"),
        ["data.train: no pair is left", "24 too long", "raise data.max_length"],
    ),
    "train: again": (
        [*train_on(), "--run-dir", "{}/run"],
        ["{}/run: contains a finished training", "{}/run/scores.json", "training.steps", "--run-dir"],
    ),
    "train: a run for a recipe": (
        ["train", "{}/run"],
        ["{}/run: a finished run", "tf-transformer train {}/run/recipe.yaml --run-dir NEW_FOLDER"],
    ),
    "train: an interrupted run for a recipe": (
        ["train", "{}/broken off"],
        ["to resume it: tf-transformer train '{}/broken off/recipe.yaml' --run-dir '{}/broken off'"],
    ),
    "train: into a folder of files": ([*train_on(), "--run-dir", "{}"], ["{}: is not empty", "--run-dir"]),
    "train: under a file": (
        [*train_on(), "--run-dir", "{}/empty.txt/new"],
        ["{}/empty.txt is not a folder you can write to"],
    ),
    "export: no run": (["export", "{}/none", "{}/out"], ["{}/none: not a run"]),
    "export: no checkpoint": (["export", "{}/unfinished", "{}/out"], ["no checkpoint yet"]),
    "export: a version that is there": (
        ["export", "{}/run", "{}/versions/3"],
        ["{}/versions/3: this version already exists"],
    ),
    "export: onto a file": (["export", "{}/run", "{}/pairs.en"], ["{}/pairs.en: a file"]),
    "export: under a file": (["export", "{}/run", "{}/pairs.en/out"], ["{}/pairs.en/out/1", "Not a directory"]),
    "export: an unknown format": (
        ["export", "{}/run", "{}/out", "--format", "onnx"],
        ["--format is onnx", "savedmodel, ctranslate2"],
    ),
    "export: half a CTranslate2 model": (
        ["export", "{}/run", "{}/out", "--format", "ctranslate2", "--float16"],
        ["--float16", "--quantization"],
    ),
    "export: a CTranslate2 model's beam": (
        ["export", "{}/run", "{}/out", "--format", "ctranslate2", "--beam-size", "2"],
        ["--beam-size", "is for --format savedmodel"],
    ),
    "export: a quantised SavedModel": (
        ["export", "{}/run", "{}/out", "--quantization", "int8"],
        ["--quantization", "--format ctranslate2"],
    ),
    "export: an impossible name": (["export", "{}/run", LONG_NAME], [LONG_NAME, "File name too long"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_status_2_and_harms_nothing(command, mistakes, name):
    words, told = MISTAKES[name]
    before = contents(mistakes)
    outcome = command(*(str(word).replace("{}", str(mistakes)) for word in words), stdin=b"A man.\n")
    assert_mistake(outcome, *(text.replace("{}", str(mistakes)) for text in told))
    assert contents(mistakes) == before
