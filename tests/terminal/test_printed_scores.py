"""Scores as the commands print them."""

from tf_transformer.terminal.printed_scores import show_scores


def test_a_figure_that_is_null_in_scores_json_is_told(capsys):
    """Of each set; one that a set does not have is something else."""
    own = {"set": "test", "sentences": 9, "bleu": 1.0, "chrf": 2.0, "signature": "B", "chrf_signature": "C"}
    also = {"old": {"sentences": 3, "bleu": 4.0}, "new": {"sentences": 3, "bleu": 5.0, "perplexity": None}}
    show_scores({**own, "perplexity": None, "also": also}, as_json=False)
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert ["perplexity not finite per token"] in lines
    assert [(words[0], words[-1].strip()) for words in lines[-3:]] == [
        ("test", "not finite"),
        ("old", "-"),
        ("new", "not finite"),
    ]
